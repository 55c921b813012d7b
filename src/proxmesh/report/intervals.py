"""What seeds tell: intervals of a mean, and whether one method beats another."""

import warnings

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

__all__ = ["CONFIDENCE", "FEWEST", "half_width", "is_lower"]

CONFIDENCE = 0.95
FEWEST = 3  # shared seeds for a paired test; two leave one degree of freedom


def half_width(spread: ArrayLike, count: ArrayLike) -> np.ndarray:
    """Half of the 95 % interval of a mean: Student's t, ``t s / sqrt(n)``.

    Blank for fewer than two values.

    Parameters
    ----------
    spread
        Standard deviation of the values, with n - 1.
    count
        How many values there are, n.

    Examples
    --------
    >>> float(half_width(1.0, 3).round(3))  # t = 4.303 with 2 degrees of freedom
    2.484
    """
    n = np.asarray(count, float)
    n = np.where(n > 1, n, np.nan)
    t = np.asarray(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1))
    return np.asarray(t * np.asarray(spread, float) / np.sqrt(n))


def is_lower(first: "pd.Series[float]", second: "pd.Series[float]") -> bool:
    """Whether the first is significantly lower: a paired t-test, two-sided, at 5 %.

    Values are paired by their index, the seed. Where all are positive, their
    logarithms are compared, so that ratios count. Fewer than three pairs tell nothing.

    Examples
    --------
    >>> a = pd.Series([1.0, 2.0, 4.0])
    >>> is_lower(a, 2.0 * a), is_lower(2.0 * a, a), is_lower(a, a)
    (True, False, False)
    """
    pairs = pd.concat([first, second], axis=1, join="inner").dropna().to_numpy(float)
    if len(pairs) < FEWEST or not np.isfinite(pairs).all():
        return False
    if (pairs > 0).all():
        pairs = np.log(pairs)
    rounding = 1e-12 * np.abs(pairs).max()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        gaps = pairs[:, 0] - pairs[:, 1]
        if np.ptp(gaps) <= rounding:  # the same gap in every seed: no chance in it
            return bool(gaps.max() < -rounding)
        warnings.simplefilter("ignore", RuntimeWarning)  # gaps that are nearly equal
        p = float(stats.ttest_1samp(gaps, 0.0).pvalue)
    return bool(gaps.mean() < 0 and p < 1 - CONFIDENCE)
