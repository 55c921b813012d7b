"""`fig-untuned`: every method as it comes, on tasks of several kinds."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from proxmesh.paper.comparisons import COMPARISONS, PAPERS_RULE, UNTUNED
from proxmesh.report.names import proper_name
from proxmesh.report.runs import FinishedRun
from proxmesh.report.tables import markdown

__all__ = ["untuned"]

BLEW_UP = "\N{MULTIPLICATION SIGN}"
WORST = 1e4  # times the best: what a run that blew up counts as in the order of rows


def untuned(runs: Mapping[str, Sequence[FinishedRun]], folder: Path) -> None:
    """Draw how far each method ends from the best of each task, and write the table."""
    made = {run.label for mine in runs.values() for run in mine}
    methods = [label for label in UNTUNED if label in made]
    ratios, finals = _over_the_best(runs, methods)
    order = np.argsort([np.log(np.minimum(row, WORST)).mean() for row in ratios])
    labels = [_called(methods[i]) for i in order]
    titles = [COMPARISONS[name].title for name in runs]
    _drawn(ratios[order], labels, titles).savefig(folder / "figure.png", dpi=130)
    rows = [
        [label, *(_number(value) for value in finals[i])]
        for label, i in zip(labels, order, strict=True)
    ]
    (folder / "table.md").write_text(markdown(["method", *titles], rows))


def _over_the_best(
    runs: Mapping[str, Sequence[FinishedRun]], methods: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Final stationarity over the task's least, and itself: methods by tasks."""
    finals = np.array(
        [
            [_final([run for run in mine if run.label == label]) for label in methods]
            for mine in runs.values()
        ]
    ).T
    least = finals.min(0)
    with np.errstate(invalid="ignore"):
        ratios = np.where(np.isfinite(finals), finals / least, math.inf)
    return ratios, finals


def _final(runs: Sequence[FinishedRun]) -> float:
    """Geometric mean over seeds; infinite where one ended badly or is missing."""
    ends = [
        float(run.history["stationarity"].iloc[-1]) if run.is_good else math.inf
        for run in runs
    ]
    return math.exp(sum(map(math.log, ends)) / len(ends)) if ends else math.inf


def _drawn(ratios: np.ndarray, labels: Sequence[str], titles: Sequence[str]) -> Figure:
    size = (0.75 * len(titles) + 2.6, 0.27 * len(labels) + 1.9)
    figure = Figure(figsize=size, layout="constrained")
    axis = figure.subplots()
    shown = np.ma.masked_invalid(ratios)
    image = axis.imshow(shown, norm=LogNorm(1, 1e3), cmap="viridis_r", aspect="auto")
    for row, column in np.ndindex(ratios.shape):
        ratio = ratios[row, column]
        blew_up = not math.isfinite(ratio)
        text = BLEW_UP if blew_up else f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0e}"
        dark = not blew_up and ratio > 30
        color = "white" if dark else "black"
        axis.text(column, row, text, ha="center", va="center", fontsize=7, color=color)
    axis.set_xticks(range(len(titles)), titles, rotation=35, ha="right", fontsize=8)
    axis.set_yticks(range(len(labels)), labels, fontsize=8)
    axis.set_title(
        f"final stationarity over the best of the task; {BLEW_UP}: blew up", fontsize=9
    )
    figure.colorbar(image, ax=axis, fraction=0.03, pad=0.01)
    return figure


def _called(label: str) -> str:
    rule = "HSM-ADMM, the paper's rule"
    return rule if label == PAPERS_RULE else proper_name(label)


def _number(value: float) -> str:
    return f"{value:.1e}" if math.isfinite(value) else "blew up"
