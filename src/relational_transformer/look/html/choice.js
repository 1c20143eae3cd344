// Which layer and head of a run are looked at, and whether its picture shows them. The controls stand in two places, and
// say the same.
const LINES = `A line from each node to those that it attends to, as wide as the weight is large. Weights below ${LEAST} are left out.`;

class Choice {
  constructor(example, voice, changed) {
    Object.assign(this, { example, voice, changed, layer: 0, head: -1, isDrawn: false, copies: [] });
    this.run = example.scene.runs[voice];
    this.name = facts.runs[voice].name;
  }

  set(what, value) {
    this[what] = value;
    this.copies.forEach((copy) => copy());
    this.changed();
  }

  select(what, options) {
    const made = element("select", { "aria-label": `${what} of ${this.name}`, onchange: () => this.set(what, +made.value) });
    options.forEach(([value, text]) => made.append(element("option", { value }, text)));
    made.value = this[what];
    this.copies.push(() => (made.value = this[what]));
    return made;
  }

  // A layer and a head to choose, where there are several; nothing where no attention was kept.
  selects() {
    if (!this.run.attention) return [];
    const layers = this.run.layers.map((layer, place) => [place, `layer ${layer}`]);
    const heads = Array.from({ length: this.run.attention.shape[2] }, (_, head) => [head, `head ${head + 1}`]);
    const choices = [["layer", layers], ["head", [[-1, "all heads"], ...heads]]];
    return choices.filter(([what, options]) => options.length > (what === "head" ? 2 : 1)).map(([what, options]) => this.select(what, options));
  }

  // The same below a picture, with a box that draws it there.
  row() {
    if (!this.run.attention || facts.view === "matrix") return [];
    const box = element("input", { type: "checkbox", onchange: () => this.set("isDrawn", box.checked) });
    return [element("p", { class: "controls" }, element("label", { title: LINES }, box, IS_NARROW ? " attention" : " attention as lines"), ...this.selects())];
  }

  weights(stop) {
    return this.example.attention(this.voice, this.layer, this.head, stop);
  }
}
