"""What some algorithms can do besides: declared, not sniffed."""

from typing import Protocol, Self, TypeGuard, TypeVar

from proxmesh.types.problem_abilities import offers
from proxmesh.types.protocols import Algorithm

__all__ = [
    "Branching",
    "FindsConstants",
    "Remedied",
    "branches",
    "finds_constants",
    "knows_a_remedy",
]

S = TypeVar("S")


class FindsConstants(Algorithm[S], Protocol[S]):
    """An algorithm whose constants may be left out, to be found before a run."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the constants that are still to be found."""
        ...

    def with_constants_of(self, earlier: Self) -> Self:
        """The algorithm with what an earlier run of the same kind has found.

        Parameters
        ----------
        earlier
            The algorithm of that run, with all its constants.
        """
        ...


class Remedied(Algorithm[S], Protocol[S]):
    """An algorithm that knows what to change when a run diverges."""

    def remedy(self) -> str:
        """What to change, in a sentence or two."""
        ...


class Branching(Algorithm[S], Protocol[S]):
    """An algorithm whose step branches on k; each branch is compiled on its own."""

    def at(self, k: int) -> Algorithm[S]:
        """The method that takes the branch of iteration k at every k.

        Parameters
        ----------
        k
            Iteration, from 1 on.
        """
        ...


def finds_constants(algorithm: Algorithm[S]) -> TypeGuard[FindsConstants[S]]:
    """Whether constants may be left out: `FindsConstants`."""
    return offers(algorithm, "missing")


def knows_a_remedy(algorithm: Algorithm[S]) -> TypeGuard[Remedied[S]]:
    """Whether it says what to change after a divergence: `Remedied`."""
    return offers(algorithm, "remedy")


def branches(algorithm: Algorithm[S]) -> TypeGuard[Branching[S]]:
    """Whether its step branches on k: `Branching`."""
    return offers(algorithm, "at")
