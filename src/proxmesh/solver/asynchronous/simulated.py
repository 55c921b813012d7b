"""Agents of different speeds in one process, in simulated time: event by event."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.graphs import Graph
from proxmesh.hashing import MASK, derived_seed, drawn, scrambled
from proxmesh.network.links import Delay, Speeds
from proxmesh.solver.asynchronous.member import Member, Neighbors
from proxmesh.types import AsynchronousForm, Neighborhood, Problem

__all__ = ["Simulation", "Travel", "periods_of"]

ARRIVE, STEP = 0, 1  # at the same time messages come first
TARGET_APART = 0x85EBCA6B


def periods_of(links: Sequence[Any], n: int) -> list[int]:
    """How long each agent takes for a step.

    Examples
    --------
    >>> periods_of([Speeds([1, 4])], 5)
    [1, 4, 1, 4, 1]
    """
    found = [1] * n
    for model in links:
        if isinstance(model, Speeds):
            found = [model.periods[i % len(model.periods)] for i in range(n)]
    return found


@final
@dataclass(frozen=True, slots=True)
class Travel:
    """How long a message takes: always the same, or drawn for each.

    Examples
    --------
    >>> Travel.over([Delay(10)]).of(0, 1, 7)
    10
    >>> 0 <= Travel.over([Delay(10, random=True)]).of(0, 1, 7) <= 10
    True
    """

    most: int = 0
    random: bool = False
    seed: int = 0

    @staticmethod
    def over(links: Sequence[Any]) -> "Travel":
        """As these models say."""
        for model in links:
            if isinstance(model, Delay):
                seed = derived_seed(model.seed, "links", "asynchronous delay", 0)
                return Travel(model.tau, model.random, seed)
        return Travel()

    def of(self, source: int, target: int, clock: int) -> int:
        """The time from one agent to another for what was sent at this clock."""
        if not self.random:
            return self.most
        key: Any = self.seed
        tick: Any = clock  # the hash takes numbers as it takes tensors
        for one in (source, target):
            key = scrambled((scrambled(key ^ one) + one * TARGET_APART) & MASK)
        return int((drawn(key, tick) * (self.most + 1)) >> 32)


@final
class Simulation:
    """All agents, each a member of its own, and a queue of what happens when.

    A step begins with what has arrived; its message leaves at once, while the agent is
    busy for its period. The order of events follows from the numbers alone: the same
    seed gives the same bits.

    Parameters
    ----------
    form
        Makes the method's form, one for each agent.
    states, problems
        Of each agent.
    graph
        Who talks to whom.
    periods, travel
        How long steps and messages take.
    most_behind
        How far a message may be behind.
    marks, end
        Clocks at which the states are looked at, and the last one.
    """

    def __init__(
        self,
        form: Callable[[], AsynchronousForm[Any]],
        states: Sequence[Any],
        problems: Sequence[Problem],
        graph: Graph,
        *,
        periods: Sequence[int],
        travel: Travel,
        most_behind: int,
        marks: Sequence[int],
        end: int,
    ) -> None:
        self.time = 0.0
        self.reached: dict[int, dict[int, Any]] = {mark: {} for mark in marks}
        self._periods, self._travel = periods, travel
        self._most_behind, self._end = most_behind, end
        near = graph.adjacency.sorted_indices()
        parts = zip(near.indptr, near.indptr[1:], strict=False)
        self._peers = [[int(j) for j in near.indices[a:b]] for a, b in parts]
        self._waiting: set[int] = set()
        self._events: list[tuple[float, int, int, int, Any]] = []
        self._number = 0
        self.members: list[Member] = []
        for i, (state, problem) in enumerate(zip(states, problems, strict=True)):
            one = torch.ones(1, 1, dtype=state.x.dtype, device=state.x.device)
            around = Neighborhood(one * len(self._peers[i]), graph.max_degree)
            edges = dict.fromkeys(self._peers[i], one)
            neighbors = Neighbors(around, None, edges)
            note = self._noting(i)
            member = Member(
                form(), state, problem, neighbors, marks=marks, on_mark=note
            )
            self.members.append(member)
        for i, member in enumerate(self.members):
            for j in self._peers[i]:
                self.members[j].hear(i, member.clock, member.told())
            self._add(float(periods[i]), STEP, i, None)

    def until(self, mark: int) -> list[Any]:
        """Go on until every agent has reached a mark; their states at it."""
        found = self.reached[mark]
        while len(found) < len(self.members):
            self._next()
        return [found[i] for i in range(len(self.members))]

    @property
    def latest(self) -> int:
        """The largest clock."""
        return max(member.clock for member in self.members)

    def _next(self) -> None:
        self.time, kind, i, _, what = heapq.heappop(self._events)
        member = self.members[i]
        if kind == ARRIVE:
            member.hear(*what)
            if i in self._waiting and member.behind() <= self._most_behind:
                self._waiting.discard(i)
                self._add(self.time, STEP, i, None)
            return

        def send(clock: int, rows: Tensor) -> None:
            for j in self._peers[i]:
                arrives = self.time + self._travel.of(i, j, clock)
                self._add(arrives, ARRIVE, j, (i, clock, rows))

        if member.behind() > self._most_behind:
            self._waiting.add(i)
            return
        member.step(self._end, send)
        if member.clock < self._end:
            self._add(self.time + self._periods[i], STEP, i, None)

    def _add(self, time: float, kind: int, agent: int, what: Any) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, kind, agent, self._number, what))

    def _noting(self, i: int) -> Callable[[Any], None]:
        def note(state: Any) -> None:
            self.reached[int(state.k)][i] = state

        return note
