"""A curve in one line of text."""

import math
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["sparkline"]

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = ".:-=+*#@"


def sparkline(values: Sequence[float], width: int, ascii_only: bool = False) -> str:
    """Draw positive numbers on a logarithmic scale, the newest on the right.

    Numbers that have no logarithm are left out. Where there are more than fit, each
    character stands for as many, and shows their geometric mean.

    Parameters
    ----------
    values
        In their order.
    width
        Characters at most.
    ascii_only
        For a terminal that knows no blocks.

    Examples
    --------
    >>> sparkline([1.0, 0.1, 0.01, 0.001], width=4)
    '█▆▃▁'
    >>> sparkline([1.0, 0.1, 0.01, 0.001], width=2, ascii_only=True)
    '@.'
    """
    logs = [math.log(v) for v in values if 0 < v < math.inf]
    if not logs or width < 1:
        return ""
    count = min(width, len(logs))
    ends = [len(logs) * i // count for i in range(count + 1)]
    heights = [sum(logs[a:b]) / (b - a) for a, b in pairwise(ends)]
    low, high = min(heights), max(heights)
    signs = ASCII if ascii_only else BLOCKS
    scale = (len(signs) - 1) / (high - low) if high > low else 0.0
    return "".join(signs[round((h - low) * scale)] for h in heights)
