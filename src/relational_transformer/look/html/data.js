// The data of the page: what it says of itself, and its arrays, unpacked once.

const facts = JSON.parse(document.getElementById("facts").textContent);
const FEATURES = new Map(facts.features.map((feature) => [feature.name, feature]));
const KINDS = { f4: Float32Array, i1: Int8Array, i2: Int16Array, u1: Uint8Array };
const TRUTH = -1;
let buffer = null;

async function openData() {
  const bytes = Uint8Array.from(atob(document.getElementById("data").textContent), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  buffer = await new Response(plain).arrayBuffer();
}

function arrayAt(place) {
  const count = place.shape.reduce((product, size) => product * size, 1);
  return new KINDS[place.kind](buffer, place.at, count);
}

// One example: its true values and those of every run. A voice is TRUTH or the number of a run; a stop is a step of the
// algorithm, or behind the last one the result.
class Example {
  constructor(scene, hidden) {
    this.scene = scene;
    this.hidden = hidden;  // hints that are switched off
    this.nodes = scene.nodes;
    this.steps = scene.steps;
    this.result = scene.steps;
    this.opened = new Map();
    this.voices = [TRUTH, ...scene.runs.keys()];
  }

  at(place, step) {
    if (!place) return null;
    if (!this.opened.has(place)) this.opened.set(place, arrayAt(place));
    const whole = this.opened.get(place);
    if (step === null) return whole;
    const size = place.shape.slice(1).reduce((product, one) => product * one, 1);
    return whole.subarray(step * size, (step + 1) * size);
  }

  // The step at which a feature is looked up: none of an input or output.
  stepOf(name, stop) {
    return FEATURES.get(name).stage === "hint" ? Math.min(stop, this.steps - 1) : null;
  }

  values(voice, name, stop) {
    const isSaid = voice !== TRUTH && FEATURES.get(name).stage !== "input";
    const table = isSaid ? this.scene.runs[voice].said : this.scene.truth;
    return this.at(table[name], this.stepOf(name, stop));
  }

  wrong(voice, name, stop) {
    return voice === TRUTH ? null : this.at(this.scene.runs[voice].wrong[name], this.stepOf(name, stop));
  }

  // How sure a run is, in bytes; null of scalars, inputs and outputs.
  sure(voice, name, stop) {
    if (voice === TRUTH || FEATURES.get(name).stage !== "hint") return null;
    return this.at(this.scene.runs[voice].sure[name], this.stepOf(name, stop));
  }

  isWrong(voice, name, stop, place) {
    const wrong = this.wrong(voice, name, stop);
    return wrong !== null && wrong[place] === 1;
  }

  // Wrong now and not at the stop before.
  isNew(voice, name, stop, place) {
    if (!this.isWrong(voice, name, stop, place)) return false;
    return FEATURES.get(name).stage !== "hint" || stop === 0 || !this.isWrong(voice, name, stop - 1, place);
  }

  // The features of a stop: hints of a step, outputs of the result.
  namesAt(stop) {
    const stage = stop === this.result ? "output" : "hint";
    return facts.features.filter((one) => one.stage === stage && one.name in this.scene.truth).map((one) => one.name);
  }

  // Those of them that are switched on.
  shownAt(stop) {
    return this.namesAt(stop).filter((name) => !this.hidden.has(name));
  }

  // Of every run and stop, how many elements of what is switched on are wrong, and how many of them newly so.
  count() {
    this.mistakesAt = [...this.scene.runs.keys()].map((voice) => this.mistakes(voice));
  }

  mistakes(voice) {
    const counts = [];
    for (let stop = 0; stop <= this.result; stop++) {
      let wrong = 0, fresh = 0;
      for (const name of this.shownAt(stop)) {
        const now = this.wrong(voice, name, stop);
        if (!now) continue;
        for (let place = 0; place < now.length; place++) {
          if (!now[place]) continue;
          wrong++;
          if (this.isNew(voice, name, stop, place)) fresh++;
        }
      }
      counts.push({ wrong, fresh });
    }
    return counts;
  }

  // Weights of attention, bytes [N, N], of a layer and head (-1: the mean over heads) at the step that made a stop.
  attention(voice, layer, head, stop) {
    const place = voice === TRUTH ? null : this.scene.runs[voice].attention;
    if (!place || stop === 0) return null;
    const [steps, , heads] = place.shape, size = this.nodes ** 2;
    const whole = this.at(place, Math.min(stop - 1, steps - 1)).subarray(layer * heads * size, (layer + 1) * heads * size);
    if (head >= 0) return whole.subarray(head * size, (head + 1) * size);
    const mean = new Float32Array(size);
    for (let place = 0; place < whole.length; place++) mean[place % size] += whole[place] / heads;
    return mean;
  }

  norms(voice, stop) {
    const place = voice === TRUTH ? null : this.scene.runs[voice].norms;
    if (!place || stop === 0) return null;
    return this.at(place, Math.min(stop - 1, place.shape[0] - 1));
  }
}
