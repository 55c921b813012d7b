"""Methods that go on with the newest they have heard, and wait for nobody."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, TypeVar, final

from torch import Tensor

from proxmesh.types.problem_abilities import offers
from proxmesh.types.protocols import Problem, State

__all__ = ["AsynchronousForm", "CountsSteps", "Heard", "Neighborhood", "counts_steps"]

S = TypeVar("S")


@final
@dataclass(frozen=True, slots=True)
class Neighborhood:
    """What agents that step together know of the graph.

    Parameters
    ----------
    degree
        Of each, ``[n_local, 1]``.
    max_degree
        The largest in the whole network.

    Examples
    --------
    >>> import torch
    >>> Neighborhood(torch.ones(1, 1), 3).max_degree
    3
    """

    degree: Tensor
    max_degree: int


@final
@dataclass(frozen=True, slots=True)
class Heard:
    """The newest message of some neighbors that step together.

    Parameters
    ----------
    clock
        Theirs when they sent it.
    rows
        What they sent, a row for each of those agents.
    then
        What we remember of ourselves at that clock.
    edges
        ``[n_local, rows]``: 1 where two are neighbors.

    Examples
    --------
    >>> import torch
    >>> heard = Heard(3, torch.tensor([[1.0], [2.0]]), None, torch.ones(1, 2))
    >>> heard.differences(torch.tensor([[5.0]])), heard.count
    (tensor([[7.]]), tensor([[2.]]))
    """

    clock: int
    rows: Tensor
    then: Any
    edges: Tensor

    @property
    def count(self) -> Tensor:
        """How many of them each of our agents is a neighbor of, ``[n_local, 1]``."""
        return self.edges.sum(1, keepdim=True)

    def differences(self, own: Tensor) -> Tensor:
        """Row i: ``sum_j (own_i - rows_j)`` over the neighbors j among them.

        Parameters
        ----------
        own
            A row for each of our agents.
        """
        shift = self.rows[:1]  # small numbers have small rounding errors
        edges = self.edges.to(own.dtype)
        near = edges.sum(1, keepdim=True) * (own - shift)
        return near - edges @ (self.rows - shift)


class AsynchronousForm(Protocol[S]):
    """A method for agents that have a clock in place of a common iteration.

    The clock of agents that step together is ``max(clock + 1, largest heard)``. Between
    two steps their rows stand still, so that there is a state at every clock.
    """

    @property
    def state_kind(self) -> type[Any]:
        """The class of its states."""
        ...

    def start(self, x0: Tensor, problem: Problem) -> S:
        """The state at clock 0.

        Parameters
        ----------
        x0, problem
            Rows, and the local objectives.
        """
        ...

    def begin(self, state: S) -> None:
        """Be ready to go on from a state.

        Parameters
        ----------
        state
            At any clock.
        """
        ...

    def adapt(self, age: float, after: int) -> None:
        """Take the age of messages into account.

        Parameters
        ----------
        age
            Ticks by which messages of the slowest neighbor anywhere are behind, on
            average.
        after
            The tick from which on all agents do so, if they have not passed it.
        """
        ...

    def held(self, state: S, clock: int) -> S:
        """The same rows at a later clock.

        Parameters
        ----------
        state, clock
            What stands still, and until when.
        """
        ...

    def kept(self, state: S) -> Any:
        """What is to be remembered of a state, for messages that come late.

        Parameters
        ----------
        state
            At its clock.
        """
        ...

    def message(self, kept: Any, clock: int) -> Tensor:
        """What neighbors are told, a row for each of our agents.

        Parameters
        ----------
        kept, clock
            What is remembered of a state, at its clock or at a later one.
        """
        ...

    def step(
        self,
        state: S,
        clock: int,
        heard: Sequence[Heard],
        *,
        problem: Problem,
        neighborhood: Neighborhood,
        send: Callable[[Any], None],
    ) -> S:
        """Make the state at this clock.

        Parameters
        ----------
        state, clock
            Where the agents stand, and the clock that they go to.
        heard
            The newest of all neighbors.
        problem, neighborhood
            The local objectives, and the degrees.
        send
            To be called with what `kept` would return as soon as that is known.
        """
        ...


class CountsSteps(State, Protocol):
    """The state of an asynchronous run, whose agents make steps of their own."""

    @property
    def count(self) -> Tensor:
        """Steps that each agent has made itself, ``[n_local, 1]``."""
        ...


def counts_steps(state: State) -> TypeGuard[CountsSteps]:
    """Whether it is the state of an asynchronous run: `CountsSteps`."""
    return offers(state, "count")
