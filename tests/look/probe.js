// Opens each page in a frame as wide as a phone or a desk, uses it as a reader would, and writes down what it saw.

// Waits until something is true of an element, which tells of its changes itself.
function until(element, isTrue) {
  return new Promise((done) => {
    const look = () => isTrue() && (observer.disconnect(), done());
    const observer = new (element.ownerDocument.defaultView.MutationObserver)(look);
    observer.observe(element, { attributes: true });
    look();
  });
}

async function open(url, width) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `border:0;width:${width}px;height:900px`;
  frame.src = url;
  const loaded = new Promise((done) => frame.addEventListener("load", done));
  document.body.append(frame);
  await loaded;
  const root = frame.contentDocument.documentElement;
  await until(root, () => root.dataset.ready);
  if (root.dataset.ready !== "yes") throw new Error(root.textContent);
  return frame;
}

async function use(frame) {
  const page = frame.contentDocument, view = frame.contentWindow;
  const one = (what) => page.querySelector(what), all = (what) => [...page.querySelectorAll(what)];
  const slider = one("input[type=range]"), last = +slider.max;
  const press = (key) => page.dispatchEvent(new view.KeyboardEvent("keydown", { key, bubbles: true }));
  const slide = (stop) => { slider.value = stop; slider.dispatchEvent(new view.Event("input")); };
  const still = () => page.getAnimations().forEach((one) => one.finish());  // all is where it glides to
  const seen = { title: page.title, last, stops: [], width: page.documentElement.scrollWidth };
  let cover = 0, cut_off = 0;
  for (let stop = 0; stop <= last; stop++) {
    slide(stop);
    seen.stops.push({
      where: slider.getAttribute("aria-valuetext"), words: one("#words").textContent,
      bad: rows(page, "bad"), fresh: rows(page, "new"), alarms: all(".alarm, .fresh:not(.mark)").length,
    });
    still();
    cover += all("svg.picture").reduce((sum, svg) => sum + overlaps([...svg.querySelectorAll(".tag")]), 0);
    cut_off += all("svg.picture :is(.cell, .bar, .node, .tag, .alarm)").filter((one) => !isInside(one.getBoundingClientRect(), one.ownerSVGElement.getBoundingClientRect())).length;
  }
  slide(1);
  press("ArrowRight");
  seen.after_right = +slider.value;
  press("Home");
  seen.after_home = +slider.value;
  press("m");
  seen.after_m = +slider.value;
  press("End");
  seen.after_end = +slider.value;
  press("ArrowLeft");
  seen.after_left = +slider.value;
  slide(0);
  const play = one(".play"), setInterval = view.setInterval;
  view.setInterval = (act) => setInterval.call(view, act, 2);  // nobody watches
  play.click();
  seen.while_playing = play.getAttribute("aria-label");
  await until(play, () => play.getAttribute("aria-label") === "Play");
  seen.after_play = +slider.value;
  slide(Math.ceil(last / 2));
  const node = one("svg.picture [data-place]");
  node.dispatchEvent(new view.PointerEvent("pointerover", { bubbles: true, clientX: 50, clientY: 50 }));
  seen.tooltip = one(".tooltip").hidden ? "" : one(".tooltip").textContent;
  press("Escape");
  seen.tooltip_gone = [one(".tooltip").hidden];
  for (const leave of [() => slide(+slider.value), () => page.body.dispatchEvent(new view.PointerEvent("pointerdown", { bubbles: true }))]) {
    node.dispatchEvent(new view.PointerEvent("pointerover", { bubbles: true, clientX: 50, clientY: 50 }));
    seen.tooltip_gone.push(!one(".tooltip").hidden);
    leave();
    seen.tooltip_gone.push(one(".tooltip").hidden);
  }
  const table = one(".scroll"), at = +slider.value;
  table.dispatchEvent(new view.KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
  seen.arrows_scroll_a_wide_table = (table.scrollWidth > table.clientWidth) === (+slider.value === at);
  slide(at);
  const chip = one(".chip[aria-pressed=true]"), before = one(".panels").innerHTML;
  if (chip) chip.click();
  seen.chip_changes_picture = one(".panels").innerHTML !== before;
  if (chip) chip.click();
  seen.first_mistakes = all(".timeline .link").map((one) => one.textContent);
  const switches = all(".chip[aria-pressed=true]");
  switches.forEach((one) => one.click());
  seen.first_without_hints = one(".timeline .link")?.textContent;
  switches.forEach((one) => one.click());
  const draw = one(".controls input[type=checkbox]"), lines = () => all(".picture g:nth-child(4) > *, .ring g:nth-child(1) > *").length;
  if (draw) draw.click();
  seen.attention_lines = lines();
  seen.squares = all(".squares rect").length;
  seen.inside = all(".inside").map((one) => one.textContent).join(" ");
  seen.smallest_letters = Math.min(...all("svg.picture text").map((text) => parseFloat(view.getComputedStyle(text).fontSize) * scaleOf(text)));
  Object.assign(seen, { cover, cut_off });
  slide(2);
  still();
  for (const control of all(".insides .controls select")) {
    control.value = +control.options[control.options.length - 1].value;
    control.dispatchEvent(new view.Event("change"));
  }
  seen.opacities = all(".squares").map((svg) => [...svg.querySelectorAll("rect")].map((one) => [one.dataset.place, +one.getAttribute("fill-opacity")]));
  const hover = (one) => {
    one.dispatchEvent(new view.PointerEvent("pointerover", { bubbles: true, clientX: 50, clientY: 50 }));
    return [...page.querySelector(".tooltip").children].map((line) => line.textContent);
  };
  seen.told = all(".squares").filter((svg) => svg.querySelector("rect")).map((svg) => hover(svg.querySelector("rect[data-place='2,1']")));
  seen.told.push(...all(".strips tbody tr").slice(0, 2).map((row) => hover(row.querySelectorAll("td:not(.by)")[1])));
  press("Escape");
  seen.line_widths = all(".picture g:nth-child(4) > :not([fill^=var])").map((one) => +one.getAttribute("stroke-width"));
  const [above, below] = [all(".panel .controls select").at(-1), all(".insides .controls select").at(-1)];
  if (above) {
    above.value = 0;
    above.dispatchEvent(new view.Event("change"));
    seen.head_below = below?.value;
  }
  seen.tab_order = all("button, select, input, [tabindex='0']").filter((one) => !one.disabled).map((one) => one.className || one.tagName);
  seen.pictures_beside = new Set(all(".panel").map((one) => Math.round(one.getBoundingClientRect().top))).size === all(".example").length;
  const covered = one(".player").getBoundingClientRect().height;
  seen.picture_is_free = one("svg.picture").getBoundingClientRect().bottom + view.scrollY <= view.innerHeight - covered;
  seen.end_is_free = parseFloat(view.getComputedStyle(page.body).paddingBottom) >= Math.floor(covered);
  const background = () => view.getComputedStyle(page.body).backgroundColor;
  seen.backgrounds = [background()];
  one(".theme").click();
  seen.backgrounds.push(background());
  seen.pictures = all("svg.picture").map((svg) => [svg.getBoundingClientRect().width, svg.children.length, svg.getAttribute("aria-label")]);
  seen.unnamed = all("button, select, input").filter((one) => !one.getAttribute("aria-label") && !one.textContent.trim() && !one.closest("label")).length;
  seen.live = one("#words").getAttribute("aria-live");
  seen.focusable = slider.tabIndex;
  return seen;
}

function isInside(inner, outer) {
  return inner.left > outer.left - 1 && inner.right < outer.right + 1 && inner.top > outer.top - 1 && inner.bottom < outer.bottom + 1;
}

// How many pairs of these lie on each other.
function overlaps(elements) {
  const boxes = elements.map((one) => one.getBoundingClientRect()), rim = 1;
  const meet = (a, b) => a.left < b.right - rim && b.left < a.right - rim && a.top < b.bottom - rim && b.top < a.bottom - rim;
  return boxes.reduce((sum, one, number) => sum + boxes.slice(0, number).filter((other) => meet(one, other)).length, 0);
}

// How many pixels a unit of a picture is.
function scaleOf(text) {
  const svg = text.ownerSVGElement;
  return svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
}

// Of the model's rows in the table of every value: "hint:node" of each cell of this class.
function rows(page, kind) {
  const found = [];
  let hint = "";
  for (const row of page.querySelectorAll(".strips tbody tr")) {
    if (row.classList.contains("true")) hint = row.querySelector("th").textContent;
    [...row.querySelectorAll("td:not(.by)")].forEach((cell, node) => cell.classList.contains(kind) && found.push(`${hint}:${node}`));
  }
  return found;
}

(async () => {
  const results = {};
  for (const [name, url, width] of PAGES) {
    try {
      const frame = await open(url, width);
      results[name] = await use(frame);
      frame.remove();
    } catch (error) {
      results[name] = { error: `${error}` };
    }
  }
  await fetch("/seen", { method: "POST", body: JSON.stringify(results) });
})();
