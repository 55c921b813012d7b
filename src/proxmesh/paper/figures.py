"""The figures and tables, each drawn from the run folders of its comparisons."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from proxmesh.paper.budget import PaperSearch
from proxmesh.paper.comparisons import COMPARISONS, HUB_RULES, SERVER
from proxmesh.paper.link_tables import link_table, measured_quadratics
from proxmesh.paper.untuned import untuned
from proxmesh.report.curves import draw, draw_grid, shared_legend, style_of
from proxmesh.report.panels import AXES, PANELS
from proxmesh.report.runs import FinishedRun
from proxmesh.report.tables import as_markdown, ends_of, markdown
from proxmesh.report.targets import first_reached, fitted_slope, running_best, spent
from proxmesh.runs.build import build_algorithm
from proxmesh.runs.config import Config

__all__ = ["FIGURES", "PaperFigure"]

Runs: TypeAlias = Mapping[str, Sequence[FinishedRun]]  # by the name of their comparison
ITERATIONS, GRADIENTS, BYTES = AXES[:3]
THREE = PANELS[:3]
NOISY = ("seconds",)  # of runs side by side; `proxmesh compare --jobs 1` times them
TARGETS = (1e-2, 1e-3, 3e-4)
COST_TARGET = 1e-3
FOUR_BITS = {
    "hsm-admm": "hsm-admm, 4 bits",
    "automatic": "hsm-admm, 4 bits, nothing given",
}
CLAIMED_SLOPE = -2 / 3
LAST_DECADE = 0.1
RATE_LABELS = {
    "automatic": ("automatic", "#3a8f4d"),
    "round": ("0.25, 0.5, 1", "#2458a6"),
    "hsm-admm": ("tuned for 1,000 steps", "#c01722"),
}
RULE_NAMES = {
    "own-tuned": "own degree, tuned here",
    "largest-tuned": "largest degree, tuned here",
    "own-ring": "own degree, the ring's constants",
    "largest-ring": "largest degree, the ring's constants",
    "none-ring": "no degree, the ring's constants",
}
RULE_STYLES: Mapping[str, Mapping[str, Any]] = {
    "own-tuned": {"color": "#c01722", "lw": 2.2},
    "largest-tuned": {"color": "#2458a6", "lw": 2.0},
    "own-ring": {"color": "#c01722", "lw": 1.5, "ls": "--"},
    "largest-ring": {"color": "#2458a6", "lw": 1.5, "ls": "--"},
    "none-ring": {"color": "#777777", "lw": 1.5, "ls": ":"},
}


def _nothing(runs: Runs, folder: Path) -> None:
    """For a figure that is drawn from a search."""


@final
@dataclass(frozen=True, slots=True)
class PaperFigure:
    """What it shows, the runs it needs, and how it is made from them."""

    about: str
    needs: tuple[str, ...]
    make: Callable[[Runs, Path], None] = _nothing  # writes figure.png and table.md
    search: PaperSearch | None = None  # in place of comparisons
    measure: Callable[[str, Path], None] | None = None  # what is no run, at a scale

    def write(self, runs: Runs, scale: str, top: Path, name: str) -> list[Path]:
        """Write its folder and what repeats its comparisons; return its files."""
        folder = top / name
        folder.mkdir(parents=True, exist_ok=True)
        for needed, mine in runs.items():
            COMPARISONS[needed].write(needed, scale, mine, top / "comparisons")
        if self.measure is not None:
            self.measure(scale, folder)
        self.make(runs, folder)
        files = [folder / "figure.png", folder / "table.md"]
        return [file for file in files if file.exists()]


def _grid_of(name: str) -> Callable[[Runs, Path], None]:
    def make(runs: Runs, folder: Path) -> None:
        mine = list(runs[name])
        draw_grid(
            mine,
            folder / "figure.png",
            COMPARISONS[name].title,
            panels=THREE,
            axes=(ITERATIONS, GRADIENTS, BYTES),
        )
        (folder / "table.md").write_text(as_markdown(mine, NOISY))

    return make


def _hubs(runs: Runs, folder: Path) -> None:
    figure = Figure(figsize=(3.4 * len(runs), 3.6), layout="constrained")
    axes = figure.subplots(1, len(runs), squeeze=False)[0]
    rows = []
    for axis, (name, mine) in zip(axes, runs.items(), strict=True):
        named = [r for rule in HUB_RULES for r in mine if r.label == rule]
        draw(axis, named, PANELS[0], ITERATIONS, styles=RULE_STYLES, names=RULE_NAMES)
        axis.set_title(COMPARISONS[name].title, fontsize=10)
        rows += [_hub_row(name, rule, _of(mine, rule)) for rule in HUB_RULES]
    shared_legend(figure, axes[0])
    figure.savefig(folder / "figure.png", dpi=130)
    titles = ["graph", "step", "stationarity at the end"]
    titles += [f"iterations to {target:g}" for target in TARGETS]
    titles.append("seeds")
    (folder / "table.md").write_text(markdown(titles, rows))


def _hub_row(name: str, rule: str, runs: Sequence[FinishedRun]) -> list[str]:
    good = [run for run in runs if run.is_good]
    row = [COMPARISONS[name].title, RULE_NAMES[rule]]
    row.append(_mean([run.history["stationarity"].iloc[-1] for run in good]))
    for target in TARGETS:
        count, _ = spent(runs, "stationarity", target, "iteration")
        row.append(_count(count) if good else "-")
    return [*row, ends_of(runs)]


def _noniid(runs: Runs, folder: Path) -> None:
    figure = Figure(figsize=(3.5 * 3, 2.9 * len(runs) + 0.8), layout="constrained")
    grid = figure.subplots(len(runs), 3, squeeze=False)
    parts = []
    for line, (name, mine) in zip(grid, runs.items(), strict=True):
        for axis, panel in zip(line, THREE, strict=True):
            draw(axis, mine, panel, ITERATIONS)
            axis.set_title(COMPARISONS[name].title, fontsize=9)
        parts.append(f"{COMPARISONS[name].title}:\n\n{as_markdown(mine, NOISY)}")
    shared_legend(figure, grid[0][0])
    figure.savefig(folder / "figure.png", dpi=130)
    (folder / "table.md").write_text("\n".join(parts))


def _rate(runs: Runs, folder: Path) -> None:
    figure = Figure(figsize=(9.5, 3.8), layout="constrained")
    axes = figure.subplots(1, 2)
    measures = {"kkt": "KKT residual (Definition 1)", "stationarity": "stationarity"}
    rows = []
    for axis, (column, measure) in zip(axes, measures.items(), strict=True):
        for label, (name, color) in RATE_LABELS.items():
            every = _of(runs["rate"], label)
            mine = [run for run in every if run.is_good]
            if not mine:
                rows.append([measure, name, "-", "-", "-0.67", ends_of(every)])
                continue
            k = mine[0].history["iteration"].to_numpy(float)[1:]
            best = np.stack([running_best(r.history, column).to_numpy() for r in mine])
            mean = best.mean(0)
            slope = fitted_slope(k, mean, LAST_DECADE)
            each = [fitted_slope(k, one, LAST_DECADE) for one in best]
            spread = f"{np.std(each, ddof=1):.2f}" if len(each) > 1 else "-"
            shown = f"{name}: slope {slope:.2f}"
            axis.loglog(k, mean, color=color, lw=2, label=shown)
            axis.fill_between(k, best.min(0), best.max(0), color=color, alpha=0.15)
            tail = k[k >= LAST_DECADE * k.max()]
            fitted_on = f"{tail[0]:.0f} .. {tail[-1]:.0f}"
            rows.append([measure, name, f"{slope:.2f}", spread, "-0.67", fitted_on])
        if not axis.get_lines():
            continue
        claimed = mean[len(k) - len(tail)] * (tail / tail[0]) ** CLAIMED_SLOPE
        axis.loglog(
            tail, claimed, color="black", lw=1.1, ls="--", label="claimed: -0.67"
        )
        axis.set_xlabel("iterations K", fontsize=9)
        axis.set_ylabel(f"{measure}, smallest so far", fontsize=9)
        axis.grid(alpha=0.25, lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
    figure.suptitle(COMPARISONS["rate"].title, fontsize=10)
    figure.savefig(folder / "figure.png", dpi=130)
    titles = ["measure", "constants", "slope", "deviation over seeds", "claimed",
              "fitted on K"]  # fmt: skip
    (folder / "table.md").write_text(markdown(titles, rows))


def _communication(runs: Runs, folder: Path) -> None:
    mine = runs["ring-a9a"]
    sent = {label: _sent_by(_of(mine, label)) for label in _over_edges(mine)}
    for label, name in FOUR_BITS.items():
        sent[name] = _sent_by(_of(runs["ring-a9a-4-bits"], label))
    draw_communication(sent, folder)


def _sent_by(runs: Sequence[FinishedRun]) -> list[float]:
    """MB until each target."""
    return [
        spent(runs, "stationarity", target, "bytes_sent")[0] / 1e6 for target in TARGETS
    ]


def draw_communication(sent: Mapping[str, Sequence[float]], folder: Path) -> None:
    """Bars and a table of the MB that each method sends until each target."""
    labels = sorted(sent, key=lambda label: list(sent[label])[::-1])  # hardest first
    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    axes = figure.subplots(1, len(TARGETS), sharey=True)
    for place, (axis, target) in enumerate(zip(axes, TARGETS, strict=True)):
        _bars(axis, labels, [sent[label][place] for label in labels])
        axis.set_title(f"to stationarity {target:g}", fontsize=9)
    axes[0].invert_yaxis()
    figure.suptitle(COMPARISONS["ring-a9a"].title, fontsize=10)
    figure.savefig(folder / "figure.png", dpi=130)
    rows = [[label, *map(_count, sent[label])] for label in labels]
    titles = ["method", *(f"MB to {target:g}" for target in TARGETS)]
    (folder / "table.md").write_text(markdown(titles, rows))


def _bars(axis: Axes, labels: Sequence[str], values: Sequence[float]) -> None:
    """One bar per method, with its number; a target never reached is named so."""
    room = 1.3 * max((v for v in values if math.isfinite(v)), default=1.0)
    for place, (label, value) in enumerate(zip(labels, values, strict=True)):
        length = value if math.isfinite(value) else 0.0
        color = style_of(label.split(",")[0])["color"]
        axis.barh(place, length, color=color)
        axis.text(length + 0.02 * room, place, _count(value), va="center", fontsize=7)
    axis.set_xlim(0, room)
    axis.set_yticks(range(len(labels)), labels, fontsize=8)
    axis.set_xlabel("MB sent, all edges", fontsize=9)
    axis.tick_params(axis="x", labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


THEORY = {  # Table 1 of the paper: objective, batch, samples, communication
    "dsgt": ("F", "O(1)", "max(1/(n e^2), rho n/((1-rho)^3 e))", "the same"),
    "sppdm": ("F + H", "Omega(n/e)", "1/((1-rho)^b e^2)", "1/e"),
    "prox-gt-sa": ("F + H", "O(1/e)", "1/(n e^2)", "log(n)/e"),
    "prox-gt-sr-o": ("F + H", "O(1/e)", "1/(n e^1.5)", "log(n)/e"),
    "deepstorm-v2": ("F + H", "O(1)", "1/(e^1.5 abs(log e)^1.5)", "the same"),
    "prox-dasa": ("F + H", "O(1)", "1/(n e^2)", "1/(n e^2)"),
    "prox-dasa-gt": ("F + H", "O(1)", "1/(n e^2)", "1/(n e^2)"),
    "hsm-admm": ("F + H", "O(1)", "e^-1.5, unproven", "e^-1.5, unproven"),
}


def _cost(runs: Runs, folder: Path) -> None:
    mine = runs["ring-a9a"]
    rows = []
    for label in _over_edges(mine):
        of_label = _of(mine, label)
        gradients, reached = spent(of_label, "stationarity", COST_TARGET, "gradients")
        vectors, _ = spent(of_label, "stationarity", COST_TARGET, "vectors_sent")
        samples = _samples(of_label)
        theory = THEORY.get(label, ("-", "-", "-", "-"))
        measured = [_count(samples), _count(gradients), _count(vectors)]
        alive = any(run.is_good for run in of_label)
        seeds = f"{reached} of {len(of_label)}" if alive else ends_of(of_label)
        rows.append([label, *theory, *measured, seeds])
    titles = ["method", "objective", "batch", "samples, theory",
              "communication, theory", f"samples to {COST_TARGET:g}", "gradients",
              "vectors to each neighbor", "seeds"]  # fmt: skip
    (folder / "table.md").write_text(markdown(titles, rows))


def _samples(runs: Sequence[FinishedRun]) -> float:
    """Median of the samples that each agent drew until the target.

    A recursive estimator takes two gradients on one batch: the second draws nothing.
    """
    drawn = []
    for run in runs:
        row = first_reached(run.history, "stationarity", COST_TARGET)
        if row is None:
            drawn.append(math.inf)
            continue
        algorithm = build_algorithm(Config.model_validate(run.config))
        batch = run.config["run"]["batch"]
        k = int(row["iteration"])
        pairs = sum(algorithm.cost(i).gradients // 2 for i in range(k + 1))
        drawn.append(row["gradients"] - pairs * batch)
    return float(np.median(drawn))


def _over_edges(runs: Sequence[FinishedRun]) -> list[str]:
    """Labels that send something over edges, bad ends included, in their order."""
    labels = dict.fromkeys(run.label for run in runs)
    return [label for label in labels if label not in SERVER]


def _of(runs: Sequence[FinishedRun], label: str) -> list[FinishedRun]:
    return [run for run in runs if run.label == label]


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "-"
    spread = f" ± {np.std(values, ddof=1):.1e}" if len(values) > 1 else ""
    return f"{np.mean(values):.1e}{spread}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "not reached"


ON_LINKS = tuple(name for name in COMPARISONS if name.startswith("links-"))
HUBS = tuple(name for name in COMPARISONS if name.startswith("hubs-"))
ALL_UNTUNED = tuple(name for name in COMPARISONS if name.startswith("untuned-"))
NONIID = tuple(name for name in COMPARISONS if name.startswith("noniid-"))

FIGURES: Mapping[str, PaperFigure] = {
    "fig-ring-a9a": PaperFigure(
        "The paper's first experiment: a ring, a9a, an MLP.",
        ("ring-a9a",),
        _grid_of("ring-a9a"),
    ),
    "fig-random-mnist": PaperFigure(
        "The paper's second experiment: a random graph, MNIST, LeNet.",
        ("random-mnist",),
        _grid_of("random-mnist"),
    ),
    "fig-hubs": PaperFigure(
        "Graphs with hubs: steps by the agent's own degree, the largest, or none.",
        HUBS,
        _hubs,
    ),
    "fig-noniid": PaperFigure(
        "Data sorted by label, and in Dirichlet(0.1) proportions.", NONIID, _noniid
    ),
    "fig-rate": PaperFigure(
        "The KKT residual against K beside the claimed slope -2/3.", ("rate",), _rate
    ),
    "fig-communication": PaperFigure(
        "Bytes to reach a given stationarity.",
        ("ring-a9a", "ring-a9a-4-bits"),
        _communication,
    ),
    "fig-untuned": PaperFigure(
        "Every method at its defaults on eleven tasks: who needs tuning?",
        ALL_UNTUNED,
        untuned,
    ),
    "fig-budget": PaperFigure(
        "What tuning costs: the best of 1, 3, 6, 12 and 24 trials of seven methods.",
        (),
        search=PaperSearch("ring-a9a"),
    ),
    "table-cost": PaperFigure(
        "The paper's Table 1 with measured columns.", ("ring-a9a",), _cost
    ),
    "table-links": PaperFigure(
        "Which method survives lost, late, short and rare messages.",
        ON_LINKS,
        link_table,
        measure=measured_quadratics,
    ),
}
"""Every figure and table by its name."""
