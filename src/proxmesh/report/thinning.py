"""Numbers that fit into a page: fewer points, fewer digits, none that JSON lacks."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

__all__ = ["MOST_POINTS", "kept_iterations", "points_for", "rounded", "some_of"]

MOST_POINTS = 2000  # of a curve
FEWEST_POINTS = 2
DIGITS = 5
EXACT = 2**53  # whole numbers below are kept as they are


def points_for(numbers: int, curves: int) -> int:
    """How many points each curve may have if all share so many numbers.

    Examples
    --------
    >>> points_for(150_000, 16), points_for(150_000, 500)
    (2000, 300)
    """
    return max(FEWEST_POINTS, min(MOST_POINTS, numbers // max(1, curves)))


def kept_iterations(histories: Iterable[pd.DataFrame], most: int) -> set[float] | None:
    """Which iterations to keep so that curves stay comparable; None: all.

    All runs keep the same ones, or their means over seeds would have nothing in common;
    of every run the first and the last are kept.
    """
    every = [history["iteration"].to_numpy(float) for history in histories]
    if max((len(rows) for rows in every), default=0) <= most:
        return None
    union = np.unique(np.concatenate(every))
    ends = {float(rows[place]) for rows in every if len(rows) for place in (0, -1)}
    return {*some_of(union.tolist(), max(FEWEST_POINTS, most - 1)), *ends}


def some_of(values: Sequence[float], most: int) -> list[float]:
    """At most so many, evenly spaced, with the first and the last.

    Examples
    --------
    >>> some_of(range(101), 5)
    [0, 25, 50, 75, 100]
    """
    if len(values) <= most:
        return list(values)
    places = np.linspace(0, len(values) - 1, most).round().astype(int)
    return [values[place] for place in places]


def rounded(values: Iterable[float], digits: int = DIGITS) -> list[float | int | None]:
    """A few digits of each number; None in place of what JSON cannot say.

    Examples
    --------
    >>> rounded([0.123456789, 1234567.0, float("nan"), float("inf")])
    [0.12346, 1234567, None, None]
    """
    return [_rounded(float(value), digits) for value in values]


def _rounded(value: float, digits: int) -> float | int | None:
    if not math.isfinite(value):
        return None
    if value == int(value) and abs(value) < EXACT:
        return int(value)
    return float(f"{value:.{digits}g}")
