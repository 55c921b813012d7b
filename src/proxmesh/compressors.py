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

from proxmesh.checks import require_positive, require_whole
from proxmesh.errors import InputError
from proxmesh.hashing import uniform
from proxmesh.types import Compressor

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

PROBES = (1e-3, 1.0, 1e3)  # sizes of the vectors that a compressor is tried on
LONGEST = 1000  # entries of these vectors
NOTHING = 1e-6  # of the squared size of such a vector
DRAWS = 16  # of random numbers, for a compressor that uses them


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

    def contraction(self, p: int) -> float:
        """The share: all entries may be equally large."""
        return _count(self.share, p) / p

    def message_bits(self, p: int, width: int) -> float:
        """An entry and its place each."""
        return _count(self.share, p) * float(width + math.ceil(math.log2(max(p, 2))))


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
        p = rows.shape[-1]
        drawn = uniform(key, p, self.seed, rows)
        places = drawn.topk(_count(self.share, p), dim=-1).indices
        chosen = torch.zeros_like(drawn).scatter(-1, places, 1.0)
        return rows * chosen.to(rows.dtype)

    def contraction(self, p: int) -> float:
        """The share, on average over the draws."""
        return _count(self.share, p) / p

    def message_bits(self, p: int, width: int) -> float:
        """The entries alone."""
        return float(_count(self.share, p) * width)


@dataclass(frozen=True, slots=True)
class Bits:
    """Every entry as a multiple of a step, the largest one as it is.

    With b bits there are ``2^(b-1) - 1`` steps from 0 to the largest entry of the
    vector, on either side.

    Parameters
    ----------
    bits
        Per entry, the sign included; at least 2.
    stochastic
        False: the nearest multiple, a contraction for vectors of any length. True: up
        or down at random, right on average; a contraction only for vectors of fewer
        than ``4 (2^(b-1) - 1)^2`` entries (196 for 4 bits, 64,516 for 8).
    seed
        Another number draws other random numbers.
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
    kind: Literal["bits"] = "bits"

    def __post_init__(self) -> None:
        require_whole("Bits", 2, bits=self.bits)
        require_whole("Bits", 0, seed=self.seed)

    @property
    def levels(self) -> int:
        """Steps from 0 to the largest entry."""
        return int(2 ** (self.bits - 1) - 1)

    def compress(self, rows: Tensor, key: Any) -> Tensor:
        """Multiples of a step of each row's own."""
        largest = rows.abs().amax(-1, keepdim=True)
        step = torch.where(largest > 0, largest, torch.ones_like(largest)) / self.levels
        scaled = rows / step
        if not self.stochastic:
            return scaled.round() * step
        drawn = uniform(key, rows.shape[-1], self.seed, rows).to(rows.dtype)
        return (scaled + drawn).floor() * step

    def contraction(self, p: int) -> float:
        """The largest entry gets through; at random, the others may be far off."""
        return 1 - p / (4 * self.levels**2) if self.stochastic else 1 / p

    def message_bits(self, p: int, width: int) -> float:
        """Those of the entries, and the largest one."""
        return float(p * self.bits + width)


@dataclass(frozen=True, slots=True)
class Sign:
    """The signs of the entries, times the mean of their absolute values.

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
        return rows.sign() * rows.abs().mean(-1, keepdim=True)

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


def require_contractive(who: str, compressor: Compressor, p: int) -> None:
    """Refuse a compressor that may let nothing of a vector through.

    What it declares is checked, and that it is so on a few vectors.

    Parameters
    ----------
    who
        Complains.
    compressor
        To be used for vectors of p entries.
    p
        Number of entries.

    Examples
    --------
    >>> require_contractive("CDProxSGT", Bits(4, stochastic=True), 1000)
    Traceback (most recent call last):
    proxmesh.errors.InputError: CDProxSGT: `compressor` is not contractive for 1,000 ...
    """
    delta = compressor.contraction(p)
    if not 0 < delta <= 1:
        raise InputError(
            f"{who}: `compressor` is not contractive for {p:,} parameters: "
            f"{compressor} has delta = {delta:.3g}, which must be above 0. Send more "
            "bits or entries."
        )
    shape = torch.linspace(1, 40, min(p, LONGEST), dtype=torch.float64).sin()[None]
    for size in PROBES:
        rows = size * shape
        lost = [
            float((rows - compressor.compress(rows, key)).square().sum())
            for key in range(DRAWS)
        ]
        kept = 1 - sum(lost) / len(lost) / float(rows.square().sum())
        if not kept > NOTHING:
            raise InputError(
                f"{who}: `compressor` is not contractive: of a vector with entries of "
                f"about {size:g}, {compressor} lets nothing through. It must scale "
                "with the vector."
            )


def _count(share: float, p: int) -> int:
    return min(p, max(1, math.ceil(share * p - 1e-9)))


def _require_share(who: str, share: float) -> None:
    require_positive(who, share=share)
    if share > 1:
        raise InputError(f"{who}: `share` must be at most 1, got {share}.")
