// Every value of a step as a table: a row for each hint and voice, a column for each node.

class Strips {
  constructor(example, names) {
    this.example = example;
    this.cells = [];
    this.table = element("table", { class: "strips" });
    this.holder = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Every value at this step, ${example.nodes} nodes` }, this.table);
    this.stage = null;
    this.names = names;
  }

  build(stop) {
    this.table.replaceChildren();
    this.cells = [];
    const { nodes } = this.example, head = element("tr", {}, element("th", { scope: "col" }, "hint"), element("th", { scope: "col" }, "by"));
    for (let node = 0; node < nodes; node++) head.append(element("th", { scope: "col" }, `${node}`));
    this.table.append(element("thead", {}, head));
    for (const name of this.example.namesAt(stop)) {
      const feature = FEATURES.get(name);
      if (feature.location === "edge") continue;
      this.table.append(element("tbody", {}, ...this.example.voices.map((voice, number) => this.row(feature, voice, number, nodes))));
    }
  }

  row(feature, voice, number, nodes) {
    const row = element("tr", { class: number ? "said" : "true" });
    if (!number) row.append(element("th", { scope: "rowgroup", rowspan: this.example.voices.length, title: feature.words }, feature.name));
    row.append(element("td", { class: "by", role: "rowheader" }, voice === TRUTH ? "true" : facts.runs[voice].name));
    const isOne = feature.location === "graph", cells = [];
    for (let node = 0; node < (isOne ? 1 : nodes); node++) {
      const cell = element("td", isOne ? { colspan: nodes, class: "whole" } : { "data-place": `${node}`, "data-voice": `${voice}` });
      row.append(cell);
      cells.push({ cell, shown: null });
    }
    this.cells.push({ feature, voice, cells });
    return row;
  }

  draw(stop) {
    const stage = stop === this.example.result ? "output" : "hint";
    if (this.stage !== stage) this.build(stop);
    this.stage = stage;
    for (const { feature, voice, cells } of this.cells) {
      const values = this.example.values(voice, feature.name, stop);
      cells.forEach((one, node) => this.fill(one, feature, voice, stop, node, values));
    }
  }

  fill(one, feature, voice, stop, node, values) {
    const isChoice = feature.type === "mask_one", place = isChoice ? 0 : node;
    let text = "–", state = "";
    if (values) {
      text = isChoice ? (values[0] === node ? "●" : "") : feature.type === "mask" && feature.location === "node" ? (values[node] === 1 ? "■" : values[node] === 0 ? "·" : "") : feature.location === "graph" ? inWords(feature, values[place]) : short(feature, values[place]);
      const counts = !isChoice || values[0] === node || this.example.values(TRUTH, feature.name, stop)[0] === node;
      if (counts && this.example.isWrong(voice, feature.name, stop, place)) state = this.example.isNew(voice, feature.name, stop, place) ? "bad new" : "bad";
    }
    const shown = `${text}|${state}`;
    if (one.shown === shown) return;
    one.shown = shown;
    one.cell.textContent = text;
    one.cell.className = `${state} ${feature.location === "graph" ? "whole" : ""}`.trim();
    if (state) one.cell.setAttribute("aria-label", `${text || "none"}, wrong`);
    else one.cell.removeAttribute("aria-label");
  }
}
