// Elements of the page, and a drawing that is told at every step what it shows: what is there already is moved, what is
// new is made, what was not named again goes. So a thing that has a key glides to its new place.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// The width of a picture in units of about a pixel. A narrow panel has fewer, so that letters stay legible.
const PANEL = innerWidth < 800 ? innerWidth : Math.min(innerWidth, 1320) / (facts.runs.length + 1);
const IS_NARROW = PANEL < 480;
const UNITS = IS_NARROW ? 380 : 640;

class Stage {
  constructor(width, height, layers) {
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.width = width;
    this.height = height;
    this.layers = {};
    for (const name of layers) {
      this.layers[name] = document.createElementNS("http://www.w3.org/2000/svg", "g");
      this.svg.append(this.layers[name]);
    }
    this.known = new Map();
  }

  begin() {
    this.used = new Set();
  }

  // `at` is a place that is glided to; `data` says of which node or cell it tells.
  put(layer, key, tag, attributes, { at = null, text = null, data = null } = {}) {
    this.used.add(key);
    let one = this.known.get(key);
    if (!one) {
      const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
      one = { made, attributes: {}, text: null, at: "", data: null };
      this.known.set(key, one);
      this.layers[layer].append(made);
    }
    for (const [name, value] of Object.entries(attributes)) {
      if (one.attributes[name] === value) continue;
      one.attributes[name] = value;
      if (value === null) one.made.removeAttribute(name);
      else one.made.setAttribute(name, value);
    }
    if (at !== null) {
      const moved = `translate(${at[0].toFixed(1)}px, ${at[1].toFixed(1)}px)`;
      if (one.at !== moved) one.made.style.transform = one.at = moved;
    }
    if (text !== null && one.text !== text) one.made.textContent = one.text = text;
    if (data !== null && one.data !== data) one.made.dataset.place = one.data = data;
    return one.made;
  }

  end() {
    for (const [key, one] of this.known) {
      if (this.used.has(key)) continue;
      one.made.remove();
      this.known.delete(key);
    }
  }
}
