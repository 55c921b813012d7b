// The first layer over time: where its weights are zero.

function layerSection() {
  const made = section("layer", "First layer", "Share of nonzero weights; a row for each unit.");
  const inner = element("div");
  made.append(inner);
  let last = "";
  function update() {
    const run = followedRun("layer");
    const layer = run.layer;
    const now = JSON.stringify([run.label, isDark(), version]);
    if (now === last) return;
    last = now;
    // Several pixels for each cell: paper knows nothing of sharp ones.
    const side = Math.max(1, Math.round(960 / Math.max(layer.columns, layer.rows)));
    const canvas = element("canvas", { width: side * layer.columns, height: side * layer.rows, className: "layer", role: "img" });
    const shape = Math.min(4, Math.max(0.4, layer.columns / layer.rows));
    canvas.style.width = `${Math.round(Math.min(1, shape / 1.2) * 100)}%`;
    canvas.style.aspectRatio = String(shape);
    const shares = layer.percent.map((cells) => mean(cells) / 100);
    const context = canvas.getContext("2d");
    const show = (place) => {
      const on = ink("--layer").split(",").map(Number), off = ink("--layer-off").split(",").map(Number);
      layer.percent[place].forEach((percent, cell) => {
        const color = on.map((_, part) => Math.round(off[part] + (on[part] - off[part]) * (percent / 100)));
        context.fillStyle = `rgb(${color.join(",")})`;
        context.fillRect(side * (cell % layer.columns), side * Math.floor(cell / layer.columns), side, side);
      });
      const text = `${told(100 * shares[place], 3)} % of the weights are not zero`;
      canvas.setAttribute("aria-label", `First layer of ${run.label} at iteration ${layer.iterations[place]}: ${text}`);
      words.textContent = text + ".";
      onPaper.textContent = whichRun(run, layer.iterations[place]);
    };
    const words = element("p", { className: "quiet caption" });
    const onPaper = element("p", { className: "quiet caption on-paper" });
    const end = layer.iterations.length - 1;
    const at = placeIn(view.layerat, layer.iterations);
    const bar = end > 0 ? timeline("layer-time", "Iteration of the first layer", layer.iterations, at,
      (place) => { show(place); note({ layerat: String(place) }); }) : null;
    if (!bar) show(0);
    inner.replaceChildren(
      element("div", { className: "controls" }, runChoice("layer-run", "layer")),
      element("div", { className: "figure" }, canvas), ...(bar ? [bar] : []), words, onPaper,
      twin(["iteration", "share of nonzeros"], layer.iterations.map((k, place) => [told(k), `${told(100 * shares[place], 3)} %`]), "picture"));
  }
  return { element: made, update };
}
