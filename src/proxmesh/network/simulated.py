"""All agents stacked in one process; a neighbor sum is one matrix product."""

import warnings
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from proxmesh.graphs import Graph, Matrix
from proxmesh.types import Reduction

__all__ = ["SimulatedExchange", "SimulatedWorld"]


@final
class SimulatedExchange:
    """The sent rows and the two products that neighbors can form from them.

    Both products are taken of ``x - x_0``. L annihilates a common shift and W keeps
    it, so nothing changes in exact arithmetic; in float32, near consensus, the plain
    product ``L @ x`` has a biased rounding error that the dual variables add up.
    """

    __slots__ = ("_reference", "_spread", "_world")

    def __init__(self, x: Tensor, world: "SimulatedWorld") -> None:
        self._world = world
        self._reference = x[:1]
        self._spread = x - self._reference

    def laplacian(self) -> Tensor:
        """Row i: ``d_i x_i - sum_{j~i} x_j``."""
        return _rows(self._world.laplacian, self._spread)

    def mix(self) -> Tensor:
        """Row i: ``sum_j w_ij x_j``."""
        return self._reference + _rows(self._world.mixing, self._spread)


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
        self.agents = tuple(range(graph.n))
        self.is_root = True
        self.max_degree = graph.max_degree
        self.num_links = 2 * len(graph.edges)
        degrees = torch.from_numpy(graph.degrees)
        self.degree = degrees.to(device=device, dtype=dtype)[:, None]
        self.laplacian = _tensor(graph.laplacian, dtype, device)
        self.mixing = _tensor(graph.mixing, dtype, device)

    @property
    def mixing_lambda(self) -> float:
        """Second largest absolute eigenvalue of W."""
        return self.graph.mixing_lambda

    def exchange(self, x: Tensor) -> SimulatedExchange:
        """Hand every row to its neighbors."""
        return SimulatedExchange(x, self)

    def reduce(self, x: Tensor, op: Reduction) -> Tensor:
        """Reduce over dim 0, which here is all agents."""
        if op == "mean":
            return x.mean(0)
        if op == "sum":
            return x.sum(0)
        return x.amin(0) if op == "min" else x.amax(0)


@final
@dataclass(frozen=True, slots=True)
class SparseRows:
    """A sparse matrix over the agents, stored by rows."""

    starts: Tensor
    columns: Tensor
    values: Tensor

    def __matmul__(self, x: Tensor) -> Tensor:
        product: Tensor = sparse_product(self.starts, self.columns, self.values, x)
        return product


AgentMatrix: TypeAlias = Tensor | SparseRows


@torch.library.custom_op("proxmesh::sparse_product", mutates_args=())
def sparse_product(
    starts: Tensor, columns: Tensor, values: Tensor, x: Tensor
) -> Tensor:
    """A square sparse matrix times the rows of x.

    An operation of its own, because torch can neither record nor compile one on its
    sparse tensors.
    """
    with warnings.catch_warnings():
        # torch calls its CSR layout beta at every first use; ours is tested.
        warnings.filterwarnings("ignore", message="Sparse CSR")
        size = (len(x), len(x))
        matrix = torch.sparse_csr_tensor(
            starts, columns, values, size, check_invariants=False
        )
    return matrix @ x


@sparse_product.register_fake
def _(starts: Tensor, columns: Tensor, values: Tensor, x: Tensor) -> Tensor:
    del starts, columns, values
    return torch.empty_like(x)


def _rows(matrix: AgentMatrix, x: Tensor) -> Tensor:
    """The product over agents; several vectors of an agent may travel together."""
    return matrix @ x if x.ndim == 2 else (matrix @ x.flatten(1)).view_as(x)


def _tensor(matrix: Matrix, dtype: torch.dtype, device: torch.device) -> AgentMatrix:
    if isinstance(matrix, np.ndarray):
        return torch.from_numpy(matrix).to(device=device, dtype=dtype)
    return SparseRows(
        torch.from_numpy(matrix.indptr.astype(np.int64)).to(device),
        torch.from_numpy(matrix.indices.astype(np.int64)).to(device),
        torch.from_numpy(matrix.data).to(device=device, dtype=dtype),
    )
