"""Curves of several methods: a line for the mean over seeds, a band for their range."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import final

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from proxmesh.algorithms import ALGORITHMS
from proxmesh.report.runs import Run

__all__ = ["AXES", "PANELS", "Panel", "averaged", "draw", "draw_grid", "style_of"]


@final
@dataclass(frozen=True, slots=True)
class Panel:
    """One column of the histories, and how it is drawn."""

    column: str
    label: str
    log: bool = False
    scale: float = 1.0  # values are divided by it


PANELS = (
    Panel("stationarity", "stationarity", log=True),
    Panel("train_loss", "training loss"),
    Panel("test_accuracy", "test accuracy"),
    Panel("density_y", "share of nonzeros"),
)
AXES = (
    Panel("iteration", "iterations"),
    Panel("gradients", "gradients an agent"),
    Panel("bytes_sent", "MB sent, all edges", scale=1e6),
    Panel("seconds", "seconds of computing"),
)
OWN = ("hsm-admm", "hsm-admm-uniform", "hsm-admm-blind")
DASHED = ("prox-sgd", "prox-storm")  # references with a server


def style_of(label: str, labels: Sequence[str] = ()) -> dict[str, object]:
    """A color and a line that a method keeps in all figures."""
    known = [name for name in ALGORITHMS if name not in (*OWN, *DASHED)]
    if label in OWN:
        color = ("#c01722", "#e8853b", "#7a4a1d")[OWN.index(label)]
        return {"color": color, "lw": 2.4 if label == OWN[0] else 1.8, "zorder": 5}
    if label in DASHED:
        return {"color": ("#777777", "#222222")[DASHED.index(label)], "lw": 1.3,
                "ls": "--"}  # fmt: skip
    strong = [colormaps["tab20"](i) for i in (0, 1, 4, 5, 8, 9, 18, 19, 10, 11, 14, 2)]
    if label in known:
        return {"color": strong[known.index(label)], "lw": 1.4}
    own = [name for name in labels if name not in ALGORITHMS]
    place = own.index(label) if label in own else 0
    dashes = list(zip(range(len(own)), cycle(["-", "-.", ":"]), strict=False))
    return {"color": strong[-1 - place % 12], "lw": 1.6, "ls": dashes[place][1]}


def averaged(runs: Sequence[Run], column: str, against: str) -> pd.DataFrame:
    """Mean, least and largest value over seeds, row by row of the histories.

    Seeds are evaluated at the same iterations; of unequally long ones the common part
    counts.
    """
    histories = [run.history for run in runs if column in run.history]
    if not histories:
        return pd.DataFrame(columns=["x", "mean", "low", "high"])
    rows = min(map(len, histories))
    y = np.stack([h[column].to_numpy(float)[:rows] for h in histories])
    x = np.stack([h[against].to_numpy(float)[:rows] for h in histories])
    return pd.DataFrame(
        {"x": x.mean(0), "mean": y.mean(0), "low": y.min(0), "high": y.max(0)}
    )


def draw(axis: Axes, runs: Sequence[Run], panel: Panel, against: Panel) -> None:
    """Draw one panel: every label's curve."""
    labels = list(dict.fromkeys(run.label for run in runs))
    seen: list[float] = []
    for label in labels:
        mine = [run for run in runs if run.label == label and run.is_good]
        curve = averaged(mine, panel.column, against.column)
        if curve.empty or (curve["x"].max() == 0):  # a server sends nothing over edges
            continue
        style = style_of(label, labels)
        x = curve["x"] / against.scale
        axis.plot(x, curve["mean"], label=label, **style)  # type: ignore[arg-type]
        axis.fill_between(
            x, curve["low"], curve["high"], color=style["color"], alpha=0.15, lw=0
        )
        seen += curve["mean"].iloc[1:].tolist()
    _finish(axis, panel, against, np.array(seen))


def draw_grid(
    runs: Sequence[Run],
    file: Path,
    title: str = "",
    panels: Sequence[Panel] = PANELS,
    axes: Sequence[Panel] = AXES,
) -> Path:
    """Draw panels against axes, a row for each axis, with one legend."""
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
        figure.suptitle(title, fontsize=10)
    figure.savefig(file, dpi=130)
    return file


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
        # Fit to what follows the start, which would flatten everything else.
        low, high = float(seen.min()), float(np.quantile(seen, 0.995))
        if panel.log:
            axis.set_ylim(low / 1.5, high * 1.5)
        else:
            axis.set_ylim(low - 0.04 * (high - low), high + 0.04 * (high - low))
    axis.set_xlabel(against.label, fontsize=9)
    axis.set_ylabel(panel.label, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25, lw=0.6)
