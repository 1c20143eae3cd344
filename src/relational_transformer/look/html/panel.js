// A panel: the picture of one voice on one example, with what holds for the whole graph above it.

const VIEWS = { graph: graphView, array: arrayView, intervals: intervalsView, strings: stringsView, plane: planeView, matrix: matrixView };
const LAYERS = ["back", "edges", "masks", "attention", "marks", "nodes", "front"];

class Panel {
  constructor(example, voice, choice) {
    Object.assign(this, { example, voice, choice });
    this.view = VIEWS[facts.view];
    this.stage = new Stage(...this.view.size(example), LAYERS);
    this.stage.svg.setAttribute("role", "img");
    this.stage.svg.classList.add("picture");
    this.name = voice === TRUTH ? (facts.runs.length ? "The algorithm" : facts.title) : facts.runs[voice].name;
    this.badges = element("p", { class: "badges" });
    const heading = element(facts.scenes.length > 1 ? "h3" : "h2", { class: "whose", hidden: !facts.runs.length }, this.name);
    if (voice !== TRUTH) {
      const score = example.scene.runs[voice].score;
      heading.append(element("span", { class: score > 0.995 ? "score good" : "score" }, `score ${(score * 100).toFixed(1)} %`));
    }
    this.holder = element("figure", { class: "panel" }, heading, this.badges, this.stage.svg, ...(choice?.row() ?? []));
    explainOnHover(this.stage.svg, (place) => tellOf(example, voice, this.stop, place));
  }

  draw(stop) {
    this.stop = stop;
    const frame = new Frame(this, stop);
    this.stage.begin();
    const anchor = this.view.draw(frame);
    if (anchor && this.choice?.isDrawn) {
      const weights = this.choice.weights(stop);
      if (weights) drawAttention(frame, anchor, weights, this.view.lines);
    }
    this.stage.end();
    this.drawBadges(frame);
    this.stage.svg.setAttribute("aria-label", `${this.name}, ${nameOfStop(this.example, stop)}: ${changes(this.example, this.voice, stop).join("; ") || "nothing that is shown changes"}`);
  }

  // Numbers, classes and answers of the whole graph.
  drawBadges(frame) {
    const made = [];
    for (const type of ["categorical", "mask", "scalar"]) {
      for (const name of frame.names("graph", type)) {
        const feature = FEATURES.get(name), wrong = frame.isWrong(name, 0), value = frame.values(name)[0];
        const text = type === "scalar" ? `${name} ${number(value)}` : `${feature.flags.length || feature.classes.length ? "" : `${name}: `}${inWords(feature, value)}`;
        made.push(element("span", { class: wrong ? "badge bad" : "badge", title: feature.words }, text));
      }
    }
    this.badges.replaceChildren(...made);
    this.badges.hidden = !facts.features.some((one) => one.location === "graph" && one.stage !== "input" && !this.example.hidden.has(one.name));
  }
}
