// Little flags with the name of a hint that marks one node: u, v, i, j.

const TAG = 19;

// `seat(node, number, width)` is where the flag number `number` of a node hangs; of its `tries` seats the first that
// covers neither another flag nor what the picture has drawn is taken. Where the wrong node is marked, the flag is red,
// and a faint one hangs where it should be. A line leads to `foot(node)` from a flag that hangs far from it.
function tags(frame, seat, { tries = 6, foot = null } = {}) {
  const covered = frame.covered, room = 1, far = 1.6 * TAG;
  const isFree = ([x, y], width) => covered.every((one) => {
    const dx = Math.max(0, Math.abs(one.x - x) - width / 2), dy = Math.max(0, Math.abs(one.y - y) - TAG / 2);
    return one.radius ? Math.hypot(dx, dy) >= one.radius : dx >= one.width / 2 + room || dy >= one.height / 2 - room;
  });
  const hang = (name, node, look) => {
    if (node < 0 || node >= frame.nodes) return;
    const label = name.replace(/_h$/, ""), width = 10 + label.length * 7.2;
    const place = (number) => {
      const [x, y] = seat(node, number, width), { width: wide, height } = frame.stage;
      return [Math.min(Math.max(x, width / 2 + 1), wide - width / 2 - 1), Math.min(Math.max(y, TAG / 2 + 1), height - TAG / 2 - 1)];
    };
    const places = Array.from({ length: tries }, (_, number) => place(number));
    const at = places.find((one) => isFree(one, width)) ?? places[0];
    covered.push({ x: at[0], y: at[1], width, height: TAG });
    const key = `tag ${name}${look.faint ? " true" : ""}`, data = `${node}`;
    if (foot) {
      const [x, y] = foot(node), look = { x1: at[0], y1: at[1], x2: x, y2: y, class: "stem" };
      if (Math.abs(at[1] - y) > far || Math.abs(at[0] - x) > far + width / 2) frame.stage.put("back", `${key} stem`, "line", look);
    }
    frame.stage.put("front", key, "rect", {
      x: -width / 2, y: -TAG / 2 + 1, width, height: TAG - 2, rx: 8, class: look.faint ? "tag faint" : "tag",
      fill: look.faint ? "var(--card)" : look.color, stroke: look.color,
    }, { at, data });
    const text = { y: 4, class: look.faint ? "tag-name faint" : "tag-name", fill: look.faint ? look.color : null };
    frame.stage.put("front", `${key} name`, "text", text, { at, text: label, data });
    if (look.fresh) alarm(frame, key, [at[0] + width / 2 + 4, at[1] - TAG / 2 - 1]);  // beside the name
  };
  for (const name of frame.names("node", "mask_one")) {
    const wrong = frame.isWrong(name, 0), node = frame.values(name)[0];
    hang(name, node, { color: wrong ? BAD : colorOf(name), fresh: frame.isNew(name, 0) });
    if (wrong) hang(name, frame.truth(name)[0], { color: colorOf(name), faint: true });
  }
}

// Flags round nodes in a plane: first on the side that leads away from the middle, then on others, then further off.
function tagsAround(frame, anchor, radius) {
  const { width: wide, height } = frame.stage, turns = [0, 1, -1, 2, -2, 3, -3, 4];
  tags(frame, (node, number, width) => {
    const [x, y] = anchor(node), away = Math.atan2(y - height / 2, x - wide / 2);
    const angle = away + (turns[number % turns.length] * Math.PI) / 4, further = 5 + Math.floor(number / turns.length) * TAG;
    return [x + Math.cos(angle) * (radius + further + width / 2), y + Math.sin(angle) * (radius + further + TAG / 2)];
  }, { tries: 3 * turns.length, foot: anchor });
}
