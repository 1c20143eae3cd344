// Points in the plane, with the hull or the segments that they make.

const planeView = {
  size: () => [UNITS, IS_NARROW ? 390 : 560],
  lines: { gap: IS_NARROW ? 14 : 16 },

  draw(frame) {
    const { nodes, stage } = frame, x = frame.input("x"), y = frame.input("y"), radius = nodes > 24 ? 8 : IS_NARROW ? 11 : 13, margin = 46;
    const range = (values) => [Math.min(...values), Math.max(...values)], [x0, x1] = range(x), [y0, y1] = range(y);
    const scale = Math.min((stage.width - 2 * margin) / (x1 - x0 || 1), (stage.height - 2 * margin) / (y1 - y0 || 1));
    const anchor = (node) => [
      stage.width / 2 + (x[node] - (x0 + x1) / 2) * scale, stage.height / 2 - (y[node] - (y0 + y1) / 2) * scale,
    ];
    for (const [a, b] of facts.options.segments ?? []) {
      arrow(frame, "edges", `segment ${a}`, anchor(a), anchor(b), { color: "var(--node)", width: 4, bend: 0, head: false });
    }
    if (facts.options.hull && frame.isResult && frame.values(facts.options.hull)) this.hull(frame, anchor);
    const marked = frame.names("node", "mask_one");
    for (const [a, b] of facts.options.lines ?? []) {
      if (!marked.includes(a) || !marked.includes(b)) continue;
      const ends = [frame.values(a)[0], frame.values(b)[0]], wrong = frame.isWrong(a, 0) || frame.isWrong(b, 0);
      if (ends[0] === ends[1]) continue;
      arrow(frame, "marks", `line ${a} ${b}`, anchor(ends[0]), anchor(ends[1]), { color: wrong ? BAD : colorOf(b), width: 3, bend: 0, gap: radius + 2 });
    }
    frame.names("node", "pointer").filter((name) => !FEATURES.get(name).constant)
      .forEach((name) => pointers(frame, name, anchor, { gap: radius + 2, bend: 0 }));
    for (let node = 0; node < nodes; node++) graphView.node(frame, node, anchor(node), radius);
    tagsAround(frame, anchor, radius);
    return anchor;
  },

  // The polygon through the points of the hull, round their middle.
  hull(frame, anchor) {
    const on = [...frame.values(facts.options.hull).keys()].filter((node) => frame.values(facts.options.hull)[node] === 1).map(anchor);
    if (on.length < 3) return;
    const middle = [0, 1].map((axis) => on.reduce((sum, at) => sum + at[axis], 0) / on.length);
    on.sort((a, b) => Math.atan2(a[1] - middle[1], a[0] - middle[0]) - Math.atan2(b[1] - middle[1], b[0] - middle[0]));
    const path = `M${on.map((at) => at.map((one) => one.toFixed(1)).join(" ")).join("L")}Z`;
    const color = colorOf(facts.options.hull);
    frame.stage.put("back", "hull", "path", { d: path, fill: color, "fill-opacity": 0.12, stroke: color, "stroke-width": 3, "stroke-linejoin": "round" });
  },
};
