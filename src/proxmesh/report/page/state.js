// What is looked at, kept in the address so that a view can be shared and found again.

const DEFAULTS = {
  task: "0", x: "", y: "", scale: "", xscale: "linear", seeds: "mean", smooth: "none",
  relative: "", as: "ratio", color: "", run: "", at: "", layerat: "", sort: "", theme: "",
};

const view = { ...DEFAULTS, off: new Set() };

function readAddress() {
  const said = new URLSearchParams(location.hash.slice(1));
  for (const key of Object.keys(DEFAULTS)) view[key] = said.get(key) ?? DEFAULTS[key];
  view.off = new Set(said.getAll("off"));
}

function writeAddress() {
  const said = new URLSearchParams();
  for (const [key, usual] of Object.entries(DEFAULTS))
    if (view[key] !== usual) said.set(key, view[key]);
  for (const label of view.off) said.append("off", label);
  const hash = said.toString();
  const now = location.hash.slice(1);
  if (hash !== now) history.replaceState(null, "", hash ? `#${hash}` : "#");
}

// A choice that the address names but that is not there counts as not made.
const chosen = (key, known, otherwise) => (known.includes(view[key]) ? view[key] : otherwise);
