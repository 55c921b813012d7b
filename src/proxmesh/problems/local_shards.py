"""The training data of the agents that this process holds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import torch
from torch import Tensor

from proxmesh.data.dataset_shard import DatasetShard
from proxmesh.data.lazy_samples import LazySamples
from proxmesh.data.opening import Opened
from proxmesh.data.shards import Samples, Shard, Shards, Stored
from proxmesh.errors import InputError
from proxmesh.problems.sampling import Sampler

__all__ = ["LocalShards", "agents_of", "number_of_agents"]

SWEEP_WIDTH = 256  # samples of an agent in one piece, when many agents share it


@final
@dataclass(frozen=True, slots=True, eq=False)
class LocalShards:
    """Shards one after another, and the draws from each of them.

    Parameters
    ----------
    agents
        Ids of the agents, in the order of their shards.
    samples
        All shards.
    sampler
        Where each shard starts, how long it is, and which of its rows a batch takes.
    """

    agents: tuple[int, ...]
    samples: Stored | LazySamples
    sampler: Sampler

    @staticmethod
    def of(
        agents: tuple[int, ...], sizes: list[int], samples: Opened, seed: int
    ) -> "LocalShards":
        """Store shards of these sizes, which lie one after another in `samples`."""
        stored = Stored.of(samples) if isinstance(samples, Samples) else samples
        sampler = Sampler.over(seed, agents, sizes, stored.device)
        return LocalShards(agents, stored, sampler)

    @property
    def lazy(self) -> bool:
        """Whether batches are read when they are drawn."""
        return isinstance(self.samples, LazySamples)

    def reseeded(self, seed: int) -> "LocalShards":
        """The same shards with other draws."""
        sizes = self.sampler.sizes
        column = [int(size) for size in sizes[:, 0]]
        drawn = Sampler.over(seed, self.agents, column, sizes.device)
        return replace(self, sampler=drawn)

    def of_agent(self, agent: int) -> Shard:
        """Return the inputs and targets of one agent, or where they are read."""
        i = self.agents.index(agent)
        if isinstance(self.samples, LazySamples):
            return self.samples.shards[i]
        start, size = (int(t[i]) for t in (self.sampler.offsets, self.sampler.sizes))
        rows = torch.arange(start, start + size, device=self.samples.device)
        part = self.samples.take(rows)
        if part.table is not None:
            return part.table.take(rows), part.targets
        return part.inputs, part.targets

    def draw(
        self,
        k: int | Tensor,
        size: int,
        stream: int,
        *,
        noise: bool = False,
        ahead: bool = False,
    ) -> Samples:
        """Draw the minibatch of iteration k for every agent, with or without noise.

        `ahead`: the next iteration will draw alike; what is lazy is read before.
        """
        keys = self.sampler.noise_keys(k, stream) if noise else None
        return replace(self._drawn(k, size, stream, ahead), keys=keys)

    def _drawn(self, k: int | Tensor, size: int, stream: int, ahead: bool) -> Samples:
        if not isinstance(self.samples, LazySamples):
            return self.samples.take(self.sampler.indices(k, size, stream))
        draw, k = self.sampler, int(k)

        def drawn(k: int) -> tuple[Tensor, Tensor]:
            return draw.indices(k, size, stream), draw.seeds(k, size, stream)

        batch = self.samples.draw((k, size, stream), partial(drawn, k))
        if ahead:
            self.samples.prepare((k + 1, size, stream), partial(drawn, k + 1))
        return batch

    def stop(self) -> None:
        """Wait for what is read ahead, and forget it."""
        if isinstance(self.samples, LazySamples):
            self.samples.stop()

    def first(self, agents: int, samples: int, noise: bool) -> Samples:
        """Return the very first sample, as a batch of this many agents and samples."""
        device = self.samples.device
        rows = torch.zeros(agents, samples, dtype=torch.int64, device=device)
        keys = torch.arange(agents, device=device) if noise else None
        return replace(self.samples.take(rows), keys=keys)

    def sweep(self, at_once: int) -> Iterator[tuple[Tensor, Samples, Tensor]]:
        """Walk over all samples once, at most `at_once` of them in one piece.

        Yields positions of agents ``[a]``, the same number of samples of each of them
        ``[a, m]``, and the share of its shard that this is, ``[a]``. Agents that have
        the same number of samples left go together.
        """
        if isinstance(self.samples, LazySamples):
            pieces = self._pieces(min(at_once, self.samples.at_once))
            found = self.samples.pieces(pieces, lambda piece: piece[1])
            yield from ((agents, part, share) for (agents, _, share), part in found)
        else:
            for agents, rows, share in self._pieces(at_once):
                yield agents, self.samples.take(rows), share

    def _pieces(self, at_once: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Agents, rows of their samples, and shares: what `sweep` reads in turn."""
        sizes, offsets = self.sampler.sizes[:, 0], self.sampler.offsets
        longest = int(sizes.max())
        together = min(len(sizes), max(1, at_once // SWEEP_WIDTH))
        width = min(longest, at_once // together)
        agents_at_once = max(1, at_once // width)
        for start in range(0, longest, width):
            left = (sizes - start).clamp(0, width)
            for count in torch.unique(left).tolist():
                if count == 0:
                    continue
                group = (left == count).nonzero()[:, 0]
                column = torch.arange(start, start + count, device=sizes.device)
                for agents in group.split(agents_at_once):
                    share = count / sizes[agents].to(torch.float64)
                    yield agents, offsets[agents] + column, share


def agents_of(shards: Sequence[Shard] | Mapping[int, Shard]) -> tuple[int, ...]:
    """Return the ids of the agents that have a shard, ascending."""
    if not len(shards):
        raise InputError("LearningProblem: `shards` is empty; every agent needs one.")
    if isinstance(shards, DatasetShard):
        raise InputError(
            "LearningProblem: `shards` is a single DatasetShard. Give a list of them, "
            "one for every agent."
        )
    if isinstance(shards, Mapping):
        strange = [agent for agent in shards if not isinstance(agent, int)]
        if strange:
            raise InputError(
                f"LearningProblem: `shards` has the key {strange[0]!r}; agents are "
                "numbered from 0."
            )
        return tuple(sorted(shards))
    return tuple(range(len(shards)))


def number_of_agents(shards: Shards) -> int | None:
    """Return the agents of the whole network, unless only some of them may be here."""
    return None if callable(shards) or isinstance(shards, Mapping) else len(shards)
