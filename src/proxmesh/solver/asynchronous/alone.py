"""An asynchronous run in one process: simulated time, recorded by the one loop."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.algorithms.asynchronous import asynchronous_form
from proxmesh.errors import InputError
from proxmesh.graphs import Graph
from proxmesh.solver.asynchronous.simulated import Simulation, Travel, periods_of
from proxmesh.solver.loop import Loop
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.result import Result
from proxmesh.solver.state import rebuilt, tensors_of
from proxmesh.types import Problem, can_be_divided

__all__ = ["AsynchronousAlone"]


@final
class AsynchronousAlone:
    """All agents of a run, each with a speed of its own.

    Parameters
    ----------
    loop
        Records the run.
    algorithm
        With all its constants.
    problem, graph
        Of all agents.
    links
        `Speeds`, and perhaps a `Delay`.
    max_staleness
        Ticks that a message may be behind.
    marks
        Clocks at which something is done with all states, the last one the end.
    looks
        Those at which the age of messages is looked at, and from when on it counts.
    """

    def __init__(
        self,
        loop: Loop,
        algorithm: Any,
        problem: Problem,
        graph: Graph,
        *,
        links: Sequence[Any],
        max_staleness: int,
        marks: Sequence[int],
        looks: Mapping[int, int],
    ) -> None:
        if not can_be_divided(problem):
            raise InputError(
                f"`{type(problem).__name__}` has no method `local`, by which it is "
                "dealt out to agents that step one by one. Add it, or leave "
                "`asynchronous` out."
            )
        self._loop, self._graph, self._marks = loop, graph, marks
        self._problems = [problem.local((i,)) for i in range(graph.n)]
        self._form = lambda: asynchronous_form(algorithm)
        self._links, self._max_staleness = links, max_staleness
        self._looks = looks

    def go(self, state: Any) -> Result:
        """Let events happen, mark after mark."""
        loop = self._loop
        simulation = self._begun(state)
        beside = loop.beside
        loop.beside = lambda s: {"simulated_time": simulation.time, **beside(s)}
        end = self._marks[-1]
        with loop.ends:
            try:
                ended = loop.begun(state)
                if ended is not None:
                    return ended
                loop.clock.start()
                for mark in self._marks:
                    state = stacked(simulation.until(mark))
                    if mark in self._looks:
                        age = max(member.age() for member in simulation.members)
                        for member in simulation.members:
                            member.form.adapt(age, self._looks[mark])
                    ended = self._at(mark, state)
                    if ended is not None:
                        return ended
            except KeyboardInterrupt:
                held = [m.held_at(simulation.latest) for m in simulation.members]
                return loop.interrupted(stacked(held), end)
            loop.save_last(state)
            return loop.result(Outcome.FINISHED, f"{end} iterations.", state)

    def _at(self, mark: int, state: Any) -> Result | None:
        loop = self._loop
        loop.costs.catch_up(mark)
        if loop.is_to_look_at(mark):
            loop.plain_step = lambda _: state  # a replay would take another path
            ended = loop.look_at(state, mark)
            if ended is not None:
                return ended
        if loop.saver is not None and mark < self._marks[-1]:
            loop.journal.seconds = loop.clock.seconds
            found = loop.saver.answers(mark, loop.clock.seconds)
            loop.saver.act(state, loop.journal, *found)
        return None

    def _begun(self, state: Any) -> Simulation:
        return Simulation(
            self._form,
            apart(state, self._graph.n),
            self._problems,
            self._graph,
            periods=periods_of(self._links, self._graph.n),
            travel=Travel.over(self._links),
            most_behind=self._max_staleness,
            marks=self._marks,
            end=self._marks[-1],
        )


def stacked(states: Sequence[Any]) -> Any:
    """The states of single agents at one clock as one."""

    def joined(name: str, first: Tensor) -> Tensor:
        if first.ndim == 0:
            return first
        return torch.cat([tensors_of(state)[name] for state in states])

    kind: Any = type(states[0])
    found = {n: joined(n, first) for n, first in tensors_of(states[0]).items()}
    return rebuilt(kind, found)


def apart(state: Any, n: int) -> list[Any]:
    """One state as those of single agents."""
    return [
        dataclasses.replace(
            state,
            **{n: v[i : i + 1].clone() for n, v in tensors_of(state).items() if v.ndim},
        )
        for i in range(n)
    ]
