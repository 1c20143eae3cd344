// The player: a slider over all stops, buttons, keys, and the step in words for those who listen.

const SPEEDS = { slow: 1600, normal: 800, fast: 300 };

class Player {
  constructor(examples, show) {
    this.examples = examples;
    this.show = show;
    this.last = Math.max(...examples.map((example) => example.result));
    this.stop = 0;
    this.timer = null;
    const button = (label, sign, act) => element("button", { type: "button", "aria-label": label, title: label, onclick: act }, sign);
    this.slider = element("input", { type: "range", min: 0, max: this.last, value: 0, step: 1, "aria-label": "Step of the algorithm", oninput: () => this.go(+this.slider.value) });
    this.playButton = button("Play", "▶", () => this.toggle());
    this.playButton.classList.add("play");
    this.speed = element("select", { "aria-label": "Speed", onchange: () => this.timer && this.play() });
    for (const name of Object.keys(SPEEDS)) this.speed.append(element("option", { value: name, selected: name === "normal" }, name));
    this.where = element("span", { class: "where" });
    this.words = element("p", { class: "words", tabindex: "0", "aria-live": "polite", id: "words" });
    const row = element("div", { class: "row" },
      button("First step", "|◀", () => this.go(0)), button("One step back", "◀", () => this.go(this.stop - 1)), this.playButton,
      button("One step on", "▶|", () => this.go(this.stop + 1)), this.slider, this.where, this.speed);
    this.lines = element("div", { class: "lines" });
    this.holder = element("div", { class: "player", role: "region", "aria-label": "Player" }, this.words, this.lines, row);
    document.addEventListener("keydown", (event) => this.press(event));
  }

  // The stop of an example that stands beside a stop of the longest one.
  stopOf(example, stop = this.stop) {
    return example.result === this.last ? stop : Math.round((stop / this.last) * example.result);
  }

  goTo(example, stop) {
    this.go(example.result === this.last ? stop : Math.round((stop / example.result) * this.last));
  }

  go(stop, byItself = false) {
    if (!byItself) this.pause();
    hideTooltip();  // it tells of another step
    this.stop = Math.min(Math.max(stop, 0), this.last);
    this.slider.value = this.stop;
    this.tell();
  }

  // This stop in words, and in pictures.
  tell() {
    const told = this.examples.map((example) => {
      const where = nameOfStop(example, this.stopOf(example)), what = sentence(example, this.stopOf(example));
      return { where, text: this.examples.length > 1 ? `${example.nodes} nodes, ${where}: ${what}` : `${where}: ${what}` };
    });
    const longest = told[this.examples.findIndex((example) => example.result === this.last)];
    this.where.textContent = longest.where.replace("Step ", "").replace(" of ", " / ");
    this.slider.setAttribute("aria-valuetext", longest.where);
    this.words.textContent = told.map((one) => one.text).join(" ");
    this.show();
  }

  play() {
    clearInterval(this.timer);
    if (this.stop === this.last) this.go(0, true);
    this.words.setAttribute("aria-live", "off");
    this.playButton.textContent = "⏸";
    this.playButton.setAttribute("aria-label", "Pause");
    this.timer = setInterval(() => {
      this.go(this.stop + 1, true);
      if (this.stop === this.last) this.pause();
    }, SPEEDS[this.speed.value]);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.words.setAttribute("aria-live", "polite");
    this.playButton.textContent = "▶";
    this.playButton.setAttribute("aria-label", "Play");
  }

  toggle() {
    if (this.timer) this.pause();
    else this.play();
  }

  // The next stop at which any run makes a new mistake.
  nextMistake() {
    for (let ahead = 1; ahead <= this.last; ahead++) {
      const stop = (this.stop + ahead) % (this.last + 1);
      if (this.examples.some((example) => example.mistakesAt.some((counts) => counts[this.stopOf(example, stop)].fresh))) return this.go(stop);
    }
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const scrolled = event.target.closest?.(".scroll, .panels");  // with arrows, where it is wider than its place
    if (event.key.startsWith("Arrow") && (event.target === this.slider || scrolled?.scrollWidth > scrolled?.clientWidth)) return;
    if (event.key === " " && /^(BUTTON|SUMMARY|INPUT)$/.test(event.target.tagName) && event.target !== this.slider) return;
    const acts = {
      ArrowRight: () => this.go(this.stop + 1), ArrowLeft: () => this.go(this.stop - 1), Home: () => this.go(0),
      End: () => this.go(this.last), " ": () => this.toggle(), m: () => this.nextMistake(), Escape: hideTooltip,
    };
    if (!acts[event.key]) return;
    acts[event.key]();
    if (event.key !== "Escape") event.preventDefault();
  }
}
