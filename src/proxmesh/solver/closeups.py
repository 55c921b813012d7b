"""A run seen close up: every agent's numbers, and what is left of the first layer.

Both are for pictures: few looks are kept, evenly spread over the run. Which ones is a
function of how many evaluations there were, so that a run that goes on keeps the same
as one that was never cut off.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor, nn

from proxmesh.metrics import NONZERO
from proxmesh.solver.closeup_files import (
    AGENT_COLUMNS,
    FULL,
    LAYER_COLUMNS,
    MOST_CELLS,
    lines_of_agents,
    lines_of_layer,
)
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.journal import Journal, Seen
from proxmesh.types import Problem, World, has_models, has_sparse_rows

__all__ = ["Closeups", "is_kept", "thinned"]

MOST_AGENTS = 4_096
FEWEST_LOOKS, MOST_LOOKS, MOST_ROWS = 16, 200, 65_536  # at all agents
MOST_PATTERNS = 24


def spacing(number: int, most: int) -> int:
    """Of how many evaluations one is kept once there are `number` + 1: a power of 2.

    Examples
    --------
    >>> [spacing(number, most=4) for number in (0, 3, 4, 7, 8)]
    [1, 1, 2, 2, 4]
    """
    every = 1
    while number // every >= most:
        every *= 2
    return every


def is_kept(number: int, most: int) -> bool:
    """Whether this evaluation is kept when others follow, counted from 0."""
    return number % spacing(number, most) == 0


def thinned(seen: Sequence[Seen], most: int) -> list[Seen]:
    """At most so many looks: every first, second, fourth ..., and the last.

    Examples
    --------
    >>> looks = [Seen(number, 10 * number, torch.empty(0)) for number in range(6)]
    >>> [look.iteration for look in thinned(looks, most=4)]
    [0, 20, 40, 50]
    """
    last = seen[-1].number
    every = spacing(last, most - 1)
    return [s for s in seen if s.number % every == 0 or s.number == last]


@final
@dataclass(slots=True)
class _File:
    """One of the two files, and the looks that stand in it."""

    name: str
    columns: Sequence[str]
    lines: Callable[[Seen], str]
    there: list[int] = field(default_factory=list)

    def write(self, folder: RunFolder, seen: Sequence[Seen]) -> None:
        """Bring it up to date: by lines at its end, or anew where some have gone."""
        numbers = [one.number for one in seen]
        if numbers == self.there:
            return
        known = len(self.there)
        if numbers[:known] == self.there:
            head = "" if known else self.head
            folder.append_text(self.name, head + self._text(seen[known:]))
        else:
            folder.write_text(self.name, self.text(seen))
        self.there = numbers

    def text(self, seen: Sequence[Seen]) -> str:
        """The whole file; empty: there is none."""
        return self.head + self._text(seen) if seen else ""

    @property
    def head(self) -> str:
        return ",".join(self.columns) + "\n"

    def _text(self, seen: Sequence[Seen]) -> str:
        return "".join(map(self.lines, seen))


@final
class Closeups:
    """Takes them at evaluations, and keeps their files.

    Parameters
    ----------
    problem, world
        Of the run.
    journal
        Where they are kept, also in checkpoints.
    """

    def __init__(self, problem: Problem, world: World, journal: Journal) -> None:
        self._problem, self._world, self._journal = problem, world, journal
        few = min(MOST_LOOKS, MOST_ROWS // world.n)
        self._most_looks = max(FEWEST_LOOKS, few)
        self._agents = _File(RunFolder.EACH_AGENT, AGENT_COLUMNS, _agents_as_text)
        self._layer = _File(RunFolder.FIRST_LAYER, LAYER_COLUMNS, _layer_as_text)

    def look(self, state: Any, each: Mapping[str, Tensor]) -> None:
        """Look at an evaluation whose row is still to come; every rank calls it.

        `each`: what the evaluation has found of every local agent, if it could.
        """
        journal, number, iteration = (
            self._journal,
            len(self._journal.rows),
            int(state.k),
        )
        if each and self._world.n <= MOST_AGENTS:
            found = Seen(number, iteration, self._gathered(each))
            journal.agents = thinned([*journal.agents, found], self._most_looks)
        if has_models(self._problem) and is_kept(number, MOST_PATTERNS - 1):
            rows = state.sparse if has_sparse_rows(state) else state.x
            cells = self._pattern(self._world.reduce(rows, "mean"))
            if cells is not None:
                found = Seen(number, iteration, *cells)
                journal.patterns = thinned([*journal.patterns, found], MOST_PATTERNS)

    def write(self, folder: RunFolder) -> None:
        """Bring the files up to date, but for a look that may not stay."""
        most = self._most_looks - 1
        agents = self._journal.agents
        self._agents.write(folder, [s for s in agents if is_kept(s.number, most)])
        self._layer.write(folder, self._journal.patterns)

    def at_the_end(self, k: int, means: Mapping[str, Tensor]) -> dict[str, str]:
        """Both files whole by their names, with the end of the run."""
        patterns = list(self._journal.patterns)
        if has_models(self._problem) and patterns and patterns[-1].iteration < k:
            cells = self._pattern(means.get("sparse", means["x"]))
            if cells is not None:
                patterns.append(Seen(len(self._journal.rows), k, *cells))
        texts = {
            self._agents.name: self._agents.text(self._journal.agents),
            self._layer.name: self._layer.text(patterns),
        }
        return {name: text for name, text in texts.items() if text}

    def _gathered(self, each: Mapping[str, Tensor]) -> Tensor:
        """Loss and consensus error of all agents, ``[n, 2]``.

        One sum over the ranks, in which all agents but one's own are zero, is exact.
        """
        world = self._world
        mine = torch.stack([each[name] for name in AGENT_COLUMNS[2:]], 1)
        placed = torch.zeros(1, world.n, 2, dtype=torch.float64)
        placed[0, list(world.agents)] = mine.detach().to(placed)
        return world.reduce(placed, "sum")

    def _pattern(self, row: Tensor) -> tuple[Tensor, tuple[int, int]] | None:
        """Cells of the first layer of the model in a row, and the layer's shape."""
        assert has_models(self._problem)
        weights = self._problem.module(row).parameters()
        wide = (w for w in weights if w.requires_grad and w.ndim > 1 and w.numel())
        weight = next(wide, None)
        if weight is None:
            return None
        nonzero = weight.detach().flatten(1).abs() > NONZERO
        rows, columns = nonzero.shape
        size = min(rows, MOST_CELLS), min(columns, MOST_CELLS)
        share = nn.functional.adaptive_avg_pool2d(nonzero[None].float(), size)[0]
        return (share * FULL).round().to(torch.uint8).cpu(), (rows, columns)


def _agents_as_text(seen: Seen) -> str:
    return lines_of_agents(seen.iteration, seen.values.tolist())


def _layer_as_text(seen: Seen) -> str:
    rows, columns = seen.values.shape
    cells = seen.values.numpy().tobytes()
    return lines_of_layer(seen.iteration, seen.shape, rows, columns, cells)
