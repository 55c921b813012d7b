// The network, its agents colored by what they have, over time.

const COLORINGS = { consensus: "consensus error", train_loss: "training loss", degree: "degree" };
const RAMP = ["#f4e9c8", "#f2b880", "#dd7b66", "#a5456f", "#53286b"]; // pale to deep, also in gray

function rampColor(share) {
  const place = Math.min(0.9999, Math.max(0, isDark() ? 1 - share : share)) * (RAMP.length - 1);
  const low = Math.floor(place), rest = place - low;
  const part = (color, at) => parseInt(color.slice(at, at + 2), 16);
  const mix = [1, 3, 5].map((at) => Math.round((1 - rest) * part(RAMP[low], at) + rest * part(RAMP[low + 1], at)));
  return `rgb(${mix.join(",")})`;
}

// The same scale at all times, logarithmic where values span decades.
function scaleOf(values) {
  const numbers = values.filter(isNumber);
  const positive = numbers.filter((value) => value > 0);
  if (!numbers.length) return { share: () => 0, low: null, high: null, log: false };
  const ends = (list) => [list.reduce((a, b) => Math.min(a, b)), list.reduce((a, b) => Math.max(a, b))];
  const wide = positive.length && ends(positive)[1] / ends(positive)[0] > 50;
  const [low, high] = ends(wide ? positive : numbers);
  const at = wide ? (value) => Math.log(Math.max(value, low)) : (value) => value;
  const span = at(high) - at(low) || 1;
  return { share: (value) => (at(value) - at(low)) / span, low, high, log: Boolean(wide) };
}

function arc(a, b) {
  const bend = 0.22, dx = b[0] - a[0], dy = b[1] - a[1];
  return `M${a[0]} ${-a[1]} Q${(a[0] + b[0]) / 2 + bend * dy} ${-((a[1] + b[1]) / 2 - bend * dx)} ${b[0]} ${-b[1]}`;
}

function networkPicture(network) {
  const size = Math.max(0.018, Math.min(0.085, 0.42 / Math.sqrt(network.places.length)));
  const mean = network.degrees.reduce((a, b) => a + b, 0) / network.degrees.length;
  const heights = network.places.map((place) => place[1]);
  const room = network.edges.some(([, , bent]) => bent) ? 0.34 : 0.16; // arcs leave the square
  const low = Math.min(...heights) - room, high = Math.max(...heights) + room;
  const picture = drawing("svg", { viewBox: `${-1 - room} ${-high} ${2 + 2 * room} ${high - low}`, class: "network", role: "img" });
  const edges = drawing("g", { class: "edges" });
  network.edges.forEach(([i, j, bent], number) => {
    const path = drawing("path", { d: bent ? arc(network.places[i], network.places[j])
      : `M${network.places[i][0]} ${-network.places[i][1]} L${network.places[j][0]} ${-network.places[j][1]}` });
    const lost = network.lost?.[number];
    if (isNumber(lost)) { // the redder, the more was lost
      path.style.stroke = `color-mix(in srgb, #d1242f ${Math.round(100 * Math.min(1, 0.25 + lost))}%, var(--quiet))`;
      path.style.strokeOpacity = "1";
      path.append(drawing("title"));
      path.firstChild.textContent = `edge ${i} - ${j}: ${Math.round(100 * lost)} % of the messages lost or not sent`;
    }
    edges.append(path);
  });
  const agents = network.places.map(([x, y], agent) => {
    const radius = size * Math.min(1.7, Math.max(0.8, Math.sqrt(network.degrees[agent] / mean)));
    return drawing("circle", { cx: x, cy: -y, r: radius }, drawing("title"));
  });
  picture.append(edges, drawing("g", { class: "agents" }, ...agents));
  return { picture, agents };
}

function legend(scale, name) {
  const stops = [0, 0.25, 0.5, 0.75, 1].map(rampColor).join(",");
  const bar = element("span", { className: "ramp" });
  bar.style.background = `linear-gradient(90deg, ${stops})`;
  return element("div", { className: "legend" },
    element("span", { textContent: told(scale.low, 3) }), bar, element("span", { textContent: told(scale.high, 3) }),
    element("span", { className: "quiet", textContent: `${name}${scale.log ? ", logarithmic" : ""}` }));
}

// The run that is looked at here and in the sections below.
function followedRun(with_) {
  const known = group().agents.filter((one) => one[with_]);
  return known.find((one) => one.label === view.run) ?? known[0];
}

// On paper, where the lists and sliders that say it are left out.
const whichRun = (run, iteration) => `${run.label}, seed ${run.seed}${isNumber(iteration) ? `, iteration ${told(iteration)}` : ""}`;

function runChoice(id, with_) {
  const known = group().agents.filter((one) => one[with_]);
  if (known.length < 2) return null;
  return choice(id, "Method", known.map((one) => [one.label, `${one.label}, seed ${one.seed}`]), followedRun(with_).label, (run) => change({ run }));
}

function networkSection() {
  const made = section("network", "Network");
  const inner = element("div");
  made.append(inner);
  let last = "";
  function update() {
    const run = followedRun("network");
    const over = run.network.over_time;
    const known = [...(over ? Object.keys(over.columns) : []), "degree"];
    const color = chosen("color", known, known.includes("consensus") ? "consensus" : known[0]);
    const now = JSON.stringify([run.label, color, isDark(), version]);
    if (now === last) return;
    last = now;
    const { picture, agents } = networkPicture(run.network);
    const table = over && color !== "degree" ? over.columns[color] : [run.network.degrees];
    // Agents that start alike agree best at the start: that would take up the scale.
    const scale = scaleOf((table.length > 2 ? table.slice(1) : table).flat());
    const name = COLORINGS[color] ?? color;
    const numbers = element("div");
    const onPaper = element("p", { className: "quiet caption on-paper" });
    const show = (place) => {
      const values = table[Math.min(place, table.length - 1)];
      agents.forEach((agent, number) => {
        const value = values[number];
        agent.setAttribute("fill", isNumber(value) ? rampColor(scale.share(value)) : "transparent");
        agent.firstChild.textContent = `agent ${number}: ${name} ${told(value)}, degree ${run.network.degrees[number]}`;
      });
      picture.setAttribute("aria-label", `${run.network.name} of ${agents.length} agents, colored by ${name}`);
      const kept = (column) => over?.columns[column]?.[Math.min(place, over.iterations.length - 1)];
      onPaper.textContent = whichRun(run, over?.iterations[place]);
      const columns = over ? Object.keys(over.columns) : [];
      numbers.replaceChildren(twin(["agent", "degree", ...columns.map((column) => COLORINGS[column] ?? column)],
        agents.map((_, number) => [String(number), String(run.network.degrees[number]), ...columns.map((column) => told(kept(column)[number]))]), "network"));
    };
    const moving = over && over.iterations.length > 1;
    const at = moving ? placeIn(view.at, over.iterations) : 0;
    const bar = moving
      ? timeline("time", "Iteration of the network", over.iterations, at, (place) => { show(place); note({ at: String(place) }); })
      : null;
    if (!moving) show(0);
    const mean = run.network.lost ? run.network.lost.reduce((a, b) => a + b, 0) / run.network.lost.length : 0;
    const links = run.network.lost ? ` Edges are red by the share of messages lost or not sent, ${Math.round(100 * mean)} % on average.` : "";
    const about = (over ? "" : "This run kept no numbers of single agents; they are colored by degree.") + links;
    inner.replaceChildren(
      element("div", { className: "controls" }, runChoice("run", "network"),
        switches("color", "Color", known.map((key) => [key, COLORINGS[key] ?? key]), color, (one) => change({ color: one }))),
      element("div", { className: "figure" }, picture), legend(scale, name), onPaper, ...(bar ? [bar] : []),
      element("p", { className: "quiet caption", textContent: about }), numbers);
  }
  return { element: made, update };
}
