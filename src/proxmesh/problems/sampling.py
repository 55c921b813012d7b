"""Minibatch indices as a stateless hash of (seed, agent, k, stream, position).

No generator objects: any batch of any agent can be drawn at any time on any engine,
so runs repeat bit for bit, resume exactly and agree between engines.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from proxmesh.hashing import STRIDE, derived_seed, drawn, scrambled

__all__ = ["Sampler"]

SEED_STREAM = 1 << 20  # beyond all streams of draws: seeds of what is random in samples
NOISE_POSITION = 0x5BD1E995  # of the key of random layers, which no sample has


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
        return drawn(key, position + stream * STRIDE)

    def noise_keys(self, k: int | Tensor, stream: int = 0) -> Tensor:
        """Return what the random layers of a model draw from, ``[n_local]``."""
        key = scrambled(self.keys ^ k)[:, 0]
        place = torch.full_like(key, NOISE_POSITION + stream * STRIDE)
        return drawn(key, place)
