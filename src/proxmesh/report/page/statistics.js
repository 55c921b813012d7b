// From runs to curves: smoothing, pairs of seeds, means with their intervals.

const isNumber = (value) => value !== null && value !== undefined && Number.isFinite(value);
const LARGEST = 1e150, SMALLEST = 1e-150; // axes overflow long before numbers do
const isDrawable = (value, log) => isNumber(value) && Math.abs(value) < LARGEST && (!log || value > SMALLEST);

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

// Mean and 95 % interval by Student's t, of the logarithms where the scale is one.
function interval(values, log, t95) {
  const used = log ? values.map(Math.log) : values;
  const middle = mean(used);
  const back = log ? Math.exp : (value) => value;
  if (used.length < 2) return { mean: back(middle), low: null, high: null };
  const spread = used.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  const error = Math.sqrt(spread / (used.length - 1) / used.length);
  const half = t95[Math.min(used.length - 2, t95.length - 1)] * error;
  return { mean: back(middle), low: back(middle - half), high: back(middle + half) };
}

// The best value so far, or the mean of the points around each one.
function smoothed(values, how, log, higher) {
  if (how === "best") {
    let best = null;
    return values.map((value) => {
      if (isNumber(value)) {
        if (best === null || (higher ? value > best : value < best)) best = value;
      }
      return best;
    });
  }
  const width = Number(how);
  if (!width) return values;
  const half = (width - 1) / 2;
  const usable = (value) => isDrawable(value, log);
  return values.map((value, place) => {
    if (!usable(value)) return null;
    const reach = Math.min(half, place, values.length - 1 - place);
    const around = values.slice(place - reach, place + reach + 1).filter(usable);
    return log ? Math.exp(mean(around.map(Math.log))) : mean(around);
  });
}

// The points of one run: { k, x, y }, those that the scales can show.
function pointsOf(run, about) {
  const { x, y, log, xlog, smooth, higher } = about;
  const across = run.columns[x], up = run.columns[y], k = run.columns.iteration;
  if (!across || !up) return [];
  const even = smoothed(up, smooth, log, higher);
  const points = [];
  for (let place = 0; place < k.length; place++) {
    const a = across[place], b = even[place];
    if (!isDrawable(a, xlog) || !isDrawable(b, log)) continue;
    points.push({ k: k[place], x: a, y: b });
  }
  return points;
}

// The value of a curve at x, between its points; null outside of them.
function valueAt(points, x, log) {
  let low = 0, high = points.length - 1;
  if (high < 0 || x < points[0].x || x > points[high].x) return null;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle].x <= x) low = middle;
    else high = middle;
  }
  const a = points[low], b = points[high];
  if (b.x === a.x) return b.y;
  const share = (x - a.x) / (b.x - a.x);
  if (log) return Math.exp((1 - share) * Math.log(a.y) + share * Math.log(b.y));
  return (1 - share) * a.y + share * b.y;
}

// One run against the run of another method with the same seed, at equal x.
function against(points, reference, how) {
  const ratio = how === "ratio";
  const found = [];
  for (const point of points) {
    const other = valueAt(reference, point.x, ratio && point.y > 0);
    if (other === null || (ratio && (other <= 0 || point.y <= 0))) continue;
    found.push({ ...point, y: ratio ? point.y / other : point.y - other });
  }
  return found;
}

// The mean over runs at the iterations that all of them have.
function meanCurve(curves, log, t95) {
  const full = curves.filter((points) => points.length);
  if (!full.length) return [];
  const seen = new Map();
  for (const points of full)
    for (const point of points) {
      if (!seen.has(point.k)) seen.set(point.k, []);
      seen.get(point.k).push(point);
    }
  return [...seen.entries()]
    .filter(([, here]) => here.length === full.length)
    .sort(([a], [b]) => a - b)
    .map(([k, here]) => ({
      k, x: mean(here.map((point) => point.x)),
      ...interval(here.map((point) => point.y), log, t95),
    }));
}
