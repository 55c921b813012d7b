// Small parts of a page. Text from a run folder is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Numbers as people read them: 0.0123, 1.9e-4, 12,345.
function told(value, digits = 4) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-2 || size >= 1e7)) {
    return value.toExponential(digits - 2).replace(/\.?0+e/, "e").replace("e+", "e");
  }
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return value.toLocaleString("en-US", { maximumSignificantDigits: digits });
}

function say(text) {
  const said = byId("said");
  said.textContent = text;
  said.classList.add("shown");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => said.classList.remove("shown"), 1800);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { value: text, className: "aside" });
    document.body.append(area);
    area.select();
    document.execCommand("copy"); // pages from a disk have no other way in some browsers
    area.remove();
  }
  say(`${what} copied`);
}

function save(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = element("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

const button = (text, onclick, more = {}) =>
  element("button", { type: "button", textContent: text, onclick, ...more });

// A labeled list to choose from: options are [value, text].
function choice(id, label, options, value, onchange) {
  const list = element("select", { id, onchange: () => onchange(list.value) });
  for (const [key, text] of options)
    list.append(element("option", { value: key, textContent: text }));
  list.value = value;
  return element("label", { className: "field", htmlFor: id },
    element("span", { textContent: label }), list);
}

// A few buttons of which one is pressed.
function switches(id, label, options, value, onchange) {
  const group = element("span", { className: "switch", role: "group", "aria-label": label, id });
  for (const [key, text] of options) {
    const one = button(text, () => onchange(key), { "data-value": key });
    one.setAttribute("aria-pressed", String(key === value));
    group.append(one);
  }
  return element("div", { className: "field" }, element("span", { textContent: label }), group);
}

function section(id, title, about = "") {
  const made = element("section", { id, "aria-labelledby": `${id}-title` },
    element("div", { className: "section-title" },
      element("h2", { id: `${id}-title`, textContent: title }),
      element("p", { className: "quiet", textContent: about })));
  return made;
}

// The same numbers as a table, for those who do not see the picture.
function twin(titles, rows, name) {
  const head = element("tr", {}, ...titles.map((text) =>
    element("th", { scope: "col", textContent: text })));
  const body = rows.map((row) => element("tr", {}, ...row.map((text, place) =>
    element(place ? "td" : "th", place ? { textContent: text } : { scope: "row", textContent: text }))));
  return element("details", { className: "twin" },
    element("summary", { textContent: `Numbers of this ${name}` }),
    element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": `Numbers of this ${name}` },
      element("table", {}, element("thead", {}, head), element("tbody", {}, ...body))));
}

// A place in a list that an address names; without one, the last.
const placeIn = (said, list) => (said === "" ? list.length - 1 : Math.min(Math.max(0, Math.trunc(Number(said)) || 0), list.length - 1));

// A slider over time, with a button that plays it.
function timeline(id, label, iterations, at, onchange) {
  let timer = null;
  const shown = element("output", { htmlFor: id });
  const slider = element("input", {
    id, type: "range", min: 0, max: iterations.length - 1, step: 1, value: at,
    "aria-label": label, oninput: () => move(Number(slider.value)),
  });
  const play = button("Play", () => (timer ? stop() : start()), { className: "play" });
  function move(place) {
    slider.value = place;
    const text = `iteration ${told(iterations[place])}`;
    shown.textContent = text;
    slider.setAttribute("aria-valuetext", text);
    onchange(place);
  }
  function start() {
    if (Number(slider.value) >= iterations.length - 1) move(0);
    play.textContent = "Pause";
    timer = setInterval(() => {
      if (!slider.isConnected) return stop();
      const next = Number(slider.value) + 1;
      if (next >= iterations.length) return stop();
      move(next);
    }, Math.max(60, 4000 / iterations.length));
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }
  const made = element("div", { className: "timeline" }, play, slider, shown);
  move(at);
  return made;
}

// Plotly reads a little HTML in labels: what is not meant as such is written out.
const forPlotly = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const isDark = () => document.documentElement.dataset.theme === "dark";
const colorOf = (method) => (isDark() ? method.dark : method.light);
const DASHES = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3", longdash: "11 4", longdashdot: "11 3 2 3" };

function faded(color, share) {
  const parts = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return `rgba(${parts.join(",")},${share})`;
}

function lineSample(method) {
  return drawing("svg", { viewBox: "0 0 26 10", width: 26, height: 10, "aria-hidden": "true", class: "sample" },
    drawing("line", { x1: 1, x2: 25, y1: 5, y2: 5, stroke: colorOf(method), "stroke-width": Math.max(2, method.width), "stroke-dasharray": DASHES[method.dash] ?? "" }));
}

const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// What all plots of the page share.
function plotLayout(more) {
  const axis = {
    gridcolor: ink("--grid"), linecolor: ink("--line"), zeroline: false, ticks: "outside",
    tickcolor: ink("--line"), ticklen: 4, tickfont: { size: 12, color: ink("--quiet") },
    exponentformat: "power", automargin: true,
  };
  const title = (text) => ({ text: forPlotly(text), font: { size: 13, color: ink("--text") }, standoff: 10 });
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
    margin: { l: 58, r: 26, t: 10, b: 46 }, dragmode: "zoom",
    font: { family: ink("--font"), size: 13, color: ink("--text") },
    hoverlabel: { bgcolor: ink("--raised"), bordercolor: ink("--line"), align: "left",
      font: { family: ink("--font"), size: 13, color: ink("--text") } },
    ...more,
    xaxis: { ...axis, ...more.xaxis, title: title(more.xaxis.title) },
    yaxis: { ...axis, ...more.yaxis, title: title(more.yaxis.title) },
  };
}

const PLOT = { displayModeBar: false, responsive: true, doubleClick: "reset+autosize", showTips: false };
