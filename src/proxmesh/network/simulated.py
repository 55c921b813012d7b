"""All agents stacked in one process; a neighbor sum is one matrix product."""

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.graphs import Graph
from proxmesh.network.agent_matrix import product, reduce_rows, to_tensor
from proxmesh.types import Reduction

__all__ = ["SimulatedExchange", "SimulatedWorld"]


@final
class SimulatedExchange:
    """The sent rows and the two products that neighbors can form from them.

    Both products are taken of ``x - x_0``. L annihilates a common shift and W keeps
    it, so nothing changes in exact arithmetic; in float32, near consensus, the plain
    product ``L @ x`` has a biased rounding error that the dual variables add up.
    """

    __slots__ = ("_world", "_x")

    def __init__(self, x: Tensor, world: "SimulatedWorld") -> None:
        self._world = world
        self._x = x  # whose differences are another row: taken when they are needed

    def laplacian(self) -> Tensor:
        """Row i: ``d_i x_i - sum_{j~i} x_j``."""
        return product(self._world.laplacian, self._x - self._x[:1])

    def pull(self) -> Tensor:
        """The same: nothing is old here."""
        return self.laplacian()

    def mix(self) -> Tensor:
        """Row i: ``sum_j w_ij x_j``."""
        mixed = product(self._world.mixing, self._x - self._x[:1])
        return self._x[:1] + mixed

    def seen(self) -> Tensor:
        """The rows of all agents, as they were sent."""
        return self._x


@final
class SimulatedWorld:
    """A `World` that holds every agent.

    Parameters
    ----------
    graph
        Who talks to whom; its matrices are dense or sparse as the graph stores them.
    dtype, device
        Of the exchanged rows.
    """

    def __init__(self, graph: Graph, dtype: torch.dtype, device: torch.device) -> None:
        self.graph = graph
        self.n = graph.n
        self.engine = "simulated"
        self.rank = 0
        self.agents = tuple(range(graph.n))
        self.ghosts: tuple[int, ...] = ()  # other processes' agents: there are none
        self.is_root = True
        self.distributed = False
        self.max_degree = graph.max_degree
        self.num_links = 2 * len(graph.edges)
        degrees = torch.from_numpy(graph.degrees)
        self.degree = degrees.to(device=device, dtype=dtype)[:, None]
        self.laplacian = to_tensor(graph.laplacian, dtype, device)
        self.mixing = to_tensor(graph.mixing, dtype, device)

    @property
    def mixing_lambda(self) -> float:
        """Second largest absolute eigenvalue of W."""
        return self.graph.mixing_lambda

    def exchange(self, x: Tensor) -> SimulatedExchange:
        """Hand every row to its neighbors."""
        return SimulatedExchange(x, self)

    def reduce(self, x: Tensor, op: Reduction) -> Tensor:
        """Reduce over dim 0, which holds all agents here."""
        return reduce_rows(x, op)

    def share(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """Return the numbers: this process is the root."""
        return dict(numbers)

    def gather(self, numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the numbers: there is no other process."""
        return [dict(numbers)]

    def agree(self, facts: Mapping[str, str]) -> None:
        """Do nothing: one process always agrees with itself."""

    def announce_exit(self, reason: str) -> None:
        """Do nothing: there is no other process to tell."""

    def describe(self) -> str:
        """All agents live here."""
        return ""
