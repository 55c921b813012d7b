"""What some states and algorithms can do besides: declared, not sniffed."""

from typing import Protocol, Self, TypeGuard, TypeVar

from torch import Tensor

from proxmesh.types.problem_abilities import offers
from proxmesh.types.protocols import Algorithm, Problem, State

__all__ = [
    "Branching",
    "FindsConstants",
    "Remedied",
    "ReportsKKT",
    "SparseState",
    "TellsState",
    "branches",
    "finds_constants",
    "has_sparse_rows",
    "knows_a_remedy",
    "reports_kkt",
    "tells_state",
]

S = TypeVar("S")


class SparseState(State, Protocol):
    """A state whose rows out of the prox are not x."""

    @property
    def sparse(self) -> Tensor:
        """The rows that come out of the prox, ``[n_local, p]``."""
        ...


class ReportsKKT(State, Protocol):
    """A state with multipliers, which tells how far it is from a saddle point."""

    def kkt_residual(self, problem: Problem) -> Tensor | None:
        """Each agent's part of the residual, ``[n_local]``; None if h does not tell.

        Parameters
        ----------
        problem
            The local objectives.
        """
        ...


def has_sparse_rows(state: State) -> TypeGuard[SparseState]:
    """Whether the rows out of the prox are others than x: `SparseState`."""
    return offers(state, "sparse")


def reports_kkt(state: State) -> TypeGuard[ReportsKKT]:
    """Whether the state has a KKT residual: `ReportsKKT`."""
    return offers(state, "kkt_residual")


# -- what an algorithm may be able to do besides ---------------------------------------


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


class TellsState(Algorithm[S], Protocol[S]):
    """An algorithm with several kinds of states, one for each of its forms."""

    @property
    def state_kind(self) -> type[S]:
        """The class of the states of this form."""
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


def tells_state(algorithm: Algorithm[S]) -> TypeGuard[TellsState[S]]:
    """Whether it has several kinds of states and tells which: `TellsState`."""
    return offers(algorithm, "state_kind")
