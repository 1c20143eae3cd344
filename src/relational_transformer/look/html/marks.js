// Marks that all pictures share: colours of features, arrows, signs of a mistake, attention.

const COLORS = 8;
const colors = new Map();
const isHeat = (feature) => feature.name === facts.options.heat;  // a calm colour, for it covers large areas
for (const feature of facts.features.filter(isHeat).concat(facts.features.filter((one) => one.stage === "hint" && !isHeat(one)))) {
  if (!feature.constant) colors.set(feature.name, `var(--c${(colors.size % COLORS) + 1})`);
}
for (const feature of facts.features) {  // an output looks like the hint that leads to it
  if (feature.stage === "output") colors.set(feature.name, colors.get(`${feature.name}_h`) ?? `var(--c${(colors.size % COLORS) + 1})`);
}

function colorOf(name) {
  return colors.get(name) ?? "var(--soft)";
}

const BAD = "var(--bad)";

// What a picture draws at a stop for one voice.
class Frame {
  constructor(panel, stop) {
    Object.assign(this, { example: panel.example, voice: panel.voice, stage: panel.stage, stop });
    this.isResult = stop === this.example.result;
    this.nodes = this.example.nodes;
    this.hidden = panel.example.hidden;
    this.covered = [];  // boxes and circles that no flag may cover
  }

  // Names of the features of a location and type that are switched on.
  names(location, type) {
    return this.example.shownAt(this.stop).filter((name) => {
      const feature = FEATURES.get(name);
      return feature.location === location && feature.type === type && this.values(name);
    });
  }

  values(name) {
    return this.example.values(this.voice, name, this.stop);
  }

  input(name) {
    return this.example.values(TRUTH, name, this.stop);
  }

  has(name) {
    return name in this.example.scene.truth;
  }

  // The name of an option that is there at this stop and switched on: `result_x` beside the result.
  option(key) {
    const name = this.isResult ? facts.options[`result_${key}`] : facts.options[key];
    return name && this.has(name) && !this.hidden.has(name) && this.values(name) ? name : null;
  }

  truth(name) {
    return this.example.values(TRUTH, name, this.stop);
  }

  isWrong(name, place) {
    return this.example.isWrong(this.voice, name, this.stop, place);
  }

  isNew(name, place) {
    return this.example.isNew(this.voice, name, this.stop, place);
  }

  // Whether any of these features is wrong at a place, and whether newly so.
  judge(names, place) {
    return { wrong: names.some((name) => this.isWrong(name, place)), fresh: names.some((name) => this.isNew(name, place)) };
  }
}

// A line with a head from one place to another, bent to its left by a share of its length, that ends `gap` before both.
// One that goes `below` hangs down like a rope, whichever way it leads.
function arrow(frame, layer, key, from, to, { color, gap = 0, bend = 0.12, width = 2.5, dashed = false, opacity = 1, head = true, below = false, data = null }) {
  const [x1, y1] = from, [x2, y2] = to, dx = x2 - x1, dy = y2 - y1, length = Math.hypot(dx, dy) || 1;
  const cx = (x1 + x2) / 2 + (below ? 0 : dy * bend), cy = (y1 + y2) / 2 + (below ? Math.min(110, 18 + 0.4 * length) : -dx * bend);
  const [sx, sy] = towards([x1, y1], [cx, cy], gap), [ex, ey] = towards([x2, y2], [cx, cy], gap + (head ? 2 : 0));
  const drawn = `M${sx.toFixed(1)} ${sy.toFixed(1)}Q${cx.toFixed(1)} ${cy.toFixed(1)} ${ex.toFixed(1)} ${ey.toFixed(1)}`;
  const look = { d: drawn, fill: "none", stroke: color, "stroke-width": width, "stroke-linecap": "round", opacity };
  frame.stage.put(layer, key, "path", { ...look, "stroke-dasharray": dashed ? "5 5" : null }, { data });
  if (!head || length < gap * 2) return;
  const angle = Math.atan2(ey - cy, ex - cx), size = 4 + width * 1.6;
  const corner = (turn) => `${(ex - size * Math.cos(angle + turn)).toFixed(1)} ${(ey - size * Math.sin(angle + turn)).toFixed(1)}`;
  const shape = `M${ex.toFixed(1)} ${ey.toFixed(1)}L${corner(0.42)}L${corner(-0.42)}Z`;
  frame.stage.put(layer, `${key} head`, "path", { d: shape, fill: color, stroke: color, "stroke-linejoin": "round", opacity });
}

function towards([x, y], [tx, ty], distance) {
  const length = Math.hypot(tx - x, ty - y) || 1;
  return [x + ((tx - x) / length) * distance, y + ((ty - y) / length) * distance];
}

// The pointers of a feature as arrows; a wrong one is red, and the true one stays as a faint dashed line.
function pointers(frame, name, anchor, { gap, bend = 0.12, layer = "marks", below = false }) {
  const values = frame.values(name), truth = frame.truth(name);
  for (let node = 0; node < frame.nodes; node++) {
    const target = values[node], wrong = frame.isWrong(name, node);
    const look = { gap, bend, below, color: wrong ? BAD : colorOf(name), width: wrong ? 3 : 2.5 };
    if (target !== node && target >= 0 && target < frame.nodes) arrow(frame, layer, `${name} ${node}`, anchor(node), anchor(target), look);
    if (wrong && truth[node] !== node) {
      const faint = { gap, bend, below, color: colorOf(name), width: 1.5, dashed: true, opacity: 0.55 };
      arrow(frame, layer, `${name} ${node} true`, anchor(node), anchor(truth[node]), faint);
    }
  }
}

// An exclamation mark where a mistake has just been made, inside the picture.
function alarm(frame, key, [x, y]) {
  const rim = 10, { width, height } = frame.stage, at = [Math.min(Math.max(x, rim), width - rim), Math.min(Math.max(y, rim), height - rim)];
  frame.stage.put("front", `${key} alarm`, "circle", { r: 8, class: "alarm" }, { at });
  frame.stage.put("front", `${key} alarm sign`, "text", { class: "alarm-sign", y: 4 }, { at, text: "!" });
}
