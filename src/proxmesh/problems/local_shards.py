"""The training data of the agents that this process holds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

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
    samples: Stored
    sampler: Sampler

    @staticmethod
    def of(
        agents: tuple[int, ...], sizes: list[int], samples: Samples, seed: int
    ) -> "LocalShards":
        """Store shards of these sizes, which lie one after another in `samples`."""
        sampler = Sampler.over(seed, agents, sizes, samples.targets.device)
        return LocalShards(agents, Stored.of(samples), sampler)

    def reseeded(self, seed: int) -> "LocalShards":
        """The same shards with other draws."""
        sizes = self.sampler.sizes
        column = [int(size) for size in sizes[:, 0]]
        drawn = Sampler.over(seed, self.agents, column, sizes.device)
        return replace(self, sampler=drawn)

    def of_agent(self, agent: int) -> Shard:
        """Return the inputs and targets of one agent."""
        i = self.agents.index(agent)
        start, size = (int(t[i]) for t in (self.sampler.offsets, self.sampler.sizes))
        rows = torch.arange(start, start + size, device=self.samples.targets.device)
        part = self.samples.take(rows)
        return part.inputs, part.targets

    def draw(self, k: int | Tensor, size: int, stream: int) -> Samples:
        """Draw the minibatch of iteration k for every agent."""
        return self.samples.take(self.sampler.indices(k, size, stream))

    def first(self, agents: int, samples: int) -> Samples:
        """Return the very first sample, as a batch of this many agents and samples."""
        device = self.samples.targets.device
        rows = torch.zeros(agents, samples, dtype=torch.int64, device=device)
        return self.samples.take(rows)

    def sweep(self, at_once: int) -> Iterator[tuple[Tensor, Samples, Tensor]]:
        """Walk over all samples once, at most `at_once` of them in one piece.

        Yields positions of agents ``[a]``, the same number of samples of each of them
        ``[a, m]``, and the share of its shard that this is, ``[a]``. Agents that have
        the same number of samples left go together.
        """
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
                    yield agents, self.samples.take(offsets[agents] + column), share


def agents_of(shards: Sequence[Shard] | Mapping[int, Shard]) -> tuple[int, ...]:
    """Return the ids of the agents that have a shard, ascending."""
    if not len(shards):
        raise InputError("LearningProblem: `shards` is empty; every agent needs one.")
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
