"""What a run has seen so far: all that it keeps besides its state."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from proxmesh.solver.history import COUNTS

__all__ = ["Journal", "rows_as_tensor", "rows_from_tensor"]


@final
@dataclass(slots=True)
class Journal:
    """The rows of a run and what follows from them.

    Parameters
    ----------
    begin
        Iteration at which the run began; evaluations are counted from it.
    rows, columns
        The history so far, and the order of its columns.
    limit
        Stationarity beyond which the run has blown up.
    theory
        What the monitor has seen.
    seconds
        Of computing, up to where the run goes on.
    """

    begin: int = 0
    rows: list[Mapping[str, float]] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    limit: float = math.inf
    theory: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0

    def forget(self, k: int) -> None:
        """Drop what was seen at iteration k, to be seen again."""
        self.rows = [row for row in self.rows if row["iteration"] < k]
        kept = [row for row in self.theory if row["iteration"] < k + 2]
        self.theory[:] = kept  # the monitor's own list; its rows are two ahead


def rows_as_tensor(
    rows: Sequence[Mapping[str, float]], columns: Sequence[str]
) -> Tensor:
    """Rows of numbers as a float64 table: every digit is kept.

    Examples
    --------
    >>> rows_as_tensor([{"iteration": 5}], ["iteration", "norm"])
    tensor([[5., nan]], dtype=torch.float64)
    """
    numbers = [[float(row.get(name, math.nan)) for name in columns] for row in rows]
    return torch.tensor(numbers, dtype=torch.float64).view(len(rows), len(columns))


def rows_from_tensor(table: Tensor, columns: Sequence[str]) -> list[dict[str, float]]:
    """The rows that were made a table; a column that a row did not have stays away."""
    return [
        {
            name: int(value) if name in COUNTS else value
            for name, value in zip(columns, row, strict=True)
            if not (name in COUNTS and math.isnan(value))
        }
        for row in table.tolist()
    ]
