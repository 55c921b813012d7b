"""Adds up what an algorithm declares for each iteration."""

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.types import Algorithm, World

__all__ = ["Ledger"]


@final
@dataclass(slots=True)
class Ledger:
    """Gradients and traffic so far; a pure function of k, so a resumed run agrees."""

    algorithm: Algorithm[Any]
    batch_size: int
    shard_size: float  # mean over agents
    vector_bytes: int  # of one vector over every directed edge
    gradients: int = 0
    vectors: int = 0

    @staticmethod
    def up_to(
        k: int, algorithm: Algorithm[Any], problem: Any, world: World, x: Tensor
    ) -> "Ledger":
        """Return the ledger after iteration k."""
        ledger = Ledger(
            algorithm=algorithm,
            batch_size=getattr(problem, "batch_size", 1),
            shard_size=_mean_shard(problem, world, len(x)),
            vector_bytes=x.shape[1] * x.element_size() * world.num_links,
        )
        for iteration in range(k + 1):
            ledger.add(iteration)
        return ledger

    def add(self, k: int) -> None:
        """Count iteration k."""
        cost = self.algorithm.cost(k)
        size = self.shard_size if cost.batch == "shard" else cost.batch
        self.gradients += round(cost.gradients * (size or self.batch_size))
        self.vectors += cost.vectors

    def row(self) -> dict[str, float]:
        """The columns of the history that it keeps."""
        return {
            "gradients": self.gradients,
            "vectors_sent": self.vectors,
            "bytes_sent": self.vectors * self.vector_bytes,
        }


def _mean_shard(problem: Any, world: World, agents: int) -> float:
    samples = getattr(problem, "num_samples", agents)
    counts = torch.full((agents,), samples / agents, dtype=torch.float64)
    return world.reduce(counts, "mean").item()
