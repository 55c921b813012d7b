"""Products and reductions over agents; matrices are sparse where few are neighbors."""

import warnings
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from proxmesh.graphs import Matrix
from proxmesh.types import Reduction

__all__ = ["AgentMatrix", "SparseRows", "product", "reduce_rows", "to_tensor"]


@final
@dataclass(frozen=True, slots=True)
class SparseRows:
    """A sparse matrix over the agents, stored by rows."""

    starts: Tensor
    columns: Tensor
    values: Tensor

    def __matmul__(self, x: Tensor) -> Tensor:
        found: Tensor = sparse_product(self.starts, self.columns, self.values, x)
        return found


AgentMatrix: TypeAlias = Tensor | SparseRows


@torch.library.custom_op("proxmesh::sparse_product", mutates_args=())
def sparse_product(
    starts: Tensor, columns: Tensor, values: Tensor, x: Tensor
) -> Tensor:
    """Multiply a sparse matrix with the rows of x.

    A custom operation, because torch can neither record nor compile products of its
    own sparse tensors.
    """
    with warnings.catch_warnings():
        # Torch warns at first use that its CSR layout is in beta; ours is tested.
        warnings.filterwarnings("ignore", message="Sparse CSR")
        size = (len(starts) - 1, len(x))
        matrix = torch.sparse_csr_tensor(
            starts, columns, values, size, check_invariants=False
        )
    return matrix @ x


@sparse_product.register_fake
def _(starts: Tensor, columns: Tensor, values: Tensor, x: Tensor) -> Tensor:
    del columns, values
    return x.new_empty(len(starts) - 1, x.shape[1])


def product(matrix: AgentMatrix, x: Tensor) -> Tensor:
    """Multiply over the agents, whose rows may hold several vectors: ``[n, m, p]``."""
    if x.ndim == 2:
        return matrix @ x
    found = matrix @ x.flatten(1)
    return found.view(len(found), *x.shape[1:])


def reduce_rows(x: Tensor, op: Reduction) -> Tensor:
    """Reduce over the agents in x, dropping dim 0."""
    if op == "mean":
        return x.mean(0)
    if op == "sum":
        return x.sum(0)
    return x.amin(0) if op == "min" else x.amax(0)


def to_tensor(matrix: Matrix, dtype: torch.dtype, device: torch.device) -> AgentMatrix:
    """Convert a matrix of a graph to the dtype and device of the rows."""
    if isinstance(matrix, np.ndarray):
        return torch.from_numpy(matrix).to(device=device, dtype=dtype)
    return SparseRows(
        torch.from_numpy(matrix.indptr.astype(np.int64)).to(device),
        torch.from_numpy(matrix.indices.astype(np.int64)).to(device),
        torch.from_numpy(matrix.data).to(device=device, dtype=dtype),
    )
