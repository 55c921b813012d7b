"""What every network, problem and algorithm can do; every one can be replaced.

State tensors are stacked rows ``[n_local, p]``, one row for each agent that this
process holds; per-agent scalars are ``[n_local, 1]``. An algorithm is written once
against `Network` and `Problem` and runs on every engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from torch import Tensor

from proxmesh.types.compression import Compressor
from proxmesh.types.look import Look

__all__ = [
    "Algorithm",
    "Batch",
    "Cost",
    "Evaluation",
    "Exchange",
    "Network",
    "Problem",
    "Reduction",
    "State",
    "World",
]

Batch: TypeAlias = Any
"""What `Problem.sample` draws and `Problem.grad` reads; opaque to everyone else."""

Reduction: TypeAlias = Literal["mean", "sum", "min", "max"]


class Exchange(Protocol):
    """Rows on their way to the neighbors; reading a result waits for them."""

    def laplacian(self) -> Tensor:
        """Row i: ``d_i x_i - sum_{j~i} x_j``."""
        ...

    def pull(self) -> Tensor:
        """The same with the agent's own newest x_i, where links deliver old values.

        A dual variable needs `laplacian`, in which both ends of an edge use the same
        pair of values; a primal step may use this. On perfect links they are equal.
        """
        ...

    def mix(self) -> Tensor:
        """Row i: ``sum_j w_ij x_j`` with Metropolis weights."""
        ...


class Network(Protocol):
    """All that an algorithm may know of the graph.

    A global average is deliberately missing: decentralization is a type here.
    """

    @property
    def degree(self) -> Tensor:
        """Number of neighbors of each local agent, ``[n_local, 1]``."""
        ...

    @property
    def n(self) -> int:
        """Number of agents in the whole network (global knowledge)."""
        ...

    @property
    def max_degree(self) -> int:
        """Largest degree in the whole network (global knowledge)."""
        ...

    @property
    def mixing_lambda(self) -> float:
        """Second largest absolute eigenvalue of W (global knowledge)."""
        ...

    def exchange(self, x: Tensor) -> Exchange:
        """Start sending the rows of x to the neighbors and return at once.

        Parameters
        ----------
        x
            Rows of the local agents, ``[n_local, p]``; several vectors may travel
            together as ``[n_local, m, p]``.
        """
        ...


class World(Network, Protocol):
    """What solver and metrics see of the engine; algorithms never do."""

    @property
    def engine(self) -> str:
        """Name of the engine: simulated, mpi or torch."""
        ...

    @property
    def distributed(self) -> bool:
        """Whether other processes hold agents too, which must be waited for."""
        ...

    @property
    def rank(self) -> int:
        """Which of the processes this is, from 0 on."""
        ...

    @property
    def agents(self) -> tuple[int, ...]:
        """Ids of the agents that this process holds."""
        ...

    @property
    def is_root(self) -> bool:
        """Whether this process is the one that prints and writes."""
        ...

    @property
    def num_links(self) -> int:
        """Directed edges of the whole graph: sends of one vector to each neighbor."""
        ...

    def reduce(self, x: Tensor, op: Reduction) -> Tensor:
        """Reduce rows over all agents of the network, dropping dim 0.

        Parameters
        ----------
        x
            One row for each local agent.
        op
            What to make of all rows: mean, sum, min or max.
        """
        ...

    def share(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """The root's numbers and words, told to every process.

        Parameters
        ----------
        numbers
            What can stand in JSON, by name.
        """
        ...

    def gather(self, numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Every process's numbers and words, in the order of ranks, told to all.

        Parameters
        ----------
        numbers
            What can stand in JSON, by name.
        """
        ...

    def agree(self, facts: Mapping[str, str]) -> None:
        """Refuse to start when a process was started with other facts.

        Parameters
        ----------
        facts
            What must be the same everywhere, in words, by name.
        """
        ...

    def announce_exit(self, reason: str) -> None:
        """Tell the other processes why this one stops, without waiting for them.

        Parameters
        ----------
        reason
            One line.
        """
        ...

    def describe(self) -> str:
        """Where the agents live, in one line; empty if all live in this process."""
        ...


@runtime_checkable
class Problem(Protocol):
    """The local objectives ``f_i + h``, seen through minibatches and a prox.

    What a problem can do beyond this is declared in `problem_abilities`, one small
    protocol for each, with a function that tells whether a problem has it. A column of
    the history that needs a missing ability stays blank; a method that needs one says
    so. What a problem tells of itself (its batch size, its samples) is in `Facts`.
    """

    def sample(self, k: Any, size: int | None = None, stream: int = 0) -> Batch:
        """Draw the minibatch of iteration k: a pure function of seed, agent, k.

        Parameters
        ----------
        k
            Iteration; 0 is `init`. A number, or a 0-d tensor.
        size
            Samples per agent, where the usual batch size is not meant.
        stream
            Another number draws an independent batch of the same k.
        """
        ...

    def grad(self, x: Tensor, batch: Batch) -> Tensor:
        """Row i: gradient of f_i at x_i on the minibatch.

        Parameters
        ----------
        x
            Rows, one for each local agent: ``[n_local, p]``.
        batch
            What `sample` drew.
        """
        ...

    def prox(self, z: Tensor, step: Any) -> Tensor:
        """Row i: prox of ``step * h`` at z_i; step a number, 0-d or [n_local, 1].

        Parameters
        ----------
        z
            Rows at which it is taken.
        step
            The parameter of the prox.
        """
        ...


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a problem reports about rows x over its whole shards.

    Parameters
    ----------
    grad
        Gradient of f_i at x_i, ``[n_local, p]``.
    loss
        f_i(x_i), ``[n_local]``.
    metrics
        Further columns of the history, ``[n_local]`` each; their mean is shown.

    Examples
    --------
    >>> import torch
    >>> Evaluation(loss=torch.tensor([0.5, 1.0])).grad is None
    True
    """

    grad: Tensor | None = None
    loss: Tensor | None = None
    metrics: Mapping[str, Tensor] = field(default_factory=dict)


class State(Protocol):
    """What every algorithm's state has; the rest is its own."""

    @property
    def k(self) -> Tensor:
        """Finished iterations, a 0-d int64 tensor."""
        ...

    @property
    def x(self) -> Tensor:
        """The models, ``[n_local, p]``."""
        ...


@dataclass(frozen=True, slots=True)
class Cost:
    """What one iteration of an algorithm costs each agent, declared, not measured.

    Parameters
    ----------
    vectors
        p-vectors sent to each neighbor.
    rounds
        Exchanges that must wait for one another.
    gradients
        Minibatch gradients computed.
    batch
        Samples in each of them; None: the problem's own batch size.
    compressor
        Of the vectors, where they are not sent as they are: it knows their size.
    look
        At the losses, after this iteration, whose products cost gradients as well.
    overlaps
        Whether the vectors travel while the gradients are computed.

    Examples
    --------
    >>> import proxmesh as pm
    >>> pm.HSMADMM().cost(1)
    Cost(vectors=1, rounds=1, gradients=2, batch=None)
    """

    vectors: int
    rounds: int
    gradients: int
    batch: int | Literal["shard"] | None = None
    compressor: Compressor | None = field(default=None, repr=False)
    look: Look | None = field(default=None, repr=False)
    overlaps: bool = field(default=False, repr=False)


S = TypeVar("S")


class Algorithm(Protocol[S]):
    """A frozen dataclass of hyperparameters with pure `init` and `step`."""

    def init(self, x0: Tensor, problem: Problem, network: Network) -> S:
        """Build the state with k = 0 and x = x0, drawing ``sample(0)``.

        Parameters
        ----------
        x0
            Initial rows, ``[n_local, p]``.
        problem, network
            The local objectives, and the neighbors.
        """
        ...

    def step(self, state: S, problem: Problem, network: Network) -> S:
        """Make iterate k from iterate k - 1, drawing ``sample(k)``.

        Parameters
        ----------
        state
            Of iterate k - 1; it is left as it is.
        problem, network
            The local objectives, and the neighbors.
        """
        ...

    def cost(self, k: int) -> Cost:
        """Tell what iteration k costs; k = 0 is `init`.

        Parameters
        ----------
        k
            Iteration.
        """
        ...
