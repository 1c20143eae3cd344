// What hovers beside the pointer, or a tap: all that is known of a node or a pair of nodes.

const tooltip = element("div", { class: "tooltip", role: "status", hidden: true });

function tellOf(example, voice, stop, place) {
  const [i, j] = place.split(",").map(Number), pair = j !== undefined;
  const lines = [element("b", {}, pair ? `pair ${i}, ${j}` : `node ${i}`)];
  for (const feature of facts.features) {
    const isNow = feature.stage === "input" || example.namesAt(stop).includes(feature.name);
    if (!isNow || feature.location !== (pair ? "edge" : "node") || feature.constant || !(feature.name in example.scene.truth)) continue;
    const isChoice = feature.type === "mask_one", at = isChoice ? 0 : pair ? i * example.nodes + j : i;
    const truth = example.values(TRUTH, feature.name, stop), own = example.values(voice, feature.name, stop);
    const said = (values) => (isChoice ? (values[0] === i ? "yes" : "no") : inWords(feature, values[at]));
    const wrong = own && example.isWrong(voice, feature.name, stop, at) && said(own) !== said(truth);
    let text = `${feature.name}: ${own ? said(own) : said(truth)}`;
    const sure = own && example.sure(voice, feature.name, stop);
    if (sure && stop > 0) text += ` (${Math.round((sure[isChoice ? i : at] / 255) * 100)} %)`;
    if (wrong) text += `, should be ${said(truth)}`;
    lines.push(element("span", { class: wrong ? "bad" : "" }, text));
  }
  return lines;
}

function showTooltip(event, lines) {
  tooltip.replaceChildren(...lines);
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, innerWidth - box.width - 8), y = event.clientY + 18;
  tooltip.style.left = `${Math.max(8, x)}px`;
  tooltip.style.top = `${y + box.height > innerHeight ? event.clientY - box.height - 12 : y}px`;
}

function hideTooltip() {
  tooltip.hidden = true;
}

document.addEventListener("pointerdown", hideTooltip);  // a tap elsewhere
document.addEventListener("scroll", hideTooltip, { capture: true, passive: true });

// Of whatever below `holder` says which node or pair it is; `tell` is given its place, and the element.
function explainOnHover(holder, tell) {
  const show = (event) => {
    const one = event.target.closest("[data-place]");
    if (one) showTooltip(event, tell(one.dataset.place, one));
    else hideTooltip();
  };
  holder.addEventListener("pointerover", show);
  holder.addEventListener("click", show);
  holder.addEventListener("pointerleave", hideTooltip);
}
