// A graph: nodes on a plane, edges between them, and what the algorithm knows of both.

const graphView = {
  size: (example) => [UNITS, IS_NARROW ? 410 : example.nodes > 24 ? 640 : 560],
  lines: { gap: IS_NARROW ? 16 : 20 },

  draw(frame) {
    const { nodes, stage } = frame, small = nodes > 24;
    const radius = small ? (IS_NARROW ? 7 : 11) : IS_NARROW ? 14 : 17, places = frame.example.at(frame.example.scene.places, null), margin = small || IS_NARROW ? 40 : 52;
    const anchor = (node) => [
      margin + places[2 * node] * (stage.width - 2 * margin), margin + places[2 * node + 1] * (stage.height - 2 * margin),
    ];
    this.edges(frame, anchor, radius);
    frame.names("node", "pointer").forEach((name, number) => pointers(frame, name, anchor, { gap: radius + 3, bend: 0.1 + 0.14 * number }));
    for (let node = 0; node < nodes; node++) this.node(frame, node, anchor(node), radius);
    tagsAround(frame, anchor, radius);
    return anchor;
  },

  edges(frame, anchor, radius) {
    const { nodes } = frame, adjacent = frame.input("adj"), weights = frame.input("A"), directed = facts.options.directed;
    const masks = frame.names("edge", "mask"), count = this.count(adjacent, nodes), isFew = nodes <= 24 && count <= 2.5 * nodes;
    const faint = { width: nodes > 24 ? 1 : 1.4, opacity: Math.min(1, Math.max(0.15, 100 / count)).toFixed(2), head: directed && nodes <= 24 };
    for (let i = 0; i < nodes; i++) {
      for (let j = directed ? 0 : i + 1; j < nodes; j++) {
        const place = i * nodes + j;
        if (i === j) continue;
        const look = { gap: radius, color: "var(--edge)", bend: directed && adjacent[j * nodes + i] ? 0.06 : 0, ...faint };
        if (adjacent[place]) {
          arrow(frame, "edges", `edge ${place}`, anchor(i), anchor(j), look);
          if (facts.options.weighted && isFew) this.weight(frame, place, anchor(i), anchor(j), weights[place]);
          if (isFew) arrow(frame, "edges", `hold ${place}`, anchor(i), anchor(j), { ...look, color: "transparent", width: 14, head: false, data: `${i},${j}` });
        }
        for (const name of masks) {
          const on = frame.values(name)[place] === 1, wrong = frame.isWrong(name, place);
          if (!on && !wrong) continue;
          const strong = { ...look, head: directed, color: wrong ? BAD : colorOf(name), width: on ? 5 : 3, dashed: !on, opacity: on ? 0.85 : 0.7 };
          arrow(frame, "masks", `${name} ${place}`, anchor(i), anchor(j), strong);
          if (frame.isNew(name, place)) {
            const [a, b] = [anchor(i), anchor(j)];
            alarm(frame, `${name} ${place}`, [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2]);
          }
        }
      }
    }
  },

  // Edges between different nodes; those that lead both ways are one.
  count(adjacent, nodes) {
    let found = 0;
    for (let i = 0; i < nodes; i++) for (let j = 0; j < i; j++) found += adjacent[i * nodes + j] || adjacent[j * nodes + i] ? 1 : 0;
    return found;
  },

  weight(frame, place, from, to, value) {
    const at = [from[0] * 0.55 + to[0] * 0.45, from[1] * 0.55 + to[1] * 0.45 + 3];
    frame.stage.put("marks", `weight ${place}`, "text", { class: "weight" }, { at, text: value.toFixed(2).replace(/^0/, "") });
  },

  node(frame, node, at, radius) {
    const stage = frame.stage, categories = frame.names("node", "categorical"), masks = frame.names("node", "mask");
    const scalars = frame.names("node", "scalar"), around = frame.names("node", "pointer");
    const { wrong, fresh } = frame.judge([...categories, ...masks, ...scalars, ...around], node);
    let fill = "var(--card)", ink = "var(--ink)", stroke = "var(--node)";
    if (categories.length) {
      const value = frame.values(categories[0])[node];
      [fill, ink] = [["var(--card)", "var(--ink)"], ["var(--grey)", "var(--ink)"], ["var(--ink)", "var(--card)"]][value] ?? [fill, ink];
    }
    const on = masks.filter((name) => frame.values(name)[node] === 1);
    if (on.length && !categories.length) [fill, ink] = [colorOf(on[0]), "var(--on-color)"];
    const ring = categories.length ? on[0] : on[1];
    if (ring) stage.put("nodes", `ring ${node}`, "circle", { r: radius + 4.5, fill: "none", stroke: colorOf(ring), "stroke-width": 4 }, { at });
    if (frame.has("s") && FEATURES.get("s").stage === "input" && frame.input("s")[0] === node) {
      stage.put("nodes", `source ${node}`, "circle", { r: radius + 3.5, fill: "none", stroke: "var(--ink)", "stroke-width": 1.6 }, { at });
    }
    const data = `${node}`;
    stage.put("nodes", `node ${node}`, "circle", { r: radius, fill, stroke, "stroke-width": 1.6, class: "node" }, { at, data });
    stage.put("nodes", `name ${node}`, "text", { class: "name", "font-size": radius * (radius < 13 ? 1.05 : 0.9), y: radius * 0.33, fill: ink }, { at, text: data, data });
    frame.covered.push({ x: at[0], y: at[1], radius: radius + 1 });
    if (scalars.length) this.scalar(frame, scalars[0], node, at, radius);
    if (wrong) stage.put("nodes", `wrong ${node}`, "circle", { r: radius + 8, class: "wrong" }, { at });
    if (fresh) alarm(frame, `node ${node}`, [at[0] - radius * 0.85, at[1] - radius * 0.85]);
  },

  // A number below its node, with a bar that is as long as it is large.
  scalar(frame, name, node, at, radius) {
    const value = frame.values(name)[node], whole = frame.example.at(frame.example.scene.truth[name], null);
    const most = (frame.most ??= new Map()).get(name) ?? whole.reduce((high, one) => Math.max(high, Math.abs(one)), 1e-6);
    frame.most.set(name, most);
    if (frame.nodes > 24 || (value === 0 && !frame.isWrong(name, node))) return;
    const below = [at[0], at[1] + radius + 6], color = frame.isWrong(name, node) ? BAD : colorOf(name);
    const length = Math.min(1, Math.abs(value) / most) * 30;
    frame.covered.push({ x: below[0], y: below[1] + 9, width: 30, height: 18 });
    frame.stage.put("nodes", `bar back ${node}`, "rect", { x: -15, width: 30, height: 5, rx: 2.5, fill: "var(--line)" }, { at: below });
    frame.stage.put("nodes", `bar ${node}`, "rect", { x: -15, width: length, height: 5, rx: 2.5, fill: color }, { at: below });
    frame.stage.put("nodes", `value ${node}`, "text", { class: "value", y: 16, fill: color }, { at: below, text: rounded(value) });
  },
};
