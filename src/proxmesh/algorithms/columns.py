"""Arithmetic on rows that are larger than the processor's cache."""

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["in_columns"]

LARGE = 2**22  # numbers from which on rows are taken in blocks
BLOCK = 2**15  # numbers of a block: a handful of them stay in cache
NARROWEST = 2**9


def in_columns(function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """``function(*rows)``, entry by entry; large rows by blocks of columns.

    What a formula makes on its way then stays in cache. Written for all columns at once
    it goes through memory term by term, and takes rows of its own.

    Examples
    --------
    >>> x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])
    >>> in_columns(lambda x, y: 2 * x + y, x, y)
    tensor([[5., 8.]])
    """
    first = rows[0]
    # A compiler, to which other kinds of tensors belong, finds blocks by itself.
    if first.numel() <= LARGE or any(type(row) is not Tensor for row in rows):
        return function(*rows)
    out = torch.empty_like(first)
    width = max(NARROWEST, BLOCK // len(first))
    for begin in range(0, first.shape[1], width):
        block = slice(begin, begin + width)
        out[:, block] = function(*(row[:, block] for row in rows))
    return out
