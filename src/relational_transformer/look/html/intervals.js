// Activities on a line of time, one below the other.

const intervalsView = {
  size: (example) => [UNITS, 56 + example.nodes * (example.nodes > 24 ? 10 : 23)],
  lines: { gap: 8 },

  draw(frame) {
    const { nodes, stage } = frame, start = frame.input(facts.options.start), end = frame.input(facts.options.end);
    const row = (stage.height - 56) / nodes, small = nodes > 24, left = 34, wide = stage.width - left - 90;
    const x = (time) => left + time * wide, y = (node) => 26 + (node + 0.5) * row;
    for (const time of [0, 0.25, 0.5, 0.75, 1]) {
      stage.put("back", `tick ${time}`, "line", { x1: x(time), x2: x(time), y1: 20, y2: stage.height - 26, class: "tick" });
      stage.put("back", `time ${time}`, "text", { class: "index" }, { at: [x(time), stage.height - 10], text: `${time}` });
    }
    const masks = frame.names("node", "mask");
    for (let node = 0; node < nodes; node++) {
      const on = masks.find((name) => frame.values(name)[node] === 1), { wrong, fresh } = frame.judge(masks, node), data = `${node}`;
      stage.put("nodes", `bar ${node}`, "rect", {
        x: 0, y: -row * 0.36, width: Math.max(3, (end[node] - start[node]) * wide), height: row * 0.72, rx: Math.min(6, row * 0.3),
        fill: on ? colorOf(on) : "var(--bar)", class: wrong ? "bar bad" : "bar",
      }, { at: [x(start[node]), y(node)], data });
      if (!small || node % 8 === 0) stage.put("nodes", `name ${node}`, "text", { class: "index", y: 4 }, { at: [16, y(node)], text: data, data });
      if (fresh) alarm(frame, `bar ${node}`, [x(start[node]), y(node) - row * 0.3]);
    }
    tags(frame, (node, number) => [stage.width - 66 + number * 36, y(node)]);
    return (node) => [x((start[node] + end[node]) / 2), y(node)];
  },
};
