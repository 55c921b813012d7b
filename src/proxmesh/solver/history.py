"""Rows of numbers as a table with documented columns in a fixed order."""

from collections.abc import Mapping, Sequence

import pandas as pd

from proxmesh.metrics import COLUMNS

__all__ = ["COUNTS", "ordered", "table"]

COUNTS = ("agent", "iteration", "gradients", "vectors_sent", "bytes_sent")
"""Columns of whole numbers."""


def table(rows: Sequence[Mapping[str, float]], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a table with fixed columns and whole numbers where they belong."""
    frame = pd.DataFrame(rows, columns=list(columns))
    return frame.astype({c: "int64" for c in COUNTS if c in columns})


def ordered(names: Sequence[str]) -> list[str]:
    """Sort columns as documented: the agent first, a user's own last.

    Examples
    --------
    >>> ordered(["mine", "norm", "iteration"])
    ['iteration', 'norm', 'mine']
    """
    known = [name for name in ("agent", *COLUMNS) if name in names]
    return known + [name for name in names if name not in known]
