"""When a run first reached a target, and what it had spent by then."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from proxmesh.metrics import HIGHER_IS_BETTER
from proxmesh.report.runs import FinishedRun

__all__ = ["first_reached", "fitted_slope", "running_best", "spent"]


def running_best(history: pd.DataFrame, column: str) -> "pd.Series[float]":
    """The best value so far, row by row, the start left out."""
    values = history[column].iloc[1:]
    return values.cummax() if column in HIGHER_IS_BETTER else values.cummin()


def first_reached(
    history: pd.DataFrame, column: str, target: float
) -> "pd.Series[float] | None":
    """The first row after the start that is at the target; None if none is."""
    if column not in history:
        return None
    values = history[column]
    there = values >= target if column in HIGHER_IS_BETTER else values <= target
    rows = history[there & (history["iteration"] > 0)]
    return rows.iloc[0] if len(rows) else None


def spent(
    runs: Sequence[FinishedRun], column: str, target: float, what: str
) -> tuple[float, int]:
    """Median of what the runs had spent when they reached a target, and how many did.

    Runs that end badly or never reach it count as infinite.
    """
    reached = [
        first_reached(run.history, column, target) if run.is_good else None
        for run in runs
    ]
    values = [float("inf") if row is None else float(row[what]) for row in reached]
    count = sum(row is not None for row in reached)
    return (float(np.median(values)) if values else float("inf")), count


def fitted_slope(x: ArrayLike, y: ArrayLike, fraction: float) -> float:
    """Slope of log y over log x by least squares on the last decades of x.

    Only points with x of at least `fraction` of the largest count.
    """
    k, value = np.asarray(x, float), np.asarray(y, float)
    kept = (k >= fraction * k.max()) & (value > 0)
    return float(np.polyfit(np.log(k[kept]), np.log(value[kept]), 1)[0])
