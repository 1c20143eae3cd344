// Where a run is wrong: a bar for every stop, strong where mistakes are new.

class Timeline {
  constructor(example, voice, player) {
    Object.assign(this, { example, voice });
    const go = (stop) => player.goTo(example, stop), stops = example.result + 1;
    this.stage = new Stage(stops, 20, ["nodes"]);
    this.stage.svg.setAttribute("preserveAspectRatio", "none");
    this.stage.svg.setAttribute("aria-hidden", "true");
    this.stage.svg.addEventListener("click", (event) => {
      const box = this.stage.svg.getBoundingClientRect();
      go(Math.min(stops - 1, Math.floor(((event.clientX - box.left) / box.width) * stops)));
    });
    const name = facts.scenes.length > 1 ? `${facts.runs[voice].name}, ${example.nodes}` : facts.runs[voice].name;
    this.jump = element("button", { type: "button", class: "link", onclick: () => go(this.first) });
    this.holder = element("div", { class: "timeline" }, element("span", { class: "whose" }, name), this.stage.svg, this.jump);
    this.draw();
  }

  // What is wrong of what is switched on.
  draw() {
    const counts = this.example.mistakesAt[this.voice], most = Math.max(1, ...counts.map((one) => one.wrong));
    this.stage.begin();
    counts.forEach(({ wrong, fresh }, stop) => {
      const height = wrong ? 4 + (16 * Math.log1p(wrong)) / Math.log1p(most) : 2;
      const kind = fresh ? "fresh" : wrong ? "still" : "fine";
      this.stage.put("nodes", `${stop}`, "rect", { x: stop + 0.1, y: 20 - height, width: 0.8, height, class: `mark ${kind}` });
    });
    this.stage.end();
    this.first = counts.findIndex((one) => one.wrong > 0);
    this.jump.disabled = this.first < 0;
    this.jump.textContent = this.first < 0 ? "no mistake" : `first mistake: ${this.first === this.example.result ? "in the result" : `step ${this.first}`}`;
  }
}
