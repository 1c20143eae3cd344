// Two strings as cells; the short one stands below the long one, where it is being tried.

const stringsView = {
  size: () => [UNITS, 304],
  lines: { gap: 8, below: true },

  draw(frame) {
    const { nodes, stage } = frame, first = frame.example.scene.first, keys = frame.input("key");
    const letters = FEATURES.get("key").classes, cell = Math.min(38, (stage.width - 24) / first), left = (stage.width - cell * first) / 2;
    const shiftName = facts.options.shift, isOn = !frame.isResult && frame.has(shiftName) && frame.values(shiftName);
    const start = isOn ? frame.values(shiftName)[0] : frame.isResult ? frame.values("match")[0] : 0;
    const shift = Math.min(Math.max(start, 0), Math.max(0, 2 * first - nodes)), above = 106, below = above + Math.max(cell, 22) + 56;
    const anchor = (node) => (node < first ? [left + (node + 0.5) * cell, above] : [left + (node - first + shift + 0.5) * cell, below]);
    const masks = frame.names("node", "mask");
    for (let node = 0; node < nodes; node++) {
      const at = anchor(node), on = masks.find((name) => frame.values(name)[node] === 1), data = `${node}`;
      const { wrong, fresh } = frame.judge([...masks, ...frame.names("node", "pointer")], node), letter = keys[node];
      stage.put("nodes", `cell ${node}`, "rect", {
        x: -cell / 2 + 1, y: -cell / 2 + 1, width: cell - 2, height: cell - 2, rx: Math.min(6, cell / 5),
        fill: on ? colorOf(on) : `var(--letter-${letter})`, class: wrong ? "cell bad" : "cell",
      }, { at, data });
      if (cell > 8) stage.put("nodes", `letter ${node}`, "text", { class: "letter", y: cell / 6, "font-size": cell * (cell > 20 ? 0.5 : 0.8) }, { at, text: letters[letter], data });
      if (cell > 20) {
        const side = node < first ? -cell / 2 - 5 : cell / 2 + 13;
        stage.put("nodes", `name ${node}`, "text", { class: "index", y: side }, { at, text: data, data });
      }
      if (fresh) alarm(frame, `cell ${node}`, [at[0] + cell / 2 - 3, at[1] - cell / 2 + 3]);
    }
    if (facts.options.compare && !frame.isResult) this.compared(frame, anchor, keys, cell);
    stage.put("back", "long", "text", { class: "side" }, { at: [left, 14], text: "the long string" });
    stage.put("back", "short", "text", { class: "side" }, { at: [left, stage.height - 10], text: "the short string, where it is tried" });
    const others = frame.names("node", "pointer").filter((name) => !FEATURES.get(name).constant);
    const rim = (node) => [anchor(node)[0], anchor(node)[1] + cell / 2 + 17];
    others.forEach((name) => pointers(frame, name, rim, { gap: 2, below: true }));
    tags(frame, (node, number, width) => {  // first in a pile, then beside it
      const [x, y] = anchor(node), isLong = node < first, pile = isLong ? 3 : 2, isUp = isLong || others.length;
      const distance = cell / 2 + (isLong || !others.length ? 28 : 14) + (number % pile) * TAG;
      return [x + Math.floor(number / pile) * (width + 2), isUp ? y - distance : y + distance];
    }, { tries: 12 });
    return anchor;
  },

  // A line between the two characters that are compared: whole if they are the same, broken if not.
  compared(frame, anchor, keys, cell) {
    const [a, b] = facts.options.compare.map((name) => frame.values(name)[0]);
    const same = keys[a] === keys[b], [x1, y1] = anchor(a), [x2, y2] = anchor(b);
    if (a === b) return;
    const look = { x1, y1: y1 + cell / 2, x2, y2: y2 - cell / 2, stroke: same ? "var(--good)" : "var(--ink)" };
    frame.stage.put("edges", "compared", "line", { ...look, "stroke-width": 3, "stroke-dasharray": same ? null : "4 4" });
    const at = [(x1 + x2) / 2 + 16, (y1 + y2) / 2 + 5];
    frame.stage.put("edges", "same", "text", { class: "number", "font-size": 16, fill: look.stroke }, { at, text: same ? "=" : "≠" });
  },
};
