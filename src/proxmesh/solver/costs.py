"""Adds up what an algorithm declares for each iteration."""

import math
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.types import (
    Algorithm,
    Cost,
    Linked,
    Problem,
    World,
    facts_of,
    has_links,
)

__all__ = ["Costs"]


@final
@dataclass(slots=True)
class Costs:
    """Gradients and traffic so far; a pure function of k, so a resumed run agrees."""

    algorithm: Algorithm[Any]
    batch_size: int
    shard_size: float  # mean over agents
    entries: int = 0  # of one vector
    entry_bytes: int = 0
    links: int = 0  # directed edges
    gradients: int = 0
    vectors: int = 0
    bytes: int = 0  # over all edges, both directions
    counted: int = -1  # the last iteration
    imperfect: Linked | None = None  # links that change what a vector takes

    @staticmethod
    def up_to(
        k: int, algorithm: Algorithm[Any], problem: Problem, world: World, x: Tensor
    ) -> "Costs":
        """Return what it has cost after iteration k."""
        costs = Costs(
            algorithm=algorithm,
            batch_size=facts_of(problem).batch_size or 1,
            shard_size=_mean_shard(problem, world, len(x)),
            entries=x.shape[1],
            entry_bytes=x.element_size(),
            links=world.num_links,
            imperfect=world if has_links(world) else None,
        )
        costs.catch_up(k)
        return costs

    def add(self, k: int) -> None:
        """Count iteration k."""
        cost = self.algorithm.cost(k)
        size = self.shard_size if cost.batch == "shard" else cost.batch
        self.gradients += round(cost.gradients * (size or self.batch_size))
        if cost.look is not None:
            self.gradients += cost.look.gradients * self.batch_size
            self.gradients += cost.look.sample_gradients
        self.vectors += cost.vectors
        if self.links:
            self.bytes += cost.vectors * self._bytes_of(cost, k) * self.links
        self.counted = k

    def count_anew(self, entry_bytes: int) -> None:
        """Count what was counted again, with entries of so many bytes."""
        last, self.entry_bytes, self.counted = self.counted, entry_bytes, -1
        self.gradients = self.vectors = self.bytes = 0
        self.catch_up(last)

    def catch_up(self, k: int) -> None:
        """Count every iteration up to k that is not yet."""
        for iteration in range(self.counted + 1, k + 1):
            self.add(iteration)

    def bits_of(self, cost: Cost) -> float:
        """Of one vector as the method sends it."""
        width = 8 * self.entry_bytes
        if cost.compressor is not None:
            return float(cost.compressor.message_bits(self.entries, width))
        return float(self.entries * width)

    def _bytes_of(self, cost: Cost, k: int) -> int:
        """Of one vector, as it is sent in iteration k."""
        width = 8 * self.entry_bytes
        if cost.compressor is not None:
            bits = cost.compressor.message_bits(self.entries, width)
        elif self.imperfect is not None:
            bits = self.imperfect.message_bits(k, self.entries, width)
        else:
            return self.entries * self.entry_bytes
        return math.ceil(bits / 8)

    def row(self) -> dict[str, float]:
        """The columns of the history that it keeps."""
        return {
            "gradients": self.gradients,
            "vectors_sent": self.vectors,
            "bytes_sent": self.bytes,
        }


def _mean_shard(problem: Problem, world: World, agents: int) -> float:
    samples = facts_of(problem).num_samples or agents
    counts = torch.full((agents,), samples / agents, dtype=torch.float64)
    return world.reduce(counts, "mean").item()
