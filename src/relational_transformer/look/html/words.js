// Values and steps in words: for the table, for what hovers, and for those who listen.

const NUMBERS = { maximumFractionDigits: 3 };

function number(value) {
  return Number.isFinite(value) ? value.toLocaleString("en", NUMBERS) : "not a number";
}

// A number with two digits behind the point.
const rounded = (value) => value.toFixed(2).replace("-0.00", "0.00");

// A value of a feature, short.
function short(feature, value) {
  if (feature.type === "scalar") return Number.isInteger(value) ? `${value}` : Number.isFinite(value) ? rounded(value).replace(/^(-?)0\./, "$1.") : "?";
  if (value === -1) return "";
  if (feature.type === "categorical") return feature.classes.length ? feature.classes[value].split(/[: ]/)[0] : `${value}`;
  if (feature.type === "mask") return feature.location === "graph" && feature.flags.length ? feature.flags[value] : value ? "yes" : "no";
  return `${value}`;
}

// The same in full.
function inWords(feature, value) {
  if (feature.type === "scalar") return number(value);
  if (value === -1) return "no meaning";
  if (feature.type === "categorical") return feature.classes.length ? feature.classes[value] : `class ${value}`;
  if (feature.type === "mask") return feature.flags.length ? feature.flags[value] : value ? "yes" : "no";
  return `node ${value}`;
}

function placeInWords(feature, place, nodes) {
  if (feature.location === "graph" || feature.type === "mask_one") return "";
  return feature.location === "edge" ? `${Math.floor(place / nodes)}-${place % nodes}` : `${place}`;
}

// What has changed of what is shown since the stop before, a few words a feature: "u: node 4", "pi_h: 3→5, 7→5".
function changes(example, voice, stop, most = IS_NARROW ? 2 : 4) {
  const found = [];
  for (const name of example.shownAt(stop)) {
    const feature = FEATURES.get(name), now = example.values(voice, name, stop);
    if (!now || feature.constant) continue;
    const before = stop > 0 && stop < example.result ? example.values(voice, name, stop - 1) : null;
    const isSaid = (place) => !before || now[place] !== before[place];
    const isTwin = (place) => {  // of an edge that leads both ways, told already
      const other = (place % example.nodes) * example.nodes + Math.floor(place / example.nodes);
      return facts.options.directed === false && feature.location === "edge" && other < place && now[other] === now[place] && isSaid(other);
    };
    const places = [...now.keys()].filter((place) => isSaid(place) && !isTwin(place));
    const isOne = now.length === 1;
    if (!places.length || (!before && !isOne && stop < example.result)) continue;
    found.push(`${name}: ${listed(feature, now, places, example.nodes, most)}`);
  }
  return found;
}

function listed(feature, values, places, nodes, most) {
  if (feature.type === "mask" && feature.location !== "graph") {
    const on = places.filter((place) => values[place] === 1), off = places.filter((place) => values[place] === 0);
    const parts = [];
    const named = (chosen) => cut(chosen.map((place) => placeInWords(feature, place, nodes)), most);
    if (on.length) parts.push(`${named(on)} ${on.length > 1 ? "are" : "is"} in`);
    if (off.length && (!on.length || places.length < values.length)) parts.push(`${named(off)} ${off.length > 1 ? "are" : "is"} out`);
    return parts.join(", ") || "none";
  }
  const join = feature.type === "pointer" ? "→" : " is ";
  const one = (place) => {
    const where = placeInWords(feature, place, nodes);
    const value = feature.type === "pointer" ? `${values[place]}` : inWords(feature, values[place]).split(":")[0];
    return where ? `${where}${join}${value}` : value;
  };
  return cut(places.map(one), most);
}

function cut(parts, most) {
  return parts.length > most ? `${parts.slice(0, most).join(", ")} and ${parts.length - most} more` : parts.join(", ");
}

function nameOfStop(example, stop) {
  return stop === example.result ? "Result" : `Step ${stop} of ${example.steps - 1}`;
}

// A stop in one or a few sentences.
function sentence(example, stop) {
  const told = changes(example, TRUTH, stop);
  const parts = [`${told.join("; ") || "nothing that is shown changes"}.`];
  example.scene.runs.forEach((run, voice) => {
    const { wrong, fresh } = example.mistakesAt[voice][stop];
    const name = facts.runs[voice].name;
    if (stop === 0) parts.push(`${name} is given the first step.`);
    else if (!wrong) parts.push(`${name} is right.`);
    else parts.push(`${name} is wrong in ${wrong} ${wrong > 1 ? "places" : "place"}${fresh ? `, newly in ${fresh}` : ""}${whereWrong(example, voice, stop)}.`);
  });
  return parts.join(" ");
}

function whereWrong(example, voice, stop) {
  const names = example.shownAt(stop).filter((name) => example.wrong(voice, name, stop)?.includes(1));
  return `: ${cut(names, 5)}`;
}
