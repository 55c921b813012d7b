"""Matrices over agents times their rows: dense, or sparse where few agents meet."""

import warnings
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from proxmesh.graphs import Matrix

__all__ = ["AgentMatrix", "SparseRows", "product", "to_tensor"]


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
    """A sparse matrix times the rows of x.

    An operation of its own, because torch can neither record nor compile one on its
    sparse tensors.
    """
    with warnings.catch_warnings():
        # torch calls its CSR layout beta at every first use; ours is tested.
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
    """The product over agents; several vectors of an agent may travel together."""
    if x.ndim == 2:
        return matrix @ x
    found = matrix @ x.flatten(1)
    return found.view(len(found), *x.shape[1:])


def to_tensor(matrix: Matrix, dtype: torch.dtype, device: torch.device) -> AgentMatrix:
    """A matrix of a graph in the dtype and on the device of the rows."""
    if isinstance(matrix, np.ndarray):
        return torch.from_numpy(matrix).to(device=device, dtype=dtype)
    return SparseRows(
        torch.from_numpy(matrix.indptr.astype(np.int64)).to(device),
        torch.from_numpy(matrix.indices.astype(np.int64)).to(device),
        torch.from_numpy(matrix.data).to(device=device, dtype=dtype),
    )
