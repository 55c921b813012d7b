"""Which method survives which links: a table and a heat map."""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from proxmesh.paper.survival import CONDITIONS, METHODS, STEPS, survived
from proxmesh.report.runs import FinishedRun
from proxmesh.report.tables import markdown

__all__ = ["link_table", "measured_quadratics", "trained"]

QUADRATICS = "quadratics.csv"
AS_CLEAN = 1.5  # times the stationarity on perfect links: the links cost nothing
FALLING = 0.8  # of the stationarity before: then it is still on its way
COLORS = {
    "exact": "#2e8b57",
    "falling": "#a8d08d",
    "floor": "#f2c14e",
    "biased": "#e07b39",
    "diverges": "#a61e2d",
    "-": "#e4e4e4",
    "?": "#ffffff",
}
ON_QUADRATICS = (
    "quadratics + l1: largest error at the end",
    "On the quadratics, with the error at the end:",
)
ON_A9A = (
    "a9a: stationarity at the end over that on clean links",
    "On a9a, with the stationarity at the end over that on perfect links:",
)
WORDS = {"-": "refused", "?": "not run"}
SHOWN = {
    "perfect": "perfect",
    "outages-0.5": "outages .5",
    "loss-0.3": "loss .3",
    "silent-0.1": "silent loss .1",
    "silent-0.3": "silent loss .3",
    "silent-0.5": "silent loss .5",
    "delay-1": "delay 1",
    "delay-2": "delay 2",
    "delay-5": "delay 5",
    "awake-0.5": "half asleep",
    "bits-8": "8 bit",
    "bits-4": "4 bit",
    "top-0.1": "top 10 %",
    "every-4": "local rounds 4",
}


def measured_quadratics(scale: str, folder: Path) -> None:
    """Run every method on the quadratics over all links, and keep what became of it.

    Parameters
    ----------
    scale
        How many iterations.
    folder
        Where quadratics.csv goes.
    """
    pairs = [(label, condition) for label in METHODS for condition in CONDITIONS]
    labels, conditions = zip(*pairs, strict=True)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = list(
            pool.map(survived, labels, conditions, [STEPS[scale]] * len(pairs))
        )
    verdicts, errors = zip(*found, strict=True)
    columns = {"method": labels, "links": conditions, "verdict": verdicts}
    table = pd.DataFrame({**columns, "error": errors})
    table.to_csv(folder / QUADRATICS, index=False, float_format="%.2e")


def trained(runs: Mapping[str, Sequence[FinishedRun]]) -> pd.DataFrame:
    """What became of every method on a9a, and its stationarity over the clean one.

    Parameters
    ----------
    runs
        By the name of their comparison, ``links-CONDITION``.
    """
    clean = {label: _ends(mine)[-1] for label, mine in _by_label(runs, "perfect")}
    rows = []
    for condition in CONDITIONS:
        there = dict(_by_label(runs, condition))
        for label in clean:
            if label not in there:
                missing = "-" if there else "?"
                rows.append((label, condition, missing, math.nan))
                continue
            verdict, ratio = _judged(there[label], clean.get(label, math.nan))
            rows.append((label, condition, verdict, ratio))
    return pd.DataFrame(rows, columns=["method", "links", "verdict", "ratio"])


def _by_label(
    runs: Mapping[str, Sequence[FinishedRun]], condition: str
) -> list[tuple[str, list[FinishedRun]]]:
    mine = runs.get(f"links-{condition}", ())
    labels = dict.fromkeys(run.label for run in mine)
    return [(label, [r for r in mine if r.label == label]) for label in labels]


def _ends(runs: Sequence[FinishedRun]) -> tuple[float, float]:
    """Median stationarity before the last evaluation, and at it."""
    if not all(run.is_good for run in runs):
        return math.nan, math.inf
    values = [run.history["stationarity"].to_numpy(float)[-2:] for run in runs]
    before, last = np.median(values, axis=0)
    return float(before), float(last)


def _judged(runs: Sequence[FinishedRun], clean: float) -> tuple[str, float]:
    before, last = _ends(runs)
    if not math.isfinite(last):
        return "diverges", math.inf
    ratio = last / clean
    if ratio <= AS_CLEAN:
        return "exact", ratio
    start = float(runs[0].history["stationarity"].iloc[0])
    if last > start:
        return "diverges", ratio
    return ("falling" if last < FALLING * before else "floor"), ratio


def link_table(runs: Mapping[str, Sequence[FinishedRun]], folder: Path) -> None:
    """Draw the heat map and write the table, of the quadratics and of a9a.

    Parameters
    ----------
    runs
        On a9a, by the name of their comparison.
    folder
        With quadratics.csv; figure.png and table.md are written beside it.
    """
    quadratics = pd.read_csv(folder / QUADRATICS, keep_default_na=False)
    quadratics["error"] = pd.to_numeric(quadratics["error"], errors="coerce")
    learned = trained(runs)
    shown = [(quadratics, "error", *ON_QUADRATICS)]
    if len(learned):
        learned.to_csv(folder / "a9a.csv", index=False, float_format="%.3g")
        shown.append((learned, "ratio", *ON_A9A))
    sizes = [len(_methods(table)) for table, *_ in shown]
    figure = Figure(figsize=(11, 1.6 + 0.3 * sum(sizes)), layout="constrained")
    axes = figure.subplots(len(shown), 1, height_ratios=sizes, squeeze=False)[:, 0]
    for axis, (table, value, title, _) in zip(axes, shown, strict=True):
        _heat(axis, table, value, title)
    handles = [
        axes[0].plot([], [], "s", ms=10, color=color, label=_word(name))[0]
        for name, color in COLORS.items()
        if name != "?"
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=6, frameon=False)
    figure.savefig(folder / "figure.png", dpi=110)
    parts = [f"{said}\n\n{_rows(table, value)}" for table, value, _, said in shown]
    (folder / "table.md").write_text("\n".join(parts))


def _word(verdict: str) -> str:
    return WORDS.get(verdict, verdict)


def _cells(table: pd.DataFrame, value: str) -> list[list[tuple[str, float]]]:
    known: dict[tuple[str, str], tuple[str, float]] = {
        (str(row.method), str(row.links)): (
            str(row.verdict),
            float(getattr(row, value)),
        )
        for row in table.itertuples()
    }
    nothing = ("?", math.nan)
    return [[known.get((m, c), nothing) for c in CONDITIONS] for m in _methods(table)]


def _methods(table: pd.DataFrame) -> list[str]:
    """Those that were run, in the order of the quadratics."""
    there = set(table["method"])
    return [label for label in METHODS if label in there]


def _number(value: float, name: str) -> str:
    if not math.isfinite(value):
        return ""
    return f"{value:.0e}".replace("e-0", "e-") if name == "error" else f"{value:.2g}"


def _rows(table: pd.DataFrame, value: str) -> str:
    rows = [
        [label, *(_text(verdict, number, value) for verdict, number in cells)]
        for label, cells in zip(_methods(table), _cells(table, value), strict=True)
    ]
    return markdown(["method", *SHOWN.values()], rows)


def _text(verdict: str, number: float, value: str) -> str:
    return f"{_word(verdict)} {_number(number, value)}".strip()


def _heat(axis: Axes, table: pd.DataFrame, value: str, title: str) -> None:
    cells = _cells(table, value)
    names = list(COLORS)
    colors: Any = [[names.index(verdict) for verdict, _ in line] for line in cells]
    shades = ListedColormap(list(COLORS.values()))
    axis.imshow(colors, cmap=shades, vmin=0, vmax=len(names) - 1, aspect="auto")
    for i, line in enumerate(cells):
        for j, (verdict, number) in enumerate(line):
            white = verdict in {"exact", "diverges"}
            text = _number(number, value) or ("∞" if verdict == "diverges" else "")
            color = "white" if white else "black"
            axis.text(j, i, text, ha="center", va="center", fontsize=7, color=color)
    axis.set_yticks(range(len(cells)), _methods(table), fontsize=8)
    axis.set_xticks(range(len(SHOWN)), list(SHOWN.values()), rotation=35, fontsize=8)
    axis.set_title(title, fontsize=10)
    axis.tick_params(length=0)
