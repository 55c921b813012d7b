// The page as a whole: which sections it has, and what happens when something changes.

let doc = null, version = 0, parts = [];

const taskShown = () => placeIn(view.task || "0", doc.groups);
const group = () => doc.groups[taskShown()];

// Whatever is replaced while a key is pressed on it keeps the focus.
function keepingFocus(act) {
  const active = document.activeElement;
  const id = active?.id || active?.closest?.("[id]")?.id;
  const value = active?.dataset?.value;
  const open = new Set([...document.querySelectorAll("details[open]")].map((one) => one.querySelector("summary").textContent + one.closest("section")?.id));
  act();
  for (const one of document.querySelectorAll("details"))
    if (open.has(one.querySelector("summary").textContent + one.closest("section")?.id)) one.open = true;
  if (!active || active.isConnected || !id) return;
  const place = byId(id);
  (value === undefined ? place : place?.querySelector(`[data-value="${CSS.escape(value)}"]`))?.focus({ preventScroll: true });
}

function note(changes) {
  Object.assign(view, changes);
  clearTimeout(note.timer);
  note.timer = setTimeout(writeAddress, 120); // a slider moves often
}

function change(changes) {
  const task = view.task;
  Object.assign(view, changes);
  writeAddress();
  if (view.task !== task) build();
  else keepingFocus(() => parts.forEach((part) => part.update()));
}

function build() {
  const made = [];
  if (group().kind === "tuning") {
    made.push(tuningSection(), tableSection("trials", "Trials", ""), aboutSection());
  } else {
    const several = new Set(group().runs.map((run) => run.seed)).size > 1;
    if (group().runs.length) made.push(curvesSection());
    made.push(tableSection("results", "Results", several ? "At the end: mean ± standard deviation over seeds, the best in bold." : "At the end."));
    if (group().agents.some((one) => one.network)) made.push(networkSection());
    if (group().agents.some((one) => one.layer)) made.push(layerSection());
    if (group().about.length) made.push(aboutSection());
  }
  parts = made;
  byId("report").replaceChildren(...made.map((part) => part.element));
  byId("sections").replaceChildren(...made.map(({ element: one }) => {
    const link = element("a", { href: `#${one.id}`, textContent: one.querySelector("h2").textContent });
    link.addEventListener("click", (event) => {
      event.preventDefault(); // the address keeps the view
      one.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
      one.querySelector("h2").setAttribute("tabindex", "-1");
      one.querySelector("h2").focus({ preventScroll: true });
    });
    return link;
  }));
  describe();
  parts.forEach((part) => part.update());
}

function describe() {
  document.title = doc.title;
  byId("title").textContent = doc.title;
  byId("subtitle").textContent = doc.subtitle;
  const many = doc.groups.length > 1;
  byId("tasks").replaceChildren(...(many ? [choice("task", "Task",
    doc.groups.map((one, number) => [String(number), one.title || `task ${number + 1}`]), String(taskShown()), (task) => change({ task, off: new Set(), run: "", at: "", layerat: "", sort: "" }))] : []));
  byId("footer").textContent = `Made ${doc.made.replace("T", " ").replace("+00:00", " UTC")} by proxmesh ${doc.version}.`;
}

// -- light and dark -------------------------------------------------------------------

const THEMES = { "": "Auto", light: "Light", dark: "Dark" };
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function applyTheme(forced) {
  const dark = (forced ?? view.theme) === "dark" || (!(forced ?? view.theme) && prefersDark.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const name = THEMES[view.theme] ?? "Auto";
  byId("theme").replaceChildren(element("span", { textContent: "Theme: " }), name.toLowerCase());
  byId("theme").setAttribute("aria-label", `Theme: ${name.toLowerCase()}; switch`);
}

function nextTheme() {
  const names = Object.keys(THEMES);
  view.theme = names[(names.indexOf(view.theme) + 1) % names.length] ?? "";
  applyTheme();
  change({});
}

function printed(isOn) {
  applyTheme(isOn ? "light" : undefined);
  document.documentElement.classList.toggle("printing", isOn);
  parts.forEach((part) => part.update());
  for (const plot of document.querySelectorAll(".plot")) Plotly.relayout(plot, { width: isOn ? 700 : undefined, height: isOn ? 400 : undefined, autosize: !isOn });
}

// -- while a run goes on --------------------------------------------------------------

async function follow() {
  const shown = byId("live");
  shown.hidden = false;
  shown.textContent = "Live";
  for (let wait = 1000; ; ) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    try {
      const answer = await fetch("data", { cache: "no-store" });
      if (answer.status === 200) {
        doc = await answer.json();
        version += 1;
        const kinds = parts.map((part) => part.element.id).join();
        keepingFocus(() => { describe(); if (sectionsOf(group()) === kinds) parts.forEach((part) => part.update()); else build(); });
      }
      const ended = doc.live === false;
      shown.textContent = ended ? "Ended" : "Live";
      shown.classList.toggle("ended", ended);
      if (ended) return;
    } catch {
      shown.textContent = "Ended: nobody answers any more. These are the last numbers.";
      shown.classList.add("ended");
      return;
    }
  }
}

function sectionsOf(one) {
  if (one.kind === "tuning") return "trials-plot,trials,about";
  return [one.runs.length && "curves", "results", one.agents.some((run) => run.network) && "network",
    one.agents.some((run) => run.layer) && "layer", one.about.length && "about"].filter(Boolean).join();
}

// -- start ----------------------------------------------------------------------------

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const method = group().methods[Number(event.key) - 1];
  if (/^[1-9]$/.test(event.key) && method) toggle(method.label);
  else if (event.key === "0") { view.off.clear(); change({}); }
}

async function start() {
  try {
    doc = JSON.parse(await unpacked("document"));
    byId("document").remove();
    readAddress();
    applyTheme();
    await loadPlotly();
    byId("wait").remove();
    build();
  } catch (error) {
    byId("wait").textContent = `The report could not be drawn: ${error.message}. It needs a browser from 2023 or later.`;
    throw error;
  }
  byId("theme").addEventListener("click", nextTheme);
  byId("link").addEventListener("click", () => { writeAddress(); copy(location.href, "Link"); });
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
  document.addEventListener("keydown", keys);
  addEventListener("hashchange", () => { readAddress(); applyTheme(); build(); });
  addEventListener("beforeprint", () => printed(true));
  addEventListener("afterprint", () => printed(false));
  prefersDark.addEventListener("change", () => { applyTheme(); change({}); });
  document.documentElement.dataset.ready = "yes";
  if (doc.live) follow();
}

start();
