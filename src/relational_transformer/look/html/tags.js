// Little flags with the name of a hint that marks one node: u, v, i, j.

const TAG = 19;

// `seat(node, number)` is where the flag number `number` of a node hangs; the first that no other flag covers is taken.
// Where the wrong node is marked, the flag is red, and a faint one hangs where it should be.
function tags(frame, seat) {
  const hung = [], room = 1, tries = 6;
  const isFree = ([x, y], width) => hung.every((one) => Math.abs(one.x - x) >= (one.width + width) / 2 + room || Math.abs(one.y - y) >= TAG - room);
  const hang = (name, node, look) => {
    if (node < 0 || node >= frame.nodes) return;
    const label = name.replace(/_h$/, ""), width = 10 + label.length * 7.2;
    const place = (number) => {
      const [x, y] = seat(node, number);
      return [Math.min(Math.max(x, width / 2 + 1), frame.stage.width - width / 2 - 1), y];
    };
    const numbers = Array.from({ length: tries }, (_, number) => number);
    const at = place(numbers.find((number) => isFree(place(number), width)) ?? tries - 1);
    hung.push({ x: at[0], y: at[1], width });
    const key = `tag ${name}${look.faint ? " true" : ""}`, data = `${node}`;
    frame.stage.put("front", key, "rect", {
      x: -width / 2, y: -TAG / 2 + 1, width, height: TAG - 2, rx: 8, class: look.faint ? "tag faint" : "tag",
      fill: look.faint ? "var(--card)" : look.color, stroke: look.color,
    }, { at, data });
    const text = { y: 4, class: look.faint ? "tag-name faint" : "tag-name", fill: look.faint ? look.color : null };
    frame.stage.put("front", `${key} name`, "text", text, { at, text: label, data });
    if (look.fresh) alarm(frame, key, [at[0] + width / 2, at[1] - TAG / 2 + 2]);
  };
  for (const name of frame.names("node", "mask_one")) {
    const wrong = frame.isWrong(name, 0), node = frame.values(name)[0];
    hang(name, node, { color: wrong ? BAD : colorOf(name), fresh: frame.isNew(name, 0) });
    if (wrong) hang(name, frame.truth(name)[0], { color: colorOf(name), faint: true });
  }
}
