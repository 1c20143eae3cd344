// Inside a model: a square for each pair of nodes, strong where attention, or the norm of the edge vector, is large.

class Squares {
  constructor(example, label, color, tell) {
    this.example = example;
    this.color = color;
    this.values = null;
    this.stage = new Stage(320, 320, ["nodes", "front"]);
    this.stage.svg.setAttribute("role", "img");
    this.stage.svg.setAttribute("aria-label", label);
    this.stage.svg.classList.add("squares");
    explainOnHover(this.stage.svg, (place) => {
      const [i, j] = place.split(",").map(Number);
      return tell(i, j, this.values[i * example.nodes + j] / 255);
    });
  }

  draw(values) {
    const { nodes } = this.example, size = 300 / nodes;
    this.values = values;
    this.stage.begin();
    for (let node = 0; node < nodes; node += nodes > 24 ? 8 : 1) {
      const look = { class: "index tiny" };
      this.stage.put("front", `row ${node}`, "text", look, { at: [9, 20 + (node + 0.5) * size + 3], text: `${node}` });
      this.stage.put("front", `column ${node}`, "text", look, { at: [20 + (node + 0.5) * size, 13], text: `${node}` });
    }
    for (let place = 0; place < (values ? nodes * nodes : 0); place++) {
      const [i, j] = [Math.floor(place / nodes), place % nodes];
      this.stage.put("nodes", `${place}`, "rect", {
        x: 20 + j * size, y: 20 + i * size, width: size - 0.5, height: size - 0.5, rx: nodes > 24 ? 0 : 2,
        fill: this.color, "fill-opacity": (0.04 + 0.96 * Math.sqrt(values[place] / 255)).toFixed(3),
      }, { data: `${i},${j}` });
    }
    this.stage.end();
  }
}

// Nodes on a ring, with attention as lines: for pictures that are tables, in which no line can lead from node to node.
class Ring {
  constructor(example, label) {
    this.nodes = example.nodes;
    this.stage = new Stage(320, 320, ["attention", "nodes"]);
    this.stage.svg.setAttribute("role", "img");
    this.stage.svg.setAttribute("aria-label", label);
    this.stage.svg.classList.add("ring");
  }

  draw(weights) {
    const { nodes, stage } = this, radius = nodes > 24 ? 5 : 11, turn = (2 * Math.PI) / nodes;
    const anchor = (node) => [160 + 138 * Math.sin(node * turn), 160 - 138 * Math.cos(node * turn)];
    stage.begin();
    for (let node = 0; node < nodes; node++) {
      const data = `${node}`, at = anchor(node);
      stage.put("nodes", `node ${node}`, "circle", { r: radius, fill: "var(--card)", stroke: "var(--node)" }, { at, data });
      if (radius > 8) stage.put("nodes", `name ${node}`, "text", { class: "index", y: 4 }, { at, text: data });
    }
    if (weights) drawAttention(this, anchor, weights, { gap: radius + 1 });
    stage.end();
  }
}

const ALIKE = 0.002;  // of the largest length: less than that is rounding

// Attention and edge vectors of one run on one example, with a choice of layer and head.
class Inside {
  constructor(example, voice, choice) {
    Object.assign(this, { example, voice, choice });
    const run = example.scene.runs[voice], name = facts.runs[voice].name, [low, high] = run.norm_range;
    const lines = (head, text) => [element("b", {}, head), element("span", {}, text)];
    this.attention = new Squares(example, `Attention in ${name}: row i attends to column j`, "var(--attention)", (i, j, weight) =>
      lines(`node ${i} attends to node ${j}`, `with weight ${weight.toFixed(2)}`));
    this.norms = new Squares(example, `Length of the edge vectors in ${name}`, "var(--c3)", (i, j, share) =>
      lines(`edge vector of nodes ${i} and ${j}`, `length ${number(low + share * (high - low))}`));
    const figures = element("div", { class: "figures" });
    this.ring = run.attention && facts.view === "matrix" ? new Ring(example, `Attention as lines in ${name}`) : null;
    if (run.attention) {
      const controls = element("p", { class: "controls" }, ...choice.selects());
      figures.append(element("figure", {}, controls, this.attention.stage.svg, element("figcaption", {}, `Attention: row i attends to column j. ${run.attention_note}`)));
      if (this.ring) figures.append(element("figure", {}, element("p", { class: "controls" }, "attention as lines"), this.ring.stage.svg, element("figcaption", {}, LINES)));
    } else figures.append(element("p", { class: "soft" }, run.attention_note));
    if (run.norms && high - low < ALIKE * high) {
      figures.append(element("p", { class: "soft" }, `All edge vectors have the length ${number(high)} after every step.`));
    } else if (run.norms) {
      const caption = `The length of each edge vector after this step, from ${number(low)} (faint) to ${number(high)} (strong).`;
      figures.append(element("figure", {}, element("p", { class: "controls" }, "edge vector of row i and column j"), this.norms.stage.svg, element("figcaption", {}, caption)));
    }
    this.holder = element("section", { class: "inside" }, element("h3", {}, `Inside ${name}`), element("p", { class: "soft" }, facts.runs[voice].about), figures);
  }

  draw(stop) {
    const weights = this.choice.weights(stop);
    this.attention.draw(weights);
    this.ring?.draw(weights);
    this.norms.draw(this.example.norms(this.voice, stop));
  }
}
