"""Agents that step together: what they have heard, remember, hold and tell."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

from torch import Tensor

from proxmesh.types import AsynchronousForm, Heard, Neighborhood, Problem

__all__ = ["Member", "Neighbors"]


@final
@dataclass(frozen=True, slots=True)
class Neighbors:
    """Who steps together, seen from one member: its own agents and its peers'.

    Parameters
    ----------
    neighborhood
        Degrees.
    inside
        ``[n_local, n_local]``: 1 where two of its own agents are neighbors; None:
        nowhere.
    edges
        By peer, ``[n_local, rows]``: 1 where an agent of ours is a neighbor of one of
        theirs.
    """

    neighborhood: Neighborhood
    inside: Tensor | None
    edges: Mapping[int, Tensor]


@final
class Member:
    """One process of an asynchronous run, or one simulated agent.

    It does not know how messages travel: they are handed to it, and taken from it.

    Parameters
    ----------
    form
        The method.
    state
        Where it begins.
    problem
        Of its agents.
    neighbors
        Whom it hears.
    marks
        Clocks, ascending, at which the state that it holds is handed to `on_mark`.
    on_mark
        Is called with such a state, whose clock is the mark.
    """

    def __init__(
        self,
        form: AsynchronousForm[Any],
        state: Any,
        problem: Problem,
        neighbors: Neighbors,
        *,
        marks: Iterable[int],
        on_mark: Callable[[Any], None],
    ) -> None:
        self.form = form
        self.state = state
        self.clock = int(state.k)
        self._problem = problem
        self._neighbors = neighbors
        self._marks = iter(marks)
        self._on_mark = on_mark
        form.begin(state)
        self._past = deque([(self.clock, form.kept(state))])
        self._ages: dict[int, list[int]] = {peer: [0, 0] for peer in neighbors.edges}
        self._newest: dict[int, tuple[int, Tensor]] = {}
        self._next_mark = next(self._marks, None)

    def told(self) -> Tensor:
        """What the neighbors are told where the run begins."""
        return self.form.message(self._past[-1][1], self.clock)

    def hear(self, peer: int, clock: int, rows: Tensor) -> None:
        """Take a message; an older one than the last is left aside."""
        if clock > self._newest.get(peer, (-1,))[0]:
            self._newest[peer] = clock, rows

    @property
    def has_heard_all(self) -> bool:
        """Whether every peer has told where it begins."""
        return len(self._newest) == len(self._neighbors.edges)

    def behind(self) -> int:
        """How far the oldest message is behind the clock that comes next."""
        clocks = [clock for clock, _ in self._newest.values()]
        return self.clock + 1 - min(clocks, default=self.clock)

    def late_peers(self, most: int) -> list[int]:
        """Peers whose newest message is further behind than this."""
        limit = self.clock + 1 - most
        return [peer for peer, (clock, _) in self._newest.items() if clock < limit]

    def step(self, end: int, send: Callable[[int, Tensor], None]) -> None:
        """Step with the newest of everybody, to the largest clock that is known.

        Parameters
        ----------
        end
            The last clock of the run.
        send
            Is called with the new clock and what the neighbors are told.
        """
        largest = max((clock for clock, _ in self._newest.values()), default=0)
        clock = min(max(self.clock + 1, largest), end)
        heard = [
            Heard(then, rows, self._at(then), self._neighbors.edges[peer])
            for peer, (then, rows) in self._newest.items()
        ]
        for peer, (then, _) in self._newest.items():
            total, steps = self._ages[peer]
            self._ages[peer] = [total + max(0, clock - 1 - then), steps + 1]
        if self._neighbors.inside is not None:  # our own agents stand still together
            own = self._past[-1][1]
            rows = self.form.message(own, clock - 1)
            heard.append(Heard(clock - 1, rows, own, self._neighbors.inside))
        self._pass_marks(clock - 1)

        def sent(kept: Any) -> None:
            self._past.append((clock, kept))
            send(clock, self.form.message(kept, clock))

        self.state = self.form.step(
            self.state,
            clock,
            heard,
            problem=self._problem,
            neighborhood=self._neighbors.neighborhood,
            send=sent,
        )
        self.clock = clock
        self._forget()
        self._pass_marks(clock)

    def age(self) -> float:
        """Mean age of the messages of the slowest peer, since this was last asked."""
        means = [total / steps for total, steps in self._ages.values() if steps]
        self._ages = {peer: [0, 0] for peer in self._ages}
        return max(means, default=0.0)

    def held_at(self, clock: int) -> Any:
        """The state at this clock, which is not before its own."""
        return self.form.held(self.state, clock)

    def _pass_marks(self, clock: int) -> None:
        """Hand over what is held at the marks up to this clock."""
        while self._next_mark is not None and self._next_mark <= clock:
            if self._next_mark >= self.clock:
                self._on_mark(self.held_at(self._next_mark))
            self._next_mark = next(self._marks, None)

    def _at(self, clock: int) -> Any:
        """What is remembered of ourselves at this clock, or before it and held."""
        for then, kept in reversed(self._past):
            if then <= clock:
                return kept
        return self._past[0][1]

    def _forget(self) -> None:
        """Drop what is older than every message that may still come."""
        oldest = min((c for c, _ in self._newest.values()), default=self.clock)
        while len(self._past) > 1 and self._past[1][0] <= oldest:
            self._past.popleft()
