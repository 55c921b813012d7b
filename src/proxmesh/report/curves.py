"""Curves of several methods: a line for the mean over seeds, a band for their range."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from proxmesh.algorithms import ALGORITHMS
from proxmesh.metrics import HIGHER_IS_BETTER
from proxmesh.report.panels import AXES, PANELS, Panel
from proxmesh.report.pictures import drawable, plain, save_picture
from proxmesh.report.runs import FinishedRun

__all__ = [
    "draw",
    "draw_grid",
    "drawn_trials",
    "grid_of_curves",
    "mean_curve",
    "shared_legend",
    "style_of",
]


SPARE_COLORS = ("#c01722", "#1f5fb4", "#2c8c2c", "#7d4fb3", "#d9a900", "#17becf")


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


def mean_curve(runs: Sequence[FinishedRun], column: str, against: str) -> pd.DataFrame:
    """Mean, least and largest value over seeds at the iterations that all have."""
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
    return pd.DataFrame(
        {
            "x": x.mean(axis=1),
            "mean": y.mean(axis=1),
            "low": y.min(axis=1),
            "high": y.max(axis=1),
        }
    ).reset_index(drop=True)


def draw(
    axis: Axes,
    runs: Sequence[FinishedRun],
    panel: Panel,
    against: Panel,
    *,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    names: Mapping[str, str] | None = None,
) -> None:
    """Draw one panel: every label's curve, in a given style and name if need be."""
    labels = list(dict.fromkeys(run.label for run in runs))
    seen: list[float] = []
    for label in labels:
        mine = [run for run in runs if run.label == label and run.is_good]
        curve = mean_curve(mine, panel.column, against.column)
        if curve.empty or (curve["x"].max() == 0):  # a server sends nothing over edges
            continue
        style = (styles or {}).get(label) or style_of(label, labels)
        name = (names or {}).get(label) or plain(label)
        x = curve["x"] / against.scale
        mean, low, high = (
            drawable(curve[column], panel.log) for column in ("mean", "low", "high")
        )
        axis.plot(x, mean, label=name, **style)
        axis.fill_between(x, low, high, color=style["color"], alpha=0.08, lw=0)
        seen += curve["mean"].iloc[1:].tolist()
    _finish(axis, panel, against, np.array(seen))


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


def _finish(axis: Axes, panel: Panel, against: Panel, seen: np.ndarray) -> None:
    if panel.log:
        axis.set_yscale("log")
    seen = seen[np.isfinite(seen) & ((seen > 0) | (not panel.log))]
    if len(seen) > 1 and seen.min() < seen.max():
        # Fit to where the curves end, not to where they start from: the first tenth of
        # the way down (up, for an accuracy) would flatten everything else.
        falls = panel.column not in HIGHER_IS_BETTER
        low = float(seen.min() if falls else np.quantile(seen, 0.1))
        high = float(np.quantile(seen, 0.9) if falls else seen.max())
        if panel.log:
            axis.set_ylim(low / 1.5, high * 10)
        else:
            room = 0.15 * (high - low)
            axis.set_ylim(low - room, high + room)
    axis.locator_params(axis="x", nbins=5)
    axis.set_xlabel(against.label, fontsize=9)
    axis.set_ylabel(panel.label, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25, lw=0.6)
