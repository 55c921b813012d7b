"""Whole numbers of few bits as bytes, one row after another.

Examples
--------
>>> import torch
>>> codes = torch.tensor([[3, 0, 5]])
>>> packed(codes, 4)
tensor([[3, 5]], dtype=torch.uint8)
>>> unpacked(packed(codes, 4), 3, 4)
tensor([[3, 0, 5]])
"""

import torch
from torch import Tensor

__all__ = [
    "as_bytes",
    "from_bytes",
    "largest_in_blocks",
    "packed",
    "spread",
    "unpacked",
]

BYTE = 8


def packed(codes: Tensor, bits: int) -> Tensor:
    """Rows of bytes that hold rows of numbers, the lowest bits first.

    Parameters
    ----------
    codes
        Whole numbers from 0 to below ``2**bits``, ``[rows, count]``.
    bits
        Of each.

    Examples
    --------
    >>> import torch
    >>> packed(torch.tensor([[1, 1, 0, 1]]), 1)
    tensor([[11]], dtype=torch.uint8)
    """
    codes = codes & ((1 << bits) - 1)
    if BYTE % bits:  # numbers lie across bytes: one bit after another
        places = torch.arange(bits, device=codes.device)
        codes, bits = ((codes[..., None] >> places) & 1).flatten(1), 1
    each = BYTE // bits
    missing = -codes.shape[1] % each
    filled = torch.nn.functional.pad(codes, (0, missing)).view(len(codes), -1, each)
    shifts = bits * torch.arange(each, device=codes.device)
    return (filled << shifts).sum(-1).to(torch.uint8)


def unpacked(payload: Tensor, count: int, bits: int) -> Tensor:
    """The numbers again.

    Parameters
    ----------
    payload
        Rows of bytes.
    count
        Numbers in a row.
    bits
        Of each.

    Examples
    --------
    >>> import torch
    >>> unpacked(torch.tensor([[11]], dtype=torch.uint8), 4, 1)
    tensor([[1, 1, 0, 1]])
    """
    part = bits if BYTE % bits == 0 else 1
    shifts = part * torch.arange(BYTE // part, device=payload.device)
    parts = (payload.long()[..., None] >> shifts) & ((1 << part) - 1)
    parts = parts.flatten(1)
    if part == bits:
        return parts[:, :count]
    places = torch.arange(bits, device=payload.device)
    each = parts[:, : count * bits].view(len(payload), count, bits)
    return (each << places).sum(-1)


def as_bytes(rows: Tensor) -> Tensor:
    """The bytes that numbers consist of, row by row.

    Parameters
    ----------
    rows
        Of any kind of numbers.

    Examples
    --------
    >>> import torch
    >>> as_bytes(torch.tensor([[1.0]], dtype=torch.float32))
    tensor([[  0,   0, 128,  63]], dtype=torch.uint8)
    """
    return rows.contiguous().view(torch.uint8)


def from_bytes(payload: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers that bytes are.

    Parameters
    ----------
    payload
        Rows of bytes.
    dtype
        The kind of numbers.

    Examples
    --------
    >>> import torch
    >>> from_bytes(as_bytes(torch.tensor([[1.5, 2.0]])), torch.get_default_dtype())
    tensor([[1.5000, 2.0000]])
    """
    aligned = payload.flatten().clone()  # a part of a message may begin anywhere
    return aligned.view(dtype).view(len(payload), -1)


def largest_in_blocks(rows: Tensor, block: int) -> Tensor:
    """The largest entry of every block of a row, in absolute value.

    Parameters
    ----------
    rows
        One vector each, ``[rows, p]``.
    block
        Entries of a block; the last one may have fewer.

    Examples
    --------
    >>> import torch
    >>> largest_in_blocks(torch.tensor([[1.0, -3.0, 2.0]]), 2)
    tensor([[3., 2.]])
    """
    sizes = rows.abs()
    if rows.shape[-1] <= block:
        return sizes.amax(-1, keepdim=True)
    filled = torch.nn.functional.pad(sizes, (0, -rows.shape[-1] % block))
    return filled.view(len(rows), -1, block).amax(-1)


def spread(values: Tensor, block: int, p: int) -> Tensor:
    """A value per block, for every entry of its block.

    Parameters
    ----------
    values
        Of the blocks, ``[rows, blocks]``.
    block
        Entries of a block.
    p
        Entries of a row.

    Examples
    --------
    >>> import torch
    >>> spread(torch.tensor([[3.0, 2.0]]), 2, 3)
    tensor([[3., 3., 2.]])
    """
    if values.shape[1] == 1:
        return values
    # Not expanded and cut: fused with the maxima, torch 2.13 compiles that wrongly.
    return values.index_select(1, torch.arange(p, device=values.device) // block)
