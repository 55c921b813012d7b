"""One figure for a paper: chosen columns of chosen methods, in an exact size."""

import contextlib
import math
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from proxmesh.errors import InputError, Notice, shortened
from proxmesh.report.curves import Band, draw_curves, fit_height
from proxmesh.report.looks import Look, line_styles, settings_of
from proxmesh.report.panels import Panel
from proxmesh.report.pictures import drawable, save_picture
from proxmesh.report.runs import FinishedRun

__all__ = ["Drawing", "LegendPlace", "drawn", "save_drawing"]

LegendPlace: TypeAlias = Literal["above", "inside", "none"]

DPI = 300
HEIGHT = 0.68  # of a panel, for a width of 1
NARROWEST = 0.25  # inches per point of text that a panel needs to be readable
FEWEST_LETTERS = 8  # of a name on one line
BLANK = [" "]  # at first: matplotlib would hide a name that begins with `_`
NO_DATE: Mapping[str, Mapping[str, Any]] = {  # the same figure is the same file
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}


@final
@dataclass(frozen=True, slots=True)
class Drawing:
    """What is drawn, and how."""

    x: Panel
    y: tuple[Panel, ...]
    names: Mapping[str, str]  # of each label, in the order of the legend
    look: Look
    width: float  # inches
    height: float | None = None  # None: what suits the width
    band: Band = "ci"
    seeds: bool = False  # a thin line for each run
    legend: LegendPlace = "above"
    limits: tuple[tuple[float, float], ...] = ()  # of each y; empty: what fits


def drawn(runs: Sequence[FinishedRun], drawing: Drawing) -> Figure:
    """Draw a figure; methods without anything to show are left out with a notice."""
    mine = _with_something_to_show(runs, drawing)
    labels = [label for label in drawing.names if any(r.label == label for r in mine)]
    ordered = [run for label in labels for run in mine if run.label == label]
    styles = line_styles(labels, drawing.look)
    with mpl.rc_context(settings_of(drawing.look)), _in_our_words():
        figure, axes = _empty(drawing)
        for axis, panel in zip(axes, drawing.y, strict=True):
            _draw_panel(axis, ordered, panel, drawing, styles)
        for axis, ends in zip(axes, drawing.limits, strict=False):
            axis.set_ylim(*ends)
        legend = _legend(figure, axes[0], drawing, styles)
        _fit_size(figure, legend, drawing)
        figure.draw_without_rendering()  # later draws keep these fonts
    return figure


def save_drawing(figure: Figure, file: Path, look: Look) -> Path:
    """Write a figure in its exact size, fonts embedded."""
    options = {"metadata": dict(NO_DATE.get(file.suffix.lower(), {}))}
    try:
        with mpl.rc_context(settings_of(look)), _in_our_words():
            return save_picture(figure, file, DPI, **options)
    except OSError as error:
        raise InputError(
            f"picture `{shortened(file)}` cannot be written: {error.strerror}."
        ) from error


def _with_something_to_show(
    runs: Sequence[FinishedRun], drawing: Drawing
) -> list[FinishedRun]:
    """The good runs with a point on some panel; a notice says which are left out."""
    kept, notes = [], []
    for label, name in drawing.names.items():
        mine = [run for run in runs if run.label == label]
        bad = [run.end for run in mine if not run.is_good]
        good = [run for run in mine if run.is_good]
        if bad:
            many = f"{len(bad)} of {len(mine)} runs of `{shortened(name)}`"
            notes.append(f"{many} are left out: {bad[0]}.")
        if any(_points(run, panel, drawing.x) for run in good for panel in drawing.y):
            kept += good
        elif good:
            lacks = " or ".join(f"`{panel.column}`" for panel in drawing.y)
            notes.append(
                f"`{shortened(name)}` is left out: it has no {lacks} by "
                f"`{drawing.x.column}`."
            )
    log = drawing.x.log or any(panel.log for panel in drawing.y)
    for panel in drawing.y:
        if not any(_points(run, panel, drawing.x) for run in kept):
            raise InputError(
                f"plot: no run has a {'positive ' if log else ''}number in "
                f"`{panel.column}` by `{drawing.x.column}`. Choose other columns or "
                f"methods{', or a linear scale' if log else ''}."
            )
    for note in notes:
        warnings.warn(note, Notice, stacklevel=4)
    return kept


def _points(run: FinishedRun, panel: Panel, against: Panel) -> bool:
    """Whether a run has something to draw; a server has no bytes."""
    if not {panel.column, against.column} <= {*run.history}:
        return False
    x = drawable(run.history[against.column], against.log)
    y = drawable(run.history[panel.column], panel.log)
    return bool((x.notna() & y.notna()).any() and x.max() > 0)


def _empty(drawing: Drawing) -> tuple[Figure, list[Axes]]:
    """A figure with as many panels side by side as are readable."""
    count = len(drawing.y)
    narrowest = NARROWEST * drawing.look.size
    columns = max(1, min(count, int(drawing.width / narrowest)))
    rows = math.ceil(count / columns)
    columns = math.ceil(count / rows)
    height = rows * HEIGHT * drawing.width / columns
    figure = Figure(figsize=(drawing.width, height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in grid[count:]:
        axis.remove()
    return figure, list(grid[:count])


def _draw_panel(
    axis: Axes,
    runs: Sequence[FinishedRun],
    panel: Panel,
    drawing: Drawing,
    styles: Mapping[str, Mapping[str, Any]],
) -> None:
    axis.set_xscale("log" if drawing.x.log else "linear")
    axis.set_yscale("log" if panel.log else "linear")
    heights = draw_curves(
        axis,
        runs,
        panel,
        drawing.x,
        styles=styles,
        names=drawing.names,
        band=drawing.band,
        opacity=drawing.look.opacity,
    )
    if drawing.seeds:
        for run in runs:
            _draw_seed(axis, run, panel, drawing.x, styles[run.label]["color"])
    if panel.log:
        _fit_decades(axis, heights)
    else:
        fit_height(axis, panel, heights)
    axis.margins(x=0.02)
    if not drawing.x.log:
        axis.locator_params(axis="x", nbins=5)
        if 1e4 <= axis.get_xlim()[1] < 1e6:
            axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_xlabel(drawing.x.label, parse_math=False)
    axis.set_ylabel(panel.label, parse_math=False)


def _draw_seed(
    axis: Axes, run: FinishedRun, panel: Panel, against: Panel, color: str
) -> None:
    if _points(run, panel, against):
        x = drawable(run.history[against.column] / against.scale, against.log)
        y = drawable(run.history[panel.column] / panel.scale, panel.log)
        axis.plot(
            x, y, color=color, lw=0.4 * mpl.rcParams["lines.linewidth"], alpha=0.6
        )


def _fit_decades(axis: Axes, heights: np.ndarray) -> None:
    """Show the lines whole after their start; bands may leave the axis."""
    seen = pd.Series(heights)
    seen = drawable(seen, log=True).dropna()
    if seen.empty:
        return
    low, high = float(seen.min()), float(seen.max())
    room = max(1.25, (high / low) ** 0.06)
    axis.set_ylim(low / room, high * room)
    if high * room / (low / room) >= 100:
        axis.yaxis.set_minor_formatter(NullFormatter())


def _legend(
    figure: Figure,
    axis: Axes,
    drawing: Drawing,
    styles: Mapping[str, Mapping[str, Any]],
) -> Legend | None:
    """One legend for all panels, in as many columns as fit side by side."""
    lines = [
        Line2D([], [], **{key: style[key] for key in style if key != "markevery"})
        for style in styles.values()
    ]
    names = [shortened(drawing.names[label]) for label in styles]
    if drawing.legend == "none":
        return None
    if drawing.legend == "inside":
        legend = axis.legend(lines, BLANK * len(lines), loc="best", labelspacing=0.3)
        return _named(legend, names)
    for columns in range(len(lines), 1, -1):
        legend = _above(figure, lines, names, columns)
        if _inches(figure, legend)[0] <= drawing.width:
            return legend
        legend.remove()
    legend = _above(figure, lines, names, 1)
    letters = max(map(len, names))
    while _inches(figure, legend)[0] > drawing.width and letters > FEWEST_LETTERS:
        letters -= 1
        _named(legend, [textwrap.fill(name, letters) for name in names])
    return legend


def _above(
    figure: Figure, lines: Sequence[Line2D], names: Sequence[str], columns: int
) -> Legend:
    legend = figure.legend(
        lines,
        BLANK * len(lines),
        loc="outside upper center",
        ncols=columns,
        borderaxespad=0.2,
    )
    return _named(legend, names)


def _named(legend: Legend, names: Sequence[str]) -> Legend:
    """Show names as they are: no formulas, nothing hidden."""
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)
    return legend


def _inches(figure: Figure, legend: Legend) -> tuple[float, float]:
    canvas: Any = FigureCanvasAgg(figure)
    box = legend.get_window_extent(canvas.get_renderer())
    return box.width / figure.dpi, box.height / figure.dpi


def _fit_size(figure: Figure, legend: Legend | None, drawing: Drawing) -> None:
    """Give the legend room of its own, unless the height is fixed."""
    width, height = figure.get_size_inches()
    if legend is not None and drawing.legend == "above":
        height += _inches(figure, legend)[1]
    figure.set_size_inches(width, height if drawing.height is None else drawing.height)


@contextlib.contextmanager
def _in_our_words() -> Iterator[None]:
    """Say what matplotlib warns of: letters that no font has, and too little room."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
    said = [str(warning.message) for warning in seen]
    if any(text.startswith("constrained_layout not applied") for text in said):
        raise InputError(
            "plot: panels, labels and legend do not fit into a figure of this size. "
            "Make it larger, or leave the legend away."
        )
    missing = [text for text in said if "missing from font" in text]
    if missing:
        text = f"{len(missing)} letters are in no font here: {shortened(missing[0])}"
        warnings.warn(text, Notice, stacklevel=4)
    for warning, text in zip(seen, said, strict=True):
        if text not in missing:
            warnings.warn(warning.message, warning.category, stacklevel=4)
