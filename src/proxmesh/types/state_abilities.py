"""What some states can do besides, and who tells which kind they are."""

from typing import Protocol, TypeGuard, TypeVar

from torch import Tensor

from proxmesh.types.problem_abilities import offers
from proxmesh.types.protocols import Algorithm, Problem, State

__all__ = [
    "BY_EDGE",
    "ReportsKKT",
    "SparseState",
    "TellsState",
    "has_sparse_rows",
    "reports_kkt",
    "tells_state",
]

S = TypeVar("S")

BY_EDGE = "_by_edge"
"""How the name of a field ends that has a row for each edge of each local agent."""


class TellsState(Algorithm[S], Protocol[S]):
    """An algorithm with several kinds of states, one for each of its forms."""

    @property
    def state_kind(self) -> type[S]:
        """The class of the states of this form."""
        ...


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


def tells_state(algorithm: Algorithm[S]) -> TypeGuard[TellsState[S]]:
    """Whether it has several kinds of states and tells which: `TellsState`."""
    return offers(algorithm, "state_kind")
