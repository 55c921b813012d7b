"""Links, edges and agents that fail: one frozen dataclass each, its main number first.

A model says how rare or how old that makes what an agent knows of its neighbors. From
this HSM-ADMM's dual gain is set; see docs/links.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from proxmesh.checks import require_positive, require_whole
from proxmesh.errors import InputError

__all__ = ["GilbertElliott", "Loss", "Outages", "Participation", "Schedule", "Speeds"]


@dataclass(frozen=True, slots=True)
class Outages:
    """Edges are down now and then; both ends know it and leave each other out.

    Parameters
    ----------
    up
        Probability that an edge is up in an iteration.
    seed
        Another number draws other outages.

    Examples
    --------
    >>> Outages(up=0.5).presence
    0.5
    """

    up: float
    seed: int = 0

    def __post_init__(self) -> None:
        _require_probability("Outages", "up", self.up)
        require_whole("Outages", 0, seed=self.seed)

    @property
    def presence(self) -> float:
        """Share of the iterations in which an edge is used."""
        return self.up


@dataclass(frozen=True, slots=True)
class Loss:
    """Messages get lost, each direction on its own.

    Parameters
    ----------
    q
        Probability that a message is lost.
    known
        True: both ends learn of it, by acknowledgments, and leave the pair out where
        one direction was lost. False: only the receiver notices. Then agents send the
        sum of all their values so far, which makes up for what was lost.
    seed
        Another number draws other losses.

    Examples
    --------
    >>> Loss(0.3).presence, Loss(0.5, known=False).age
    (0.49, 1.0)
    >>> Loss(1.5)
    Traceback (most recent call last):
    proxmesh.errors.InputError: Loss: `q` must be from 0 to below 1, got 1.5.
    """

    q: float
    known: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        _require_rate("Loss", self.q)
        require_whole("Loss", 0, seed=self.seed)

    @property
    def presence(self) -> float:
        """Share of the iterations in which an edge is used; 1 where nobody knows."""
        return round((1 - self.q) ** 2, 12) if self.known else 1.0

    @property
    def age(self) -> float:
        """Mean age of what was received last."""
        return 0.0 if self.known else self.q / (1 - self.q)


@dataclass(frozen=True, slots=True)
class GilbertElliott:
    """Losses that come in bursts: an edge is good, or bad for a while.

    Parameters
    ----------
    q
        Share of the iterations in which it is bad, and everything is lost.
    burst
        Mean number of iterations for which it stays so.
    known
        As of `Loss`. Where the loss is silent, each direction has bursts of its own.
    seed
        Another number draws other bursts.

    Examples
    --------
    >>> GilbertElliott(0.2, burst=5).to_bad
    0.05
    """

    q: float
    burst: float = 5.0
    known: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        _require_rate("GilbertElliott", self.q)
        require_positive("GilbertElliott", burst=self.burst)
        require_whole("GilbertElliott", 0, seed=self.seed)
        shortest = max(1.0, self.q / (1 - self.q))
        if self.burst < shortest:
            raise InputError(
                f"GilbertElliott: `burst` must be at least {shortest:g} with `q` = "
                f"{self.q:g}, got {self.burst:g}."
            )

    @property
    def to_bad(self) -> float:
        """Probability that a good edge turns bad."""
        return round(self.q / (1 - self.q) / self.burst, 12)

    @property
    def presence(self) -> float:
        """Share of the iterations in which an edge is used; 1 where nobody knows."""
        return 1 - self.q if self.known else 1.0

    @property
    def age(self) -> float:
        """Mean age of what was received last: of a burst, half of it and more."""
        return 0.0 if self.known else self.q * self.burst


@dataclass(frozen=True, slots=True)
class Participation:
    """Agents sleep now and then: their rows stand still, their edges are left out.

    Parameters
    ----------
    p
        Probability that an agent is awake in an iteration.
    seed
        Another number draws other sleepers.

    Examples
    --------
    >>> Participation(0.5).presence
    0.25
    """

    p: float
    seed: int = 0

    def __post_init__(self) -> None:
        _require_probability("Participation", "p", self.p)
        require_whole("Participation", 0, seed=self.seed)

    @property
    def presence(self) -> float:
        """Share of the iterations in which an edge is used: both ends are awake."""
        return self.p**2


@dataclass(frozen=True, slots=True)
class Speeds:
    """Agents differ in speed: each works in every so many iterations only.

    Parameters
    ----------
    periods
        Iterations from one step of an agent to its next; agent i has number i, and
        after the last one they begin anew.

    Examples
    --------
    >>> Speeds([1, 4]).presence
    0.25
    """

    periods: Sequence[int]

    def __post_init__(self) -> None:
        if isinstance(self.periods, str) or not self.periods:
            raise InputError(
                f"Speeds: `periods` must be a list of numbers, got {self.periods!r}."
            )
        for period in self.periods:
            require_whole("Speeds", 1, periods=period)
        object.__setattr__(self, "periods", tuple(self.periods))

    @property
    def presence(self) -> float:
        """Least share of the iterations in which an edge may be used."""
        together = [math.lcm(a, b) for a in self.periods for b in self.periods]
        return 1 / max(together)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A network that changes: which edges are there, one list after another.

    Parameters
    ----------
    edges
        Lists of edges ``(i, j)`` of the graph; after the last, the first again.
    every
        Iterations for which each list holds.

    Examples
    --------
    >>> Schedule([[(0, 1), (2, 3)], [(1, 2), (3, 0)]]).presence
    0.5
    """

    edges: Sequence[Sequence[Sequence[int]]]
    every: int = 1

    def __post_init__(self) -> None:
        require_whole("Schedule", 1, every=self.every)
        try:
            lists = tuple(
                tuple(sorted((min(i, j), max(i, j)) for i, j in edges))
                for edges in self.edges
            )
        except (TypeError, ValueError) as error:
            raise InputError(
                f"Schedule: `edges` must be lists of edges (i, j), got {self.edges!r}."
            ) from error
        if not any(lists):
            raise InputError("Schedule: `edges` names no edge. Name some.")
        object.__setattr__(self, "edges", lists)

    @property
    def presence(self) -> float:
        """Least share of the iterations in which a named edge is there."""
        named = {edge for edges in self.edges for edge in edges}
        times = [sum(edge in edges for edges in self.edges) for edge in named]
        return min(times) / len(self.edges)


def _require_probability(who: str, name: str, value: float) -> None:
    if isinstance(value, bool) or not 0 < value <= 1:
        raise InputError(f"{who}: `{name}` must be above 0 and at most 1, got {value}.")


def _require_rate(who: str, q: float) -> None:
    if isinstance(q, bool) or not 0 <= q < 1:
        raise InputError(f"{who}: `q` must be from 0 to below 1, got {q}.")
