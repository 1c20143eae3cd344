// An array: bars that stand in the order that the algorithm, or the model, has them in.

// Nodes in the order that pointers to the one before make; where they make none, as far as they do.
function orderOf(before) {
  const following = Array.from(before, () => []), seen = new Set(), order = [];
  before.forEach((target, node) => target !== node && following[target]?.push(node));
  const walk = (start) => {
    const waiting = [start];
    while (waiting.length) {
      const node = waiting.pop();
      if (seen.has(node)) continue;
      seen.add(node);
      order.push(node);
      waiting.push(...following[node].slice().reverse());
    }
  };
  before.forEach((target, node) => target === node && walk(node));
  before.forEach((_, node) => walk(node));
  return order;
}

const arrayView = {
  size: () => [UNITS, 362],
  base: 250,
  lines: { gap: 4, below: true },

  draw(frame) {
    const { nodes, stage } = frame, options = facts.options, heights = frame.input(options.height);
    const slot = (stage.width - 24) / nodes, most = heights.reduce((high, one) => Math.max(high, Math.abs(one)), 1e-6);
    const signed = heights.some((one) => one < 0), zero = signed ? 140 : this.base, full = signed ? 100 : 190;
    const ordering = this.ordering(frame), order = ordering ? orderOf(frame.values(ordering)) : [...heights.keys()];
    const seats = new Array(nodes);
    order.forEach((node, place) => (seats[node] = 12 + (place + 0.5) * slot));
    this.bands(frame, seats, slot);
    stage.put("back", "ground", "line", { x1: 8, x2: stage.width - 8, y1: zero, y2: zero, stroke: "var(--line)", "stroke-width": 1.5 });
    if (options.level) this.level(frame, zero - (frame.input(options.level)[0] / most) * full);
    for (let node = 0; node < nodes; node++) this.bar(frame, node, seats[node], slot, zero, (heights[node] / most) * full, ordering, signed);
    const others = frame.names("node", "pointer").filter((name) => name !== ordering && !FEATURES.get(name).constant);
    others.forEach((name) => pointers(frame, name, (node) => [seats[node], this.base + 22], { gap: 2, below: true }));
    const below = this.base + (options.note ? 54 : 38), above = (node) => zero - (heights[node] / most) * full - 26;
    const look = { tries: 12, foot: others.length ? (node) => [seats[node], above(node) + 10] : null };
    tags(frame, (node, number) => [seats[node], others.length ? Math.max(11, above(node) - number * TAG) : below + number * TAG], look);
    return (node) => [seats[node], this.base + 22];
  },

  ordering(frame) {
    const name = frame.isResult ? facts.options.result_order : facts.options.order;
    return name && frame.has(name) && !frame.hidden.has(name) && frame.values(name) ? name : null;
  },

  bands(frame, seats, slot) {
    for (const [first, last] of facts.options.bands ?? []) {
      const there = frame.names("node", "mask_one");
      if (!there.includes(first) || !there.includes(last)) continue;
      const ends = [seats[frame.values(first)[0]], seats[frame.values(last)[0]]].sort((a, b) => a - b);
      const color = frame.isWrong(first, 0) || frame.isWrong(last, 0) ? BAD : colorOf(first);
      frame.stage.put("back", `band ${first}`, "rect", {
        x: 0, y: 16, width: ends[1] - ends[0] + slot, height: this.base + 10, rx: 8, fill: color, class: "band",
      }, { at: [ends[0] - slot / 2, 0] });
    }
  },

  level(frame, y) {
    frame.stage.put("front", "level", "line", { x1: 4, x2: frame.stage.width - 4, y1: y, y2: y, class: "level" });
    const text = `${facts.options.level} ${frame.input(facts.options.level)[0].toFixed(2)}`;
    frame.stage.put("front", "level name", "text", { class: "level-name" }, { at: [frame.stage.width - 8, y - 6], text });
  },

  bar(frame, node, x, slot, zero, height, ordering, signed) {
    const { stage, nodes } = frame, width = Math.max(3, slot * (nodes > 24 ? 0.72 : 0.78)), data = `${node}`;
    const masks = frame.names("node", "mask"), on = masks.find((name) => frame.values(name)[node] === 1);
    const { wrong, fresh } = frame.judge([...masks, ...(ordering ? [ordering] : []), ...frame.names("node", "pointer")], node);
    const look = { x: -width / 2, y: height > 0 ? -height : 0, width, height: Math.max(2, Math.abs(height)), rx: Math.min(5, width / 4) };
    const fill = on ? colorOf(on) : "var(--bar)";
    stage.put("nodes", `bar ${node}`, "rect", { ...look, fill, class: wrong ? "bar bad" : "bar" }, { at: [x, zero], data });
    const below = signed ? this.base + 16 : zero + 16;
    if (nodes <= 24) {
      const value = frame.input(facts.options.height)[node].toFixed(2).replace(/^(-?)0\./, "$1.");
      const up = height > 0 ? -height - 5 : -height + 12;
      stage.put("nodes", `value ${node}`, "text", { class: "value", y: up }, { at: [x, zero], text: value, data });
      stage.put("nodes", `name ${node}`, "text", { class: "index", fill: wrong ? BAD : null }, { at: [x, below], text: data, data });
      if (facts.options.note) {
        const note = `${IS_NARROW ? "" : (facts.options.note_words ?? "")} ${Math.round(frame.input(facts.options.note)[node])}`;
        stage.put("nodes", `note ${node}`, "text", { class: "note" }, { at: [x, below + 16], text: note });
      }
    } else if (wrong) stage.put("nodes", `name ${node}`, "circle", { r: 3, fill: BAD }, { at: [x, below - 4] });
    const text = nodes <= 24 ? 16 : 0;  // of the value
    frame.covered.push({ x, y: zero - (Math.max(height, 0) + text) / 2, width, height: Math.max(height, 0) + text });
    if (fresh) alarm(frame, `bar ${node}`, [x, zero - Math.max(height, 0) - (nodes <= 24 ? 24 : 10)]);
  },
};
