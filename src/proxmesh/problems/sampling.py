"""Minibatch indices as a stateless hash of (seed, agent, k, stream, position).

No generator objects: any batch of any agent can be drawn at any time on any engine,
so runs repeat bit for bit, resume exactly and agree between engines.
"""

import zlib
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

__all__ = ["Sampler", "derived_seed", "drawn", "scrambled"]

MASK = 0xFFFFFFFF  # the hash works on 32 bits inside int64
STREAM_STRIDE = 0x9E3779B9  # sets the positions of different streams apart
SEED_STREAM = 1 << 20  # beyond all streams of draws: seeds of what is random in samples
NOISE_POSITION = 0x5BD1E995  # of the key of random layers, which no sample has


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


@final
@dataclass(frozen=True, slots=True)
class Sampler:
    """Draws uniformly, with replacement, from shards that lie one after another.

    Parameters
    ----------
    keys
        One hashed (seed, agent) for each local agent, ``[n_local, 1]``.
    sizes, offsets
        Rows of each shard and where it starts, ``[n_local, 1]``.
    """

    keys: Tensor
    sizes: Tensor
    offsets: Tensor

    @staticmethod
    def over(
        seed: int, agents: tuple[int, ...], sizes: list[int], device: torch.device
    ) -> "Sampler":
        """Build the sampler of these agents' shards."""
        column = torch.tensor(sizes)[:, None]
        start = torch.tensor([derived_seed(seed, "sampling")])
        keys = scrambled(scrambled(start) ^ torch.tensor(agents)[:, None])
        return Sampler(
            keys=keys.to(device),
            sizes=column.to(device),
            offsets=(column.cumsum(0) - column).to(device),
        )

    def indices(self, k: int | Tensor, size: int, stream: int = 0) -> Tensor:
        """Return rows of the concatenated shards, ``[n_local, size]``."""
        # The top of a 32-bit product is uniform on 0 .. size-1, without modulo bias.
        draw = self._hashed(k, size, stream)
        return self.offsets + ((draw * self.sizes) >> 32)

    def seeds(self, k: int | Tensor, size: int, stream: int = 0) -> Tensor:
        """Return a seed of 32 bits for each sample of a draw, ``[n_local, size]``."""
        return self._hashed(k, size, stream + SEED_STREAM)

    def _hashed(self, k: int | Tensor, size: int, stream: int) -> Tensor:
        position = torch.arange(size, device=self.keys.device)
        key = scrambled(self.keys ^ k)
        return drawn(key, position + stream * STREAM_STRIDE)

    def noise_keys(self, k: int | Tensor, stream: int = 0) -> Tensor:
        """Return what the random layers of a model draw from, ``[n_local]``."""
        key = scrambled(self.keys ^ k)[:, 0]
        place = torch.full_like(key, NOISE_POSITION + stream * STREAM_STRIDE)
        return drawn(key, place)
