"""A stateless hash in place of random number generators.

Minibatches, lost messages and random roundings are functions of a seed and of what they
are drawn for: any of them can be drawn at any time on any engine, so runs repeat bit
for bit, resume exactly and agree between engines.
"""

import zlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["MASK", "STRIDE", "derived_seed", "drawn", "scrambled", "uniform"]

MASK = 0xFFFFFFFF  # the hash works on 32 bits inside int64
STRIDE = 0x9E3779B9  # sets the positions of different streams apart
PLACES_APART = 0x85EBCA6B


def derived_seed(seed: int, *purpose: str | int) -> int:
    """Derive an independent seed for a purpose: one user seed feeds many streams.

    Examples
    --------
    >>> derived_seed(0, "graph") == derived_seed(0, "graph")
    True
    >>> derived_seed(0, "graph") == derived_seed(0, "init")
    False
    """
    words = [zlib.crc32(w.encode()) if isinstance(w, str) else w for w in purpose]
    return int(np.random.SeedSequence([seed, len(words), *words]).generate_state(1)[0])


def scrambled(h: Tensor) -> Tensor:
    """Scramble 32-bit values held in int64; the multipliers cannot overflow it."""
    h = h ^ (h >> 16)
    h = (h * 0x21F0AAAD) & MASK
    h = h ^ (h >> 15)
    h = (h * 0x735A2D97) & MASK
    return h ^ (h >> 15)


def drawn(key: Tensor, position: Tensor) -> Tensor:
    """Draw one uniform 32-bit value for every key and position."""
    draw = scrambled(key ^ (position & MASK))
    # A second hash: with the first alone, close keys permute the same draws.
    return scrambled((draw + scrambled(key + 1)) & MASK)


def uniform(key: Any, p: int, seed: int, like: Tensor) -> Tensor:
    """Numbers in [0, 1) as a hash of key, seed and place, ``[..., p]`` in float64."""
    places = torch.arange(p, device=like.device, dtype=torch.int64)
    keys = torch.as_tensor(key, device=like.device, dtype=torch.int64)
    h = scrambled((keys * STRIDE + seed) & MASK)
    h = scrambled((h + places * PLACES_APART) & MASK)
    return h.to(torch.float64) / (MASK + 1)
