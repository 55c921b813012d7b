"""Compressors of messages: which entries are sent, and with how many bits.

Each is a frozen dataclass that turns vectors into what a receiver gets to see of them.
A method that takes one sends differences to what its neighbors know already, so that
what is left out now is sent later. This needs a contraction: something of every vector
must get through.

Examples
--------
>>> import torch
>>> TopK(share=0.5).compress(torch.tensor([[3.0, -1.0, 0.5, -4.0]]), key=1)
tensor([[ 3.,  0.,  0., -4.]])
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from proxmesh import packing
from proxmesh.checks import require_positive, require_whole
from proxmesh.contraction import require_contractive
from proxmesh.errors import InputError
from proxmesh.hashing import uniform

__all__ = [
    "Bits",
    "Identity",
    "Known",
    "Pow2",
    "RandomK",
    "Sign",
    "TopK",
    "require_contractive",
]

MOST_BITS = 32  # of an entry


@dataclass(frozen=True, slots=True)
class Identity:
    """Everything is sent as it is.

    Parameters
    ----------
    kind
        Its name in a config file.

    Examples
    --------
    >>> Identity().contraction(100)
    1.0
    """

    kind: Literal["identity"] = "identity"

    def compress(self, rows: Tensor, key: Any) -> Tensor:
        """The rows themselves."""
        del key
        return rows

    def pack(self, rows: Tensor, key: Any) -> Tensor:
        """The bytes of all entries."""
        del key
        return packing.as_bytes(rows)

    def unpack(self, payload: Tensor, key: Any, p: int, dtype: Any) -> Tensor:
        """What was packed."""
        del key, p
        return packing.from_bytes(payload, dtype)

    def contraction(self, p: int) -> float:
        """1: nothing is lost."""
        del p
        return 1.0

    def message_bits(self, p: int, width: int) -> float:
        """All of them."""
        return float(p * width)


@dataclass(frozen=True, slots=True)
class TopK:
    """The largest entries of a vector, as they are; the others are 0.

    Parameters
    ----------
    share
        Of the entries that is sent, rounded up to whole ones.
    kind
        Its name in a config file.

    Examples
    --------
    >>> TopK(0.1).contraction(1000)
    0.1
    """

    share: float = 0.1
    kind: Literal["top-k"] = "top-k"

    def __post_init__(self) -> None:
        _require_share("TopK", self.share)

    def compress(self, rows: Tensor, key: Any) -> Tensor:
        """The entries that are largest in absolute value; of equal ones, any."""
        del key
        places = rows.abs().topk(_count(self.share, rows.shape[-1]), dim=-1).indices
        return torch.zeros_like(rows).scatter(-1, places, rows.gather(-1, places))

    def pack(self, rows: Tensor, key: Any) -> Tensor:
        """The entries, and their places in few bits."""
        del key
        p = rows.shape[-1]
        places = rows.abs().topk(_count(self.share, p), dim=-1).indices
        entries = packing.as_bytes(rows.gather(-1, places))
        return torch.cat([entries, packing.packed(places, _place_bits(p))], 1)

    def unpack(self, payload: Tensor, key: Any, p: int, dtype: Any) -> Tensor:
        """The entries at their places."""
        del key
        count = _count(self.share, p)
        width = count * dtype.itemsize
        entries = packing.from_bytes(payload[:, :width], dtype)
        places = packing.unpacked(payload[:, width:], count, _place_bits(p))
        return entries.new_zeros(len(payload), p).scatter(-1, places, entries)

    def contraction(self, p: int) -> float:
        """The share: all entries may be equally large."""
        return _count(self.share, p) / p

    def message_bits(self, p: int, width: int) -> float:
        """An entry and its place each."""
        return _count(self.share, p) * float(width + _place_bits(p))


@dataclass(frozen=True, slots=True)
class RandomK:
    """Entries drawn at random, as they are; the others are 0.

    The places follow from the key, which both ends know: only values are sent.

    Parameters
    ----------
    share
        Of the entries that is sent, rounded up to whole ones.
    seed
        Another number draws other places.
    kind
        Its name in a config file.

    Examples
    --------
    >>> import torch
    >>> RandomK(0.5).compress(torch.ones(1, 4), key=3)
    tensor([[0., 1., 0., 1.]])
    """

    share: float = 0.1
    seed: int = 0
    kind: Literal["random-k"] = "random-k"

    def __post_init__(self) -> None:
        _require_share("RandomK", self.share)
        require_whole("RandomK", 0, seed=self.seed)

    def compress(self, rows: Tensor, key: Any) -> Tensor:
        """The drawn entries."""
        places = self._places(key, rows.shape[-1], rows)
        chosen = rows.new_zeros(len(places), rows.shape[-1]).scatter(-1, places, 1.0)
        return rows * chosen

    def pack(self, rows: Tensor, key: Any) -> Tensor:
        """The drawn entries alone."""
        places = self._places(key, rows.shape[-1], rows)
        return packing.as_bytes(rows.gather(-1, places.expand(len(rows), -1)))

    def unpack(self, payload: Tensor, key: Any, p: int, dtype: Any) -> Tensor:
        """The entries at the places that the key draws."""
        entries = packing.from_bytes(payload, dtype)
        places = self._places(key, p, payload).expand(len(payload), -1)
        return entries.new_zeros(len(payload), p).scatter(-1, places, entries)

    def _places(self, key: Any, p: int, like: Tensor) -> Tensor:
        drawn = uniform(key, p, self.seed, like).view(-1, p)
        return drawn.topk(_count(self.share, p), dim=-1).indices

    def contraction(self, p: int) -> float:
        """The share, on average over the draws."""
        return _count(self.share, p) / p

    def message_bits(self, p: int, width: int) -> float:
        """The entries alone."""
        return float(_count(self.share, p) * width)


@dataclass(frozen=True, slots=True)
class Bits:
    """Every entry as a multiple of a step, the largest ones as they are.

    With b bits there are ``2^(b-1) - 1`` steps from 0 to the largest entry of a block,
    on either side. With steps of its own every block gets small entries through.

    Parameters
    ----------
    bits
        Per entry, the sign included; at least 2.
    stochastic
        False: the nearest multiple, a contraction for vectors of any length. True: up
        or down at random, right on average; a contraction only for vectors of fewer
        than ``4 (2^(b-1) - 1)^2`` entries, or such blocks (196 for 4 bits).
    seed
        Another number draws other random numbers.
    block
        Entries that share a step.
    kind
        Its name in a config file.

    Examples
    --------
    >>> import torch
    >>> Bits(2).compress(torch.tensor([[2.0, -1.5, 0.1]]), key=1)
    tensor([[ 2., -2.,  0.]])
    >>> Bits(4, stochastic=True).contraction(98)
    0.5
    """

    bits: int = 4
    stochastic: bool = False
    seed: int = 0
    block: int = 128
    kind: Literal["bits"] = "bits"

    def __post_init__(self) -> None:
        require_whole("Bits", 2, bits=self.bits)
        require_whole("Bits", 1, block=self.block)
        if self.bits > MOST_BITS:
            raise InputError(f"Bits: `bits` must be at most 32, got {self.bits}.")
        require_whole("Bits", 0, seed=self.seed)

    @property
    def levels(self) -> int:
        """Steps from 0 to the largest entry."""
        return int(2 ** (self.bits - 1) - 1)

    def compress(self, rows: Tensor, key: Any) -> Tensor:
        """Multiples of the steps of each row's blocks."""
        multiples, steps = self._split(rows, key)
        return multiples * packing.spread(steps, self.block, rows.shape[-1])

    def pack(self, rows: Tensor, key: Any) -> Tensor:
        """The steps, and the multiples in few bits."""
        multiples, steps = self._split(rows, key)
        codes = multiples.nan_to_num().long() + self.levels
        return torch.cat([packing.as_bytes(steps), packing.packed(codes, self.bits)], 1)

    def unpack(self, payload: Tensor, key: Any, p: int, dtype: Any) -> Tensor:
        """The multiples of the steps."""
        del key
        width = self._blocks(p) * dtype.itemsize
        steps = packing.from_bytes(payload[:, :width], dtype)
        codes = packing.unpacked(payload[:, width:], p, self.bits)
        return (codes - self.levels).to(dtype) * packing.spread(steps, self.block, p)

    def _split(self, rows: Tensor, key: Any) -> tuple[Tensor, Tensor]:
        largest = packing.largest_in_blocks(rows, self.block)
        steps = torch.where(largest == 0, 1.0, largest) / self.levels
        scaled = rows / packing.spread(steps, self.block, rows.shape[-1])
        if not self.stochastic:
            return scaled.round(), steps
        drawn = uniform(key, rows.shape[-1], self.seed, rows).to(rows.dtype)
        return (scaled + drawn).floor(), steps

    def _blocks(self, p: int) -> int:
        return -(-p // self.block)

    def contraction(self, p: int) -> float:
        """The largest entry gets through; at random, the others may be far off."""
        most = min(p, self.block)
        return 1 - most / (4 * self.levels**2) if self.stochastic else 1 / most

    def message_bits(self, p: int, width: int) -> float:
        """Those of the entries, and a step for each block."""
        return float(p * self.bits + self._blocks(p) * width)


@dataclass(frozen=True, slots=True)
class Sign:
    """The signs of the entries, times the mean of their absolute values.

    One bit has no room for 0, which counts as positive.

    Parameters
    ----------
    kind
        Its name in a config file.

    Examples
    --------
    >>> import torch
    >>> Sign().compress(torch.tensor([[3.0, -1.0]]), key=1)
    tensor([[ 2., -2.]])
    """

    kind: Literal["sign"] = "sign"

    def compress(self, rows: Tensor, key: Any) -> Tensor:
        """Two values per row."""
        del key
        mean = rows.abs().mean(-1, keepdim=True)
        return torch.where(rows < 0, -mean, mean)

    def pack(self, rows: Tensor, key: Any) -> Tensor:
        """The mean, and a bit per entry."""
        del key
        mean = rows.abs().mean(-1, keepdim=True)
        return torch.cat(
            [packing.as_bytes(mean), packing.packed((rows < 0).long(), 1)], 1
        )

    def unpack(self, payload: Tensor, key: Any, p: int, dtype: Any) -> Tensor:
        """The mean with the signs."""
        del key
        mean = packing.from_bytes(payload[:, : dtype.itemsize], dtype)
        negative = packing.unpacked(payload[:, dtype.itemsize :], p, 1) == 1
        return torch.where(negative, -mean, mean)

    def contraction(self, p: int) -> float:
        """``|u|_1^2 / (p |u|^2)``, which is 1/p where one entry has it all."""
        return 1 / p

    def message_bits(self, p: int, width: int) -> float:
        """One per entry, and the mean."""
        return float(p + width)


@dataclass(frozen=True, slots=True)
class Pow2:
    """Every entry rounded toward 0 to a power of 2: its sign and exponent alone.

    Parameters
    ----------
    kind
        Its name in a config file.

    Examples
    --------
    >>> import torch
    >>> Pow2().compress(torch.tensor([[3.0, -0.3, 0.0]]), key=1)
    tensor([[ 2.0000, -0.2500,  0.0000]])
    """

    kind: Literal["pow2"] = "pow2"

    def compress(self, rows: Tensor, key: Any) -> Tensor:
        """The rows with every mantissa cleared."""
        del key
        whole, mantissa = _FLOATS[rows.dtype]
        return (rows.view(whole) & ~((1 << mantissa) - 1)).view(rows.dtype)

    def pack(self, rows: Tensor, key: Any) -> Tensor:
        """Signs and exponents."""
        del key
        whole, mantissa = _FLOATS[rows.dtype]
        bits = 8 * rows.dtype.itemsize - mantissa
        return packing.packed((rows.view(whole) >> mantissa).long(), bits)

    def unpack(self, payload: Tensor, key: Any, p: int, dtype: Any) -> Tensor:
        """Powers of 2."""
        del key
        whole, mantissa = _FLOATS[dtype]
        codes = packing.unpacked(payload, p, 8 * dtype.itemsize - mantissa)
        return (codes << mantissa).to(whole).view(dtype)

    def contraction(self, p: int) -> float:
        """3/4: an entry is off by at most half its size."""
        del p
        return 0.75

    def message_bits(self, p: int, width: int) -> float:
        """Sign and exponent."""
        return float(p * (9 if width == 32 else 12))


_FLOATS = {torch.float32: (torch.int32, 23), torch.float64: (torch.int64, 52)}

Known: TypeAlias = Identity | TopK | RandomK | Bits | Sign | Pow2
"""The compressors of this file, which a config file can name by their `kind`."""


def _count(share: float, p: int) -> int:
    return min(p, max(1, math.ceil(share * p - 1e-9)))


def _place_bits(p: int) -> int:
    """Bits that tell one of p places."""
    return math.ceil(math.log2(max(p, 2)))


def _require_share(who: str, share: float) -> None:
    require_positive(who, share=share)
    if share > 1:
        raise InputError(f"{who}: `share` must be at most 1, got {share}.")
