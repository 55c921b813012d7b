"""What a run has seen so far: all that it keeps besides its state."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, final

import torch
from torch import Tensor

from proxmesh.solver.history import COUNTS

__all__ = [
    "Journal",
    "Seen",
    "rows_as_tensor",
    "rows_from_tensor",
    "seen_as_tensors",
    "seen_from_tensors",
]


@final
@dataclass(frozen=True, slots=True)
class Seen:
    """Something that was looked at closely at an evaluation.

    Parameters
    ----------
    number
        Of the evaluation, from 0 on.
    iteration
        At which it was.
    values
        What was seen; always of one shape.
    shape
        Of the weight that `values` are cells of.
    """

    number: int
    iteration: int
    values: Tensor
    shape: tuple[int, int] = (0, 0)


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
    agents, patterns
        Every agent's numbers and the first layer, at a few evaluations.
    """

    begin: int = 0
    rows: list[Mapping[str, float]] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    limit: float = math.inf
    theory: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    agents: list[Seen] = field(default_factory=list)
    patterns: list[Seen] = field(default_factory=list)

    def so_far(self) -> Self:
        """A copy to which nothing is added."""
        return replace(
            self,
            rows=list(self.rows),
            theory=list(self.theory),
            agents=list(self.agents),
            patterns=list(self.patterns),
        )

    def forget(self, k: int) -> None:
        """Drop what was seen at iteration k, to be seen again."""
        self.rows = [row for row in self.rows if row["iteration"] < k]
        kept = [row for row in self.theory if row["iteration"] < k + 2]
        self.theory[:] = kept  # the monitor's own list; its rows are two ahead
        self.agents = [seen for seen in self.agents if seen.iteration < k]
        self.patterns = [seen for seen in self.patterns if seen.iteration < k]


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


def seen_as_tensors(name: str, seen: Sequence[Seen]) -> dict[str, Tensor]:
    """Looks as two tensors: what was seen, and when. None: nothing.

    Examples
    --------
    >>> made = seen_as_tensors("layer", [Seen(2, 10, torch.ones(1))])
    >>> list(made), seen_from_tensors("layer", made)[0].iteration
    (['layer', 'layer.at'], 10)
    """
    if not seen:
        return {}
    at = [[one.number, one.iteration, *one.shape] for one in seen]
    values = torch.stack([one.values for one in seen])
    return {name: values, f"{name}.at": torch.tensor(at)}


def seen_from_tensors(name: str, tensors: Mapping[str, Tensor]) -> list[Seen]:
    """The looks that were made tensors; none in a checkpoint from before there were."""
    if name not in tensors:
        return []
    at = tensors[f"{name}.at"].tolist()
    return [
        Seen(number, iteration, values, (rows, columns))
        for (number, iteration, rows, columns), values in zip(
            at, tensors[name], strict=True
        )
    ]
