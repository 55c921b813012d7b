"""Networks whose links remember what they carried, and methods that know of it."""

from typing import Any, Protocol, TypeGuard, TypeVar

from torch import Tensor

from proxmesh.types.problem_abilities import offers
from proxmesh.types.protocols import Algorithm, Cost, Exchange, Network, Problem, World

__all__ = [
    "Held",
    "HoldsSums",
    "Integrating",
    "Linked",
    "NeedsReliable",
    "advanced",
    "has_links",
    "holds_sums",
    "is_integrated",
    "reliable_iterations",
    "started",
]

S = TypeVar("S")


class Linked(World, Protocol):
    """A network with imperfect links, whose memory is in the states that it makes."""

    @property
    def links(self) -> tuple[Any, ...]:
        """The models."""
        ...

    def state_kind(self, kind: type[Any], algorithm: Algorithm[Any]) -> type[Any]:
        """The states of an algorithm with the memory of these links.

        Parameters
        ----------
        kind
            Its own states.
        algorithm
            With its `cost`.
        """
        ...

    def message_bits(self, k: int, p: int, width: int) -> float:
        """Bits that a vector takes in iteration k, on average over the edges.

        Parameters
        ----------
        k
            Iteration; 0 is `init`.
        p
            Entries of a vector.
        width
            Bits of an entry as it is: 32 or 64.
        """
        ...

    @property
    def is_timed(self) -> bool:
        """Whether messages take time, which `seconds_of` tells."""
        ...

    def seconds_of(self, compute: float, cost: Cost, k: int, bits: float) -> float:
        """How long iteration k would take on these links.

        Parameters
        ----------
        compute
            Seconds of computing of one agent.
        cost
            What the method declares for it.
        k
            Iteration.
        bits
            Of one vector as it is.
        """
        ...

    def start(self, algorithm: Algorithm[Any], x0: Tensor, problem: Problem) -> Any:
        """What `init` makes, with the memory of the links.

        Parameters
        ----------
        algorithm, x0, problem
            As of `init`.
        """
        ...

    def advance(self, algorithm: Algorithm[Any], state: Any, problem: Problem) -> Any:
        """What `step` makes, with the memory of the links.

        Parameters
        ----------
        algorithm, state, problem
            As of `step`.
        """
        ...


class Held(Exchange, Protocol):
    """Sums on their way over links that may lose them."""

    def behind(self) -> Tensor:
        """Row i: ``sum_j (x_i - x_i then)``, then being when i has last heard of j."""
        ...


class HoldsSums(Network, Protocol):
    """A network whose edges hold the last difference where nothing arrives."""

    def hold(self, sums: Tensor, own: Tensor) -> Held:
        """Start sending sums over all iterations so far.

        Parameters
        ----------
        sums
            Rows that travel.
        own
            The values that the agents have now.
        """
        ...


class Integrating(Algorithm[S], Protocol[S]):
    """An algorithm that may send sums over all iterations in place of its values."""

    @property
    def integrated(self) -> bool | None:
        """Whether it does; None: not unless its links ask for it."""
        ...


class NeedsReliable(Algorithm[S], Protocol[S]):
    """An algorithm with iterations whose exchanges must arrive, whatever it takes."""

    @property
    def reliable_at(self) -> tuple[int, ...]:
        """These iterations."""
        ...


def has_links(world: Network) -> TypeGuard[Linked]:
    """Whether its links are imperfect: `Linked`."""
    return offers(world, "links")


def holds_sums(network: Network) -> TypeGuard[HoldsSums]:
    """Whether its edges hold sums: `HoldsSums`."""
    return offers(network, "hold")


def is_integrated(algorithm: Algorithm[Any]) -> bool:
    """Whether it sends sums over all iterations: `Integrating`."""
    return _integrates(algorithm) and bool(algorithm.integrated)


def reliable_iterations(algorithm: Algorithm[Any]) -> tuple[int, ...]:
    """Iterations whose exchanges must arrive; none if it does not say."""
    return algorithm.reliable_at if _is_particular(algorithm) else ()


def started(
    algorithm: Algorithm[Any], x0: Tensor, problem: Problem, world: Network
) -> Any:
    """The first state: of `init`, or as links remember it."""
    if has_links(world):
        return world.start(algorithm, x0, problem)
    return algorithm.init(x0, problem, world)


def advanced(
    algorithm: Algorithm[Any], state: Any, problem: Problem, world: Network
) -> Any:
    """The next state: of `step`, or as links remember it."""
    if has_links(world):
        return world.advance(algorithm, state, problem)
    return algorithm.step(state, problem, world)


def _integrates(algorithm: Algorithm[S]) -> TypeGuard[Integrating[S]]:
    return offers(algorithm, "integrated")


def _is_particular(algorithm: Algorithm[S]) -> TypeGuard[NeedsReliable[S]]:
    return offers(algorithm, "reliable_at")
