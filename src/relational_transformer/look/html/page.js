// The page, put together.

const hidden = new Set(facts.features.filter((feature) => !feature.shown).map((feature) => feature.name));

function themeButton() {
  const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = element("button", { type: "button", class: "theme", onclick: () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; tell(); } });
  const tell = () => { button.textContent = isDark() ? "☀" : "☾"; button.setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours"); };
  tell();
  return button;
}

// A button for each hint, which shows it in the picture or takes it out.
function chips(changed) {
  const row = element("div", { class: "chips", role: "group", "aria-label": "Shown in the picture" });
  for (const feature of facts.features.filter((one) => one.stage === "hint" && !one.constant)) {
    const look = { type: "button", class: "chip", "aria-pressed": `${!hidden.has(feature.name)}`, title: feature.words };
    const button = element("button", look, signOf(feature), element("code", {}, feature.name));
    button.addEventListener("click", () => {
      if (!hidden.delete(feature.name)) hidden.add(feature.name);
      button.setAttribute("aria-pressed", !hidden.has(feature.name));
      changed();
    });
    row.append(button);
  }
  return row;
}

// What each feature means.
function legend() {
  const list = element("ul", { class: "legend" });
  const stages = { hint: "At every step", output: "The result", input: "Given" };
  for (const [stage, title] of Object.entries(stages)) {
    const features = facts.features.filter((feature) => feature.stage === stage);
    if (!features.length) continue;
    list.append(element("li", { class: "stage" }, title));
    for (const feature of features) list.append(legendItem(feature));
  }
  return list;
}

const SIGNS = { pointer: "→", mask: "■", mask_one: "⚑", scalar: "▬", categorical: "◐" };

function signOf(feature) {
  const sign = element("span", { class: "sign", "aria-hidden": "true" }, SIGNS[feature.type]);
  sign.style.color = feature.stage === "input" ? "var(--soft)" : colorOf(feature.name);
  return sign;
}

function legendItem(feature) {
  const words = element("span", {}, feature.words);
  if (feature.classes.length && feature.stage !== "input") words.append(element("span", { class: "classes" }, feature.classes.join(" · ")));
  return element("li", {}, signOf(feature), element("code", {}, feature.name), words);
}

// Everything about one example; returns what draws it.
function exampleSection(example, main, redraw) {
  const choices = example.scene.runs.map((_, voice) => new Choice(example, voice, redraw));
  const panels = example.voices.map((voice) => new Panel(example, voice, choices[voice]));
  const strips = new Strips(example), drawn = [...panels, strips];
  const title = facts.scenes.length > 1 ? [element("h2", {}, `${example.nodes} nodes`)] : [];
  const section = element("section", { class: "example" }, ...title,
    element("div", { class: `panels of-${panels.length}`, role: "group", "aria-label": "Pictures", tabindex: panels.length > 1 && innerWidth < 800 ? "0" : null }, ...panels.map((panel) => panel.holder)));
  explainOnHover(strips.holder, (place, cell) => tellOf(example, +cell.dataset.voice, strips.stop, place));
  const insides = element("div", { class: "insides" });
  example.scene.runs.forEach((run, voice) => {
    const inside = new Inside(example, voice, choices[voice]);
    drawn.push(inside);
    insides.append(inside.holder);
  });
  main.append(section);
  const more = element("section", { class: "more" }, element("h2", {}, facts.scenes.length > 1 ? `Every value, ${example.nodes} nodes` : "Every value"), strips.holder, insides);
  const draw = (stop) => { strips.stop = stop; drawn.forEach((one) => one.draw(stop)); };
  return { draw, more };
}

// The style has to know how high the player is, which covers the end of the page, and what room a picture has above it.
function measure(player) {
  const root = document.documentElement.style, picture = document.querySelector("svg.picture");
  const tell = () => {
    root.setProperty("--player", `${player.offsetHeight}px`);
    root.setProperty("--above", `${Math.round(picture.getBoundingClientRect().top + scrollY)}px`);
  };
  tell();
  new ResizeObserver(tell).observe(player);
  addEventListener("resize", tell);
}

async function start() {
  await openData();
  const examples = facts.scenes.map((scene) => new Example(scene, hidden));
  examples.forEach((example) => example.count());
  const main = document.querySelector("main"), sections = [], timelines = [];
  const redraw = () => sections.forEach((section, number) => section.draw(player.stopOf(examples[number])));
  const player = new Player(examples, redraw);
  examples.forEach((example) => sections.push(exampleSection(example, main, redraw)));
  for (const example of examples) {
    for (const voice of facts.runs.keys()) timelines.push(new Timeline(example, voice, player));
  }
  player.lines.append(...timelines.map((timeline) => timeline.holder));
  const recount = () => {
    examples.forEach((example) => example.count());
    timelines.forEach((timeline) => timeline.draw());
    player.tell();
  };
  main.classList.toggle("alone", !facts.runs.length && examples.length === 1);
  main.prepend(chips(recount));
  main.append(element("section", { class: "meaning" }, element("h2", {}, "What the signs mean"), legend()), ...sections.map((section) => section.more));
  document.querySelector(".top").append(themeButton());
  main.before(player.holder);
  document.body.append(tooltip);
  document.querySelector(".waiting").remove();
  const asked = /^#(\d+)$/.exec(location.hash);
  player.go(asked ? +asked[1] : 0);
  measure(player.holder);
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  document.querySelector(".waiting").textContent = `This page cannot be shown: ${error.message}. A browser of 2023 or later is needed.`;
  document.documentElement.dataset.ready = "no";
  throw error;
});
