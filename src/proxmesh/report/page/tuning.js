// Trials of a search, and the best so far.

function tuningSection() {
  const made = section("trials-plot", "Search", "Every trial, and the best so far of each method.");
  const plot = element("div", { className: "plot", role: "img" });
  const switchesAt = element("div"), chipsAt = element("div"), twinAt = element("div");
  made.append(switchesAt, plot, chipsAt, twinAt);
  function update() {
    const { methods, objective } = group();
    const scale = chosen("scale", ["log", "linear"], "log");
    switchesAt.replaceChildren(element("div", { className: "controls" },
      switches("scale", "Scale", [["log", "log"], ["linear", "linear"]], scale, (one) => change({ scale: one }))));
    chipsAt.replaceChildren(chips());
    const shown = methods.filter((method) => !view.off.has(method.label));
    const drawn = shown.flatMap((method) => {
      const drawable = (values) => values.map((value) => (isDrawable(value, scale === "log") ? value : null));
      const x = method.values.map((_, place) => place), color = colorOf(method), name = forPlotly(method.label);
      const text = (values) => values.map((value) => told(value));
      return [
        { type: "scatter", mode: "markers", x, y: drawable(method.values), name: `${name}, trial`, customdata: text(method.values),
          marker: { color, size: 8, opacity: 0.75 }, hovertemplate: "%{fullData.name} %{x}  %{customdata}<extra></extra>" },
        { type: "scatter", mode: "lines", x, y: drawable(method.best), name: `${name}, best so far`, customdata: text(method.best),
          line: { color, dash: method.dash, width: 2, shape: "hv" }, hovertemplate: "%{fullData.name}  %{customdata}<extra></extra>" },
      ];
    });
    plot.setAttribute("aria-label", `${objective} of every trial. Best: ${shown.map((method) => `${method.label} ${told(method.best.at(-1))}`).join(", ")}.`);
    twinAt.replaceChildren(twin(["method", "trials", "best", "first"],
      methods.map((method) => [method.label, String(method.values.length), told(method.best.at(-1)), told(method.values[0])]), "plot"));
    Plotly.react(plot, drawn, plotLayout({
      hovermode: "closest", xaxis: { title: "trial", dtick: methods[0]?.values.length <= 20 ? 1 : undefined },
      yaxis: { title: objective.replaceAll("_", " "), type: scale, exponentformat: "power" },
    }), PLOT);
  }
  return { element: made, update };
}
