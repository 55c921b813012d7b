"""A linear layer that takes dense and sparse samples."""

from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from proxmesh.data.sparse import SparseRows
from proxmesh.errors import InputError
from proxmesh.problems.sparse_ops import as_dense, times

__all__ = ["SparseLinear"]

MOST_DENSE = 2**24  # numbers of samples that are made dense at once


@final
class SparseLinear(nn.Linear):
    """`torch.nn.Linear` that also takes sparse samples, `proxmesh.SparseRows`.

    It has the same parameters and gives the same outputs; the gradient by its weights
    is worked out from the entries that are not 0 alone.

    Parameters
    ----------
    in_features, out_features, bias, device, dtype
        As for `torch.nn.Linear`.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> import proxmesh as pm
    >>> layer = SparseLinear(2, 3)
    >>> layer(pm.SparseRows.of(csr_array([[0.0, 2.0], [3.0, 0.0]]))).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)

    def forward(self, input: Any) -> Tensor:  # noqa: A002 - torch's name
        """Multiply by the weights, and add the bias.

        Parameters
        ----------
        input
            A tensor, or sparse rows.
        """
        if not isinstance(input, SparseRows):
            return super().forward(input)
        if input.table.features != self.in_features:
            raise InputError(
                f"`SparseLinear` takes {self.in_features:,} features, but a sparse "
                f"sample has {input.table.features:,}."
            )
        size = input.rows.numel() * self.in_features
        if input.way == "dense" and size <= MOST_DENSE:
            dense = as_dense(input).to(self.weight.dtype)
            return functional.linear(dense, self.weight, self.bias)
        found = times(self.weight, input)
        return found if self.bias is None else found + self.bias
