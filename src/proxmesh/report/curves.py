"""Curves of several methods: a line for the mean over seeds, a band around it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from proxmesh.algorithms import ALGORITHMS
from proxmesh.metrics import HIGHER_IS_BETTER
from proxmesh.report.intervals import half_width
from proxmesh.report.names import proper_name
from proxmesh.report.panels import AXES, PANELS, Panel
from proxmesh.report.pictures import drawable, plain, save_picture
from proxmesh.report.runs import FinishedRun

__all__ = [
    "Band",
    "draw",
    "draw_curves",
    "draw_grid",
    "drawn_trials",
    "fit_height",
    "grid_of_curves",
    "mean_curve",
    "shared_legend",
    "style_of",
]

Band: TypeAlias = Literal["ci", "range", "none"]

SPARE_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")


def style_of(label: str, labels: Sequence[str] = ()) -> dict[str, Any]:
    """A color and a line that a method keeps in all figures.

    Labels that are no method's name take spare colors in the order of `labels`, and
    dash-dotted lines.
    """
    if label in ALGORITHMS:
        method = ALGORITHMS[label]
        line = "--" if method.server else "-"
        width = 2.4 if label == "hsm-admm" else 1.4
        top = 5 if label == "hsm-admm" else 3
        return {"color": method.color, "lw": width, "ls": line, "zorder": top}
    own = [name for name in labels if name not in ALGORITHMS]
    place = own.index(label) if label in own else 0
    return {"color": SPARE_COLORS[place % len(SPARE_COLORS)], "lw": 1.4, "ls": "-."}


def mean_curve(
    runs: Sequence[FinishedRun],
    column: str,
    against: str,
    band: Band = "range",
    log: bool = False,
) -> pd.DataFrame:
    """Mean over seeds at the iterations that all have, and the ends of a band.

    Seeds are joined by iteration: `x` and `mean` are the means of both columns there.
    The band is the range of the seeds, or with ``"ci"`` the 95 % interval of the mean
    by Student's t. For a logarithmic axis that is the interval of its logarithm,
    ``mean * exp(+- half / mean)``: never negative, and on the axis symmetric.
    """
    histories = [
        run.history.drop_duplicates("iteration", keep="last").set_index(
            "iteration", drop=False
        )
        for run in runs
        if column in run.history and against in run.history
    ]
    if not histories:
        return pd.DataFrame(columns=["x", "mean", "low", "high"])
    y = pd.concat([drawable(h[column]) for h in histories], axis=1, join="inner")
    x = pd.concat([drawable(h[against]) for h in histories], axis=1, join="inner")
    mean = y.mean(axis=1)
    low, high = y.min(axis=1), y.max(axis=1)
    if band != "range":
        half = pd.Series(half_width(y.std(axis=1), y.count(axis=1)), y.index)
        half = half.fillna(0) if band == "ci" else 0 * mean
        low, high = mean - half, mean + half
        if log:
            ratio = np.exp(half / mean.where(mean > 0))
            low, high = mean / ratio, mean * ratio
    columns = {"x": x.mean(axis=1), "mean": mean, "low": low, "high": high}
    return pd.DataFrame(columns).reset_index(drop=True)


def draw(
    axis: Axes,
    runs: Sequence[FinishedRun],
    panel: Panel,
    against: Panel,
    *,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    names: Mapping[str, str] | None = None,
) -> None:
    """Draw one panel for a screen: curves and ranges, fitted to where they end."""
    heights = draw_curves(axis, runs, panel, against, styles=styles, names=names)
    _finish(axis, panel, against, heights)


def draw_curves(
    axis: Axes,
    runs: Sequence[FinishedRun],
    panel: Panel,
    against: Panel,
    *,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    names: Mapping[str, str] | None = None,
    band: Band = "range",
    opacity: float = 0.08,
) -> np.ndarray:
    """Draw every label's curve, in a given style and name if need be.

    Returns the heights of the lines, their starts left out.
    """
    labels = list(dict.fromkeys(run.label for run in runs))
    seen: list[float] = []
    for label in labels:
        mine = [run for run in runs if run.label == label and run.is_good]
        curve = mean_curve(mine, panel.column, against.column, band, panel.log)
        if curve.empty or (curve["x"].max() == 0):  # a server sends nothing over edges
            continue
        style = (styles or {}).get(label) or style_of(label, labels)
        name = (names or {}).get(label) or proper_name(label)
        x = drawable(curve["x"] / against.scale, against.log)
        mean, low, high = (
            drawable(curve[column] / panel.scale, panel.log)
            for column in ("mean", "low", "high")
        )
        axis.plot(x, mean, label=plain(name), **style)
        if band != "none":
            color = style["color"]
            axis.fill_between(x, low, high, color=color, alpha=opacity, lw=0)
        seen += (curve["mean"].iloc[1:] / panel.scale).tolist()
    return np.array(seen)


def draw_grid(
    runs: Sequence[FinishedRun],
    file: Path,
    title: str = "",
    panels: Sequence[Panel] = PANELS,
    axes: Sequence[Panel] = AXES,
) -> Path:
    """Draw panels against axes, as `grid_of_curves`, into a file."""
    return save_picture(grid_of_curves(runs, title, panels, axes), file, dpi=130)


def grid_of_curves(
    runs: Sequence[FinishedRun],
    title: str = "",
    panels: Sequence[Panel] = PANELS,
    axes: Sequence[Panel] = AXES,
) -> Figure:
    """Panels against axes, a row for each axis, with one legend."""
    have = {column for run in runs for column in run.history}
    panels = [p for p in panels if p.column in have]
    axes = [a for a in axes if a.column in have] or [AXES[0]]
    rows, columns = len(axes), max(1, len(panels))
    figure = Figure(figsize=(3.5 * columns, 2.7 * rows + 0.9), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for line, against in zip(grid, axes, strict=True):
        for axis, panel in zip(line, panels, strict=False):
            draw(axis, runs, panel, against)
    shared_legend(figure, grid[0][0])
    if title:
        figure.suptitle(title, fontsize=10, parse_math=False)
    return figure


def drawn_trials(values: "pd.Series[float]", name: str) -> Figure:
    """What the trials of a search reached, and the best so far."""
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axis = figure.subplots()
    reached = drawable(values.reset_index(drop=True), log=True)
    axis.plot(reached.index, reached, "o", color=SPARE_COLORS[1], label="trials")
    axis.plot(reached.index, reached.cummin(), color=SPARE_COLORS[0], label="best")
    axis.set_yscale("log")
    axis.set_xlabel("trial", fontsize=9)
    axis.set_ylabel(plain(name), fontsize=9)
    axis.legend(frameon=False, fontsize=8)
    return figure


def shared_legend(figure: Figure, axis: Axes) -> None:
    """Put the names of all curves under the figure."""
    handles, names = axis.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles,
            names,
            loc="outside lower center",
            ncols=min(7, len(names)),
            frameon=False,
            fontsize=8,
        )


def fit_height(axis: Axes, panel: Panel, heights: np.ndarray) -> None:
    """Fit an axis to where the curves end, not to where they start from.

    The first tenth of the way down (up, for an accuracy) would flatten everything else.
    """
    seen = heights[np.isfinite(heights) & ((heights > 0) | (not panel.log))]
    if len(seen) < 2 or seen.min() == seen.max():
        return
    falls = panel.column not in HIGHER_IS_BETTER
    low = float(seen.min() if falls else np.quantile(seen, 0.1))
    high = float(np.quantile(seen, 0.9) if falls else seen.max())
    if panel.log:
        axis.set_ylim(low / 1.5, high * 10)
    elif low < high:
        room = 0.15 * (high - low)
        axis.set_ylim(low - room, high + room)


def _finish(axis: Axes, panel: Panel, against: Panel, heights: np.ndarray) -> None:
    if panel.log:
        axis.set_yscale("log")
    fit_height(axis, panel, heights)
    axis.locator_params(axis="x", nbins=5)
    axis.set_xlabel(against.label, fontsize=9)
    axis.set_ylabel(panel.label, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25, lw=0.6)
