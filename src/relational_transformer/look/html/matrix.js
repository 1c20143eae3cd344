// A table of pairs of nodes: colour for a number, a number for a node, arrows for moves.

const ARROWS = ["↖", "↑", "←", ""];

const matrixView = {
  size: () => [UNITS, UNITS],

  draw(frame) {
    const { stage } = frame, options = facts.options, split = options.between_strings ? frame.example.scene.first : null;
    const skip = options.triangle ?? 0, range = (from, to) => Array.from({ length: to - from }, (_, place) => from + place);
    const rows = split === null ? range(skip, frame.nodes) : range(0, split);
    const columns = split === null ? range(skip, frame.nodes) : range(split, frame.nodes);
    const grid = { rows, columns, left: IS_NARROW ? 34 : 58, top: 40, cell: (stage.width - (IS_NARROW ? 44 : 70)) / Math.max(rows.length, columns.length) };
    grid.upper = options.triangle !== undefined ? (options.strict ? 1 : 0) : null;
    this.headers(frame, grid, split);
    this.cross(frame, grid);
    for (const i of rows) for (const j of columns) {
      if (grid.upper === null || j >= i + grid.upper) this.cell(frame, grid, i, j);
    }
    return null;
  },

  place: (grid, i, j) => [grid.left + (j - grid.columns[0]) * grid.cell, grid.top + (i - grid.rows[0]) * grid.cell],

  headers(frame, grid, split) {
    const { stage } = frame, big = grid.cell > 17, letter = (node) => FEATURES.get("key").classes[frame.input("key")[node]];
    const label = (node) => (split === null ? `${node}` : big ? `${letter(node)}` : "");
    const step = big ? 1 : 8;
    for (const i of grid.rows) if ((i - grid.rows[0]) % step === 0) {
      const [, y] = this.place(grid, i, grid.columns[0]);
      stage.put("back", `row ${i}`, "text", { class: "header" }, { at: [grid.left - (IS_NARROW ? 9 : 14), y + grid.cell / 2 + 5], text: label(i), data: `${i}` });
    }
    for (const j of grid.columns) if ((j - grid.columns[0]) % step === 0) {
      const [x] = this.place(grid, grid.rows[0], j);
      stage.put("back", `column ${j}`, "text", { class: "header" }, { at: [x + grid.cell / 2, grid.top - 10], text: label(j), data: `${j}` });
    }
    const names = split === null ? [facts.options.rows ?? "from", facts.options.columns ?? "to"] : ["first string", "second string"];
    stage.put("back", "rows", "text", { class: "side", transform: `translate(${IS_NARROW ? 11 : 16} ${grid.top + 110}) rotate(-90)` }, { text: `${names[0]} i` });
    stage.put("back", "columns", "text", { class: "side", x: grid.left, y: 13 }, { text: `${names[1]} j` });
  },

  // The row and the column of a node that is marked.
  cross(frame, grid) {
    for (const name of frame.names("node", "mask_one")) {
      const node = frame.values(name)[0], wrong = frame.isWrong(name, 0), color = wrong ? BAD : colorOf(name);
      const [x, y] = this.place(grid, node, node), wide = grid.columns.length * grid.cell, tall = grid.rows.length * grid.cell;
      const look = { fill: color, "fill-opacity": 0.16, stroke: color, "stroke-width": 1.5, rx: 4 };
      frame.stage.put("front", `across ${name}`, "rect", { ...look, x: 0, y: 0, width: wide, height: grid.cell, class: "ghost" }, { at: [grid.left, y] });
      frame.stage.put("front", `down ${name}`, "rect", { ...look, x: 0, y: 0, width: grid.cell, height: tall, class: "ghost" }, { at: [x, grid.top] });
      if (frame.isNew(name, 0)) alarm(frame, name, [grid.left, y]);
    }
  },

  cell(frame, grid, i, j) {
    const { stage, nodes } = frame, place = i * nodes + j, [x, y] = this.place(grid, i, j), size = grid.cell;
    const heat = frame.option("heat"), written = frame.option("number"), moves = frame.option("arrow"), known = frame.option("known");
    const names = [heat, written, moves, known].filter(Boolean), { wrong, fresh } = frame.judge(names, place);
    const isKnown = !known || frame.values(known)[place] === 1, gap = size > 12 ? 1.5 : 0.4;
    stage.put("nodes", `cell ${place}`, "rect", {
      x: x + gap / 2, y: y + gap / 2, width: size - gap, height: size - gap, rx: size > 18 ? 4 : 1,
      fill: wrong ? "var(--bad-back)" : "var(--cell)", class: isKnown ? "cell" : "cell unknown",
    }, { data: `${i},${j}` });
    const share = heat ? Math.min(1, Math.max(0, frame.values(heat)[place] / this.most(frame, heat))) : 0;
    if (heat && share > 0 && !wrong) {
      stage.put("nodes", `heat ${place}`, "rect", {
        x: x + gap / 2, y: y + gap / 2, width: size - gap, height: size - gap, rx: size > 18 ? 4 : 1,
        fill: colorOf(heat), "fill-opacity": (0.06 + 0.44 * share).toFixed(2), class: "ghost",
      });
    }
    if (size > 15) this.text(frame, place, [x + size / 2, y + size / 2], size, { heat, written, moves, isKnown });
    if (wrong) stage.put("front", `wrong ${place}`, "rect", { x: x + 1.5, y: y + 1.5, width: size - 3, height: size - 3, rx: size > 18 ? 4 : 1, class: size > 24 ? "wrong" : "wrong thin" });
    if (fresh) stage.put("front", `new ${place}`, "path", { d: `M${x + size - 1} ${y + 1}h${-size * 0.38}L${x + size - 1} ${y + 1 + size * 0.38}Z`, class: "fresh" });
  },

  text(frame, place, at, size, { heat, written, moves, isKnown }) {
    const main = written && isKnown ? `${frame.values(written)[place]}` : moves && frame.values(moves)[place] >= 0 ? ARROWS[frame.values(moves)[place]] : "";
    const value = heat && isKnown ? short(FEATURES.get(heat), frame.values(heat)[place]) : "";
    const name = written ?? moves, color = name && frame.isWrong(name, place) ? BAD : null;
    if (main) {
      const look = { class: "number", "font-size": Math.min(22, size * (size < 26 ? 0.55 : 0.42)), fill: color, y: value && size > 26 ? size * 0.02 : size * 0.14 };
      frame.stage.put("front", `number ${place}`, "text", look, { at, text: main });
    }
    if (value && value !== "0" && value !== ".00" && (size > 26 || !main)) {
      const look = { class: "value in-cell", "font-size": Math.min(13, size * 0.3), fill: frame.isWrong(heat, place) ? BAD : null, y: main ? size * 0.34 : size * 0.1 };
      frame.stage.put("front", `value ${place}`, "text", look, { at, text: value });
    }
  },

  most(frame, name) {
    const cache = (frame.example.mostOf ??= new Map());
    if (!cache.has(name)) cache.set(name, frame.example.at(frame.example.scene.truth[name], null).reduce((high, one) => Math.max(high, one), 1e-6));
    return cache.get(name);
  },
};
