"""A figure for a paper, from run folders or a comparison."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from proxmesh.algorithms import ALGORITHMS
from proxmesh.checks import require_positive
from proxmesh.errors import InputError, shortened, unknown
from proxmesh.front.comparing import Comparison
from proxmesh.report.names import method_of, proper_name
from proxmesh.report.panels import Panel, in_units, panel_of
from proxmesh.report.pictures import picture_file
from proxmesh.report.runs import FinishedRun, collect, require_one_task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from proxmesh.report.curves import Band
    from proxmesh.report.plotting import LegendPlace

__all__ = ["inches", "plot"]

Limits: TypeAlias = tuple[float, float]
Source: TypeAlias = "Comparison | str | Path | Sequence[str | Path]"

WIDTHS = {"ieee": 3.5, "ieee-wide": 7.16, "neurips": 5.5}
UNITS = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}  # TeX's points
SCALES = ("auto", "linear", "log")
WIDEST = 100.0  # inches; matplotlib would take gigabytes


def plot(
    runs: Source,
    x: str = "iterations",
    y: str | Sequence[str] = "stationarity",
    *,
    methods: Sequence[str] | None = None,
    labels: Sequence[str] | Mapping[str, str] | None = None,
    width: str | float | None = None,
    height: str | float | None = None,
    style: str = "paper",
    band: "Band" = "ci",
    seeds: bool = False,
    x_scale: str = "auto",
    y_scale: str | Sequence[str] = "auto",
    ylim: Limits | Sequence[Limits] | None = None,
    legend: "LegendPlace" = "above",
    out: str | Path | None = None,
    format: str | None = None,  # noqa: A002 - as matplotlib calls it
    force: bool = False,
) -> "Figure":
    r"""Draw curves of runs for a paper, in an exact size; return a matplotlib figure.

    A line is the mean over seeds at the iterations that all of a method's runs have,
    against the mean of `x` there. Runs that ended badly are left out with a notice.

    Parameters
    ----------
    runs
        A folder of runs, several, or what `proxmesh.compare` returned; all of one task.
    x, y
        Columns of the histories, or ``iterations``, ``bytes``, ``vectors``, ``loss``,
        ``accuracy``, ``nonzeros``. With several `y` there is a panel for each.
    methods
        Which, in the order of the legend. By default all.
    labels
        Other names for the methods: in their order, or by method. They are shown as
        they are; ``$`` begins no formula.
    width, height
        ``"ieee"`` (3.5 inches), ``"ieee-wide"`` (7.16), ``"neurips"`` (5.5), inches, or
        a text such as ``"89mm"``. By default the width suits the style, and the height
        the width.
    style
        ``"paper"``, ``"talk"`` or ``"dark"``.
    band
        Around each line: ``"ci"``, the 95 % interval of the mean by Student's t (of its
        logarithm on a logarithmic axis); ``"range"`` of the seeds; ``"none"``.
    seeds
        Whether to draw a thin line for each run, too.
    x_scale, y_scale
        ``"log"``, ``"linear"``, or ``"auto"``: what suits the column. For several `y`,
        one for all or one for each.
    ylim
        Ends of the vertical axis; for several `y`, a pair for each.
    legend
        ``"above"``, ``"inside"`` the first panel, or ``"none"``.
    out
        File to write, too, with its fonts embedded. Its suffix decides the format.
    format
        ``"pdf"``, ``"svg"`` or ``"png"``, where `out` has no suffix.
    force
        Whether a file that exists is overwritten.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(3))
    >>> methods = {"dsgt": pm.DSGT(0.1), "d-psgd": pm.DPSGD(0.1)}
    >>> found = pm.compare(methods, problem, pm.graphs.path(3), steps=20, seeds=2)
    >>> figure = pm.plot(found, x="bytes", y=["stationarity", "loss"], width="neurips")
    >>> float(figure.get_figwidth()), len(figure.axes)
    (5.5, 2)
    """
    from proxmesh.report.curves import Band
    from proxmesh.report.looks import LOOKS
    from proxmesh.report.plotting import Drawing, LegendPlace, drawn, save_drawing

    _require_one_of("style", style, LOOKS)
    _require_one_of("band", band, get_args(Band))
    _require_one_of("legend", legend, get_args(LegendPlace))
    look = LOOKS[style]
    wide = inches(look.width if width is None else width, "width")
    file = None if out is None else picture_file(out, format, force)
    if out is None and format is not None:
        raise InputError("plot: `format` is that of a file. Give `out`, too.")

    found = list(runs.runs) if isinstance(runs, Comparison) else _read(runs)
    require_one_task(found)
    chosen = _chosen(found, methods)
    found = [run for run in found if run.label in chosen]
    across = _panels("x", [x], [x_scale], found)[0]
    panels = _panels("y", _listed(y), _listed(y_scale), found)
    drawing = Drawing(
        x=in_units(across, _largest(found, across.column)),
        y=tuple(panels),
        names=_names(chosen, labels),
        look=look,
        width=wide,
        height=None if height is None else inches(height, "height"),
        band=band,
        seeds=seeds,
        legend=legend,
        limits=_limits(ylim, panels),
    )
    figure = drawn(found, drawing)
    if file is not None:
        save_drawing(figure, file, look)
    return figure


def inches(size: str | float, name: str = "width") -> float:
    """A width or height in inches.

    Examples
    --------
    >>> inches("ieee"), inches("3.5in"), inches(3.5), round(inches("89mm"), 2)
    (3.5, 3.5, 3.5, 3.5)
    """
    value: Any = size
    if isinstance(size, str):
        written = re.fullmatch(r"([0-9.]+)(in|cm|mm|pt)?", size.strip())
        if size not in WIDTHS and (written is None or size.count(".") > 1):
            raise InputError(
                f"plot: `{name}` must be {', '.join(WIDTHS)}, or a length such as "
                f"3.5in or 89mm, got `{shortened(size)}`."
            )
        value = WIDTHS.get(size)
        if written is not None:
            value = float(written[1]) * UNITS[written[2] or "in"]
    require_positive("plot", **{name: value})
    if value > WIDEST:
        raise InputError(
            f"plot: `{name}` must be at most {WIDEST:g} inches, got {shortened(size)}."
        )
    return float(value)


def _read(source: str | Path | Sequence[str | Path]) -> list[FinishedRun]:
    folders = [source] if isinstance(source, str | Path) else list(source)
    if not folders:
        raise InputError("plot: no folder is given. Give folders of runs.")
    return collect([Path(folder) for folder in folders])


def _chosen(runs: Sequence[FinishedRun], methods: Sequence[str] | None) -> list[str]:
    """The labels to draw, in the order of the legend.

    A method stands for all labels that begin with it: its runs in several folders.
    """
    there = list(dict.fromkeys(run.label for run in runs))
    if methods is None:
        order = list(ALGORITHMS)
        known = sorted(
            (label for label in there if method_of(label) in order),
            key=lambda label: order.index(method_of(label)),
        )
        return [*known, *(label for label in there if label not in known)]
    if not methods:
        raise InputError("plot: `methods` is empty. Give at least one.")
    chosen: list[str] = []
    for name in _listed(methods):
        alike = [name] if name in there else [t for t in there if method_of(t) == name]
        if not alike:
            raise unknown("method", name, there, of="these runs")
        chosen += alike
    return list(dict.fromkeys(chosen))


def _names(
    chosen: Sequence[str], labels: Sequence[str] | Mapping[str, str] | None
) -> dict[str, str]:
    """What each label is called in the legend."""
    if isinstance(labels, Mapping):
        for label in labels:
            if label not in chosen:
                raise unknown("method", label, chosen, of="`labels`")
        given = dict(labels)
    elif labels is None:
        given = {}
    else:
        texts = _listed(labels)
        if len(texts) != len(chosen):
            raise InputError(
                f"plot: {len(texts)} labels are given for {len(chosen)} methods "
                f"({', '.join(chosen)}). Give one for each, or METHOD=LABEL."
            )
        given = dict(zip(chosen, texts, strict=True))
    return {label: given.get(label, proper_name(label)) for label in chosen}


def _panels(
    name: str,
    columns: Sequence[str],
    scales: Sequence[str],
    runs: Sequence[FinishedRun],
) -> list[Panel]:
    """How each column is drawn, on which scale."""
    if not columns:
        raise InputError(f"plot: `{name}` is empty. Give at least one column.")
    if len(scales) not in {1, len(columns)}:
        raise InputError(
            f"plot: {len(scales)} scales are given for {len(columns)} columns of "
            f"`{name}`. Give one for all, or one for each."
        )
    there = list(dict.fromkeys(str(name) for run in runs for name in run.history))
    each = list(scales) * len(columns) if len(scales) == 1 else scales
    panels = []
    for column, scale in zip(columns, each, strict=True):
        _require_one_of("scale", scale, SCALES)
        panel = panel_of(column, there)
        if scale != "auto":
            panel = dataclasses.replace(panel, log=scale == "log")
        panels.append(panel)
    return panels


def _limits(
    ylim: Limits | Sequence[Limits] | None, panels: Sequence[Panel]
) -> tuple[Limits, ...]:
    """A pair for each panel, or none."""
    if ylim is None:
        return ()
    pairs: Any = [ylim] if ylim and not isinstance(ylim[0], Sequence) else ylim
    if len(pairs) != len(panels):
        raise InputError(
            f"plot: `ylim` has {len(pairs)} pairs for {len(panels)} columns of `y`. "
            "Give one for each."
        )
    for pair, panel in zip(pairs, panels, strict=True):
        numbers = len(pair) == 2 and all(isinstance(end, int | float) for end in pair)
        if not (numbers and all(map(math.isfinite, pair)) and pair[0] < pair[1]):
            raise InputError(
                f"plot: `ylim` must be two numbers, the smaller first, got "
                f"{shortened(tuple(pair))}."
            )
        if panel.log and pair[0] <= 0:
            raise InputError(
                f"plot: `ylim` of the logarithmic `{panel.column}` must be positive, "
                f"got {shortened(tuple(pair))}. Change it, or take a linear scale."
            )
    return tuple((float(low), float(high)) for low, high in pairs)


def _largest(runs: Sequence[FinishedRun], column: str) -> float:
    values = [run.history[column].max() for run in runs if column in run.history]
    return float(max((value for value in values if math.isfinite(value)), default=0.0))


def _listed(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _require_one_of(
    kind: str, name: str, known: Sequence[str] | Mapping[str, Any]
) -> None:
    if name not in known:
        raise unknown(kind, name, known)
