// Curves: every column against every cost, over seeds or seed by seed.

const SMOOTHING = [["none", "none"], ["3", "3 points"], ["5", "5 points"], ["9", "9 points"], ["17", "17 points"], ["best", "best so far"]];

// What the switches say, with what is not said filled in.
function settings() {
  const known = [...new Set(group().runs.flatMap((run) => Object.keys(run.columns)))];
  const costs = known.filter((name) => doc.columns[name].cost);
  const measures = [...known.filter((name) => !doc.columns[name].cost), ...costs];
  const usual = measures.includes("stationarity") ? "stationarity" : measures[0];
  const x = chosen("x", costs, costs[0] ?? "iteration");
  const y = chosen("y", measures, usual);
  const labels = group().methods.map((method) => method.label);
  const relative = chosen("relative", labels, "");
  const as = chosen("as", ["ratio", "difference"], "ratio");
  const auto = relative ? (as === "ratio" ? "log" : "linear") : doc.columns[y]?.log ? "log" : "linear";
  return {
    costs, measures, labels, x, y, relative, as,
    scale: chosen("scale", ["log", "linear"], auto),
    xscale: chosen("xscale", ["log", "linear"], "linear"),
    seeds: chosen("seeds", ["mean", "single"], "mean"),
    smooth: chosen("smooth", SMOOTHING.map(([key]) => key), "none"),
  };
}

// For each method that is on: its runs' points, and their mean.
function curvesShown(set) {
  const log = set.scale === "log";
  const inner = set.relative ? set.as === "ratio" : log;
  const about = {
    x: set.x, y: set.y, log: inner, xlog: set.xscale === "log", smooth: set.smooth,
    higher: doc.columns[set.y]?.higher ?? false,
  };
  const runsOf = (label) => {
    const mine = group().runs.filter((run) => run.label === label);
    const counting = mine.filter((run) => run.counts);
    return counting.length ? counting : mine;
  };
  const reference = new Map(runsOf(set.relative).map((run) => [run.seed, pointsOf(run, about)]));
  return group().methods.filter((method) => !view.off.has(method.label)).map((method) => {
    let curves = runsOf(method.label).map((run) => ({ run, points: pointsOf(run, about) }));
    if (set.relative) {
      curves = curves.filter(({ run }) => reference.has(run.seed))
        .map(({ run, points }) => ({ run, points: against(points, reference.get(run.seed), set.as) }));
      for (const curve of curves) curve.points = curve.points.filter((point) => isDrawable(point.y, log));
    }
    const drawn = curves.filter(({ points }) => points.length);
    return { method, curves: drawn, mean: meanCurve(drawn.map(({ points }) => points), log, doc.t95) };
  }).filter(({ curves }) => curves.length);
}

function bounds(point) {
  return isNumber(point.low) ? `${told(point.mean, 3)}  [${told(point.low, 3)}, ${told(point.high, 3)}]` : told(point.mean);
}

function traces(shown, set) {
  const made = [];
  const hover = "%{fullData.name}  %{customdata}<extra></extra>";
  for (const { method, curves, mean } of shown) {
    const color = colorOf(method);
    const line = { color, dash: method.dash, width: method.width };
    const name = forPlotly(method.label);
    if (set.seeds === "single") {
      for (const { run, points } of curves)
        made.push({
          type: "scatter", mode: points.length > 1 ? "lines" : "markers", name: `${name}, seed ${run.seed}`,
          x: points.map((point) => point.x), y: points.map((point) => point.y),
          customdata: points.map((point) => told(point.y)), hovertemplate: hover,
          line: { ...line, width: Math.max(1.2, method.width * 0.7) }, marker: { color }, opacity: 0.85,
        });
      continue;
    }
    const x = mean.map((point) => point.x);
    if (mean.some((point) => isNumber(point.low))) {
      const edge = (values, more) => ({
        type: "scatter", mode: "lines", x, y: values, hoverinfo: "skip", line: { width: 0, color }, ...more,
      });
      // Below zero a logarithmic axis has no place: such an end is cut off, not drawn.
      made.push(edge(mean.map((point) => point.low)), edge(mean.map((point) => point.high), { fill: "tonexty", fillcolor: faded(color, 0.14) }));
    }
    made.push({
      type: "scatter", mode: mean.length > 1 ? "lines" : "markers", name, x, y: mean.map((point) => point.mean),
      customdata: mean.map(bounds), hovertemplate: hover, line, marker: { color, size: 8 },
    });
  }
  return made;
}

// Where the curves are. On a linear scale without their start, which would flatten
// everything else; on a logarithmic one only without a start below all that follows, as
// that of agents that begin alike and therefore agree.
function rangeOf(shown, set) {
  const log = set.scale === "log";
  const lasting = (curve) => {
    if (curve.length <= 3) return curve;
    const [first, ...rest] = curve;
    return log && first > rest.reduce((a, b) => Math.min(a, b)) ? curve : rest;
  };
  const values = shown.flatMap(({ curves, mean }) =>
    (set.seeds === "single" ? curves.map(({ points }) => points.map((point) => point.y)) : [mean.map((point) => point.mean)])
      .flatMap(lasting));
  const usable = values.filter((value) => isNumber(value) && (!log || value > 0)).map((value) => (log ? Math.log10(value) : value));
  if (usable.length < 2) return null;
  const low = usable.reduce((a, b) => Math.min(a, b)), high = usable.reduce((a, b) => Math.max(a, b));
  const room = 0.06 * (high - low) || 0.1 * Math.abs(high) || 1;
  return [low - room, high + room];
}

// Ticks on a logarithmic axis: 1, 2, 5 where there are few decades, then every decade.
function decades(range) {
  const many = range ? range[1] - range[0] : 0;
  return many > 2 && many < 12 ? 1 : many > 0.7 && many <= 2 ? "D2" : undefined;
}

const labelOf = (name) => doc.columns[name]?.label ?? name;

function heading(set) {
  if (!set.relative) return labelOf(set.y);
  return set.as === "ratio" ? `${labelOf(set.y)}, ratio to ${set.relative}` : `${labelOf(set.y)}, difference from ${set.relative}`;
}

function caption(shown, set) {
  const log = set.scale === "log";
  const parts = [];
  const seeds = shown.map(({ curves }) => curves.length);
  const many = Math.max(0, ...seeds), few = Math.min(...seeds);
  const number = few === many ? `${many}` : `${few} to ${many}`;
  if (set.seeds === "single") parts.push("One line for each seed.");
  else if (many > 1) {
    const which = log ? "Geometric mean" : "Mean";
    const how = log ? "Student t of the logarithms" : "Student t";
    parts.push(`${which} over ${number} seeds, with its 95 % interval (${how}).`);
  } else if (many) parts.push("One seed.");
  if (set.relative) parts.push(`Paired by seed, at equal ${labelOf(set.x)}.`);
  if (set.smooth === "best") parts.push("The best value so far of each seed.");
  else if (set.smooth !== "none") parts.push(`Each seed is averaged over ${set.smooth} neighboring points${log ? ", on the logarithmic scale" : ""}.`);
  if (group().thinned) parts.push(`Long curves are thinned to about ${told(group().thinned)} points.`);
  if (group().left_out) parts.push(`${told(group().left_out)} more runs are not drawn.`);
  const bad = group().runs.filter((run) => run.end && !run.counts); // one that runs still is drawn
  if (bad.length) parts.push(`Not counted: ${bad.slice(0, 4).map((run) => `${run.label} seed ${run.seed} (${run.end})`).join("; ")}${bad.length > 4 ? "; …" : ""}.`);
  return parts.join(" ");
}

function spoken(shown, set) {
  const scale = set.scale === "log" ? "logarithmic" : "linear";
  const ends = shown.map(({ method, mean }) => [method.label, mean[mean.length - 1]?.mean]).filter(([, end]) => isNumber(end));
  return `${heading(set)} against ${labelOf(set.x)}, ${scale} scale. At the end: ${ends.map(([label, end]) => `${label} ${told(end, 3)}`).join(", ")}.`;
}

function curvesTwin(shown, set) {
  const points = shown.flatMap(({ mean }) => mean.map((point) => point.x));
  const low = points.reduce((a, b) => Math.min(a, b), Infinity), high = points.reduce((a, b) => Math.max(a, b), -Infinity);
  const rows = [];
  const every = [...new Set(points)].sort((a, b) => a - b);
  const places = every.length <= 11 ? every : Array.from({ length: 11 }, (_, place) => low + ((high - low) * place) / 10);
  for (const x of places)
    rows.push([told(x), ...shown.map(({ mean }) => {
      const at = (name) => valueAt(mean.map((point) => ({ x: point.x, y: point[name] })), x, false);
      const middle = at("mean");
      return middle === null ? "–" : bounds({ mean: middle, low: mean.some((point) => isNumber(point.low)) ? at("low") : null, high: at("high") });
    })]);
  return twin([labelOf(set.x), ...shown.map(({ method }) => method.label)], rows, "plot");
}

function curvesAsCsv(shown, set) {
  const quoted = (text) => `"${String(text).replaceAll('"', '""')}"`;
  const lines = [`method,seeds,iteration,${quoted(labelOf(set.x))},${quoted(heading(set))},low,high`];
  for (const { method, curves, mean } of shown)
    for (const point of mean)
      lines.push([quoted(method.label), curves.length, point.k, point.x, point.mean, point.low ?? "", point.high ?? ""].join(","));
  return lines.join("\n") + "\n";
}

function chips() {
  const row = element("div", { className: "chips", role: "group", "aria-label": "Methods shown" });
  group().methods.forEach((method, number) => {
    const chip = button("", () => toggle(method.label), { id: `method-${number}`, className: "chip" });
    chip.setAttribute("aria-pressed", String(!view.off.has(method.label)));
    if (number < 9) chip.setAttribute("aria-keyshortcuts", String(number + 1));
    chip.title = `Show or hide ${method.label}${number < 9 ? ` (key ${number + 1})` : ""}; double-click: only this one`;
    chip.addEventListener("dblclick", () => {
      view.off = new Set(group().methods.map((one) => one.label).filter((label) => label !== method.label));
      change({});
    });
    chip.append(lineSample(method), element("span", { textContent: method.label }));
    row.append(chip);
  });
  if (group().methods.length > 1 && view.off.size) row.append(button("Show all", () => { view.off.clear(); change({}); }, { id: "all", className: "plain" }));
  return row;
}

function toggle(label) {
  if (!view.off.delete(label)) view.off.add(label);
  change({});
}

// Whether any method was run with more than one seed.
const hasSeeds = () => new Set(group().runs.map((run) => run.label)).size < group().runs.length;

function controls(set) {
  const pick = (name) => [name, doc.columns[name]?.short ?? labelOf(name)];
  const several = group().methods.length > 1;
  const row = element("div", { className: "controls" },
    choice("y", "Measure", set.measures.map(pick), set.y, (y) => change({ y, scale: "" })),
    choice("x", "Against", set.costs.map(pick), set.x, (x) => change({ x })),
    switches("scale", "Scale", [["log", "log"], ["linear", "linear"]], set.scale, (scale) => change({ scale })),
    switches("xscale", "Horizontal", [["log", "log"], ["linear", "linear"]], set.xscale, (xscale) => change({ xscale })),
    ...(hasSeeds() ? [switches("seeds", "Seeds", [["mean", "mean"], ["single", "single"]], set.seeds, (seeds) => change({ seeds }))] : []),
    choice("smooth", "Smoothing", SMOOTHING, set.smooth, (smooth) => change({ smooth })));
  if (several)
    row.append(choice("relative", "Relative to", [["", "nothing"], ...set.labels.map((label) => [label, label])], set.relative,
      (relative) => change({ relative, scale: "" })));
  if (set.relative)
    row.append(switches("as", "As", [["ratio", "ratio"], ["difference", "difference"]], set.as, (as) => change({ as, scale: "" })));
  return row;
}

function curvesSection() {
  const made = section("curves", "Curves");
  const switchesAt = element("div"), chipsAt = element("div"), twinAt = element("div");
  const plot = element("div", { className: "plot", role: "img" });
  const words = element("p", { className: "quiet caption" });
  const saving = element("div", { className: "buttons" });
  const picture = (format) => Plotly.downloadImage(plot, { format, width: 900, height: 520, scale: format === "png" ? 2 : 1, filename: "curves" });
  saving.append(
    button("PNG", () => picture("png"), { id: "save-png", "aria-label": "Save the plot as PNG" }),
    button("SVG", () => picture("svg"), { id: "save-svg", "aria-label": "Save the plot as SVG" }),
    button("CSV", () => save(curvesAsCsv(curvesShown(settings()), settings()), "curves.csv"), { id: "save-csv", "aria-label": "Save the numbers as CSV" }));
  made.firstChild.append(element("div", { className: "copying" }, element("span", { className: "quiet", textContent: "Save as" }), saving));
  made.append(switchesAt, plot, chipsAt, words, twinAt);
  function update() {
    const set = settings(), shown = curvesShown(set);
    switchesAt.replaceChildren(controls(set));
    chipsAt.replaceChildren(chips());
    words.textContent = shown.length ? caption(shown, set) : "Nothing to draw: switch a method on, or choose another scale.";
    twinAt.replaceChildren(shown.length ? curvesTwin(shown, set) : "");
    plot.setAttribute("aria-label", shown.length ? spoken(shown, set) : "No curves");
    const range = rangeOf(shown, set);
    const bytes = set.x === "bytes_sent";
    Plotly.react(plot, traces(shown, set), plotLayout({
      hovermode: set.seeds === "single" ? "closest" : "x unified",
      uirevision: [set.x, set.y, set.scale, set.xscale, set.relative, set.as].join(),
      xaxis: { title: labelOf(set.x), type: set.xscale, hoverformat: bytes ? ".4s" : ",.5~r", ...(bytes ? { exponentformat: "SI", ticksuffix: "B" } : { exponentformat: "none", separatethousands: true }) },
      yaxis: { title: heading(set), type: set.scale, ...(range ? { range, autorange: false } : {}), ...(set.scale === "log" ? { dtick: decades(range) } : {}) },
      shapes: set.relative ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: set.as === "ratio" ? 1 : 0, y1: set.as === "ratio" ? 1 : 0, line: { color: ink("--quiet"), width: 1, dash: "dot" } }] : [],
    }), PLOT);
  }
  return { element: made, update };
}
