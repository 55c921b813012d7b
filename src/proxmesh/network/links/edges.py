"""The directed edges of this process's agents, and sums over them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from proxmesh.hashing import MASK, derived_seed, drawn, scrambled
from proxmesh.network.agent_matrix import sparse_product

__all__ = ["Draws", "LocalEdges"]

NEIGHBOR_APART = 0x85EBCA6B
DENSE_UP_TO = 4096  # entries of a matrix from edges to agents


@final
class LocalEdges:
    """Edge e leads from agent ``agent[e]``, which lives here, to ``neighbor[e]``.

    They are sorted by agent and then by neighbor, so that an agent's edges lie one
    after another, whichever process holds it.

    Parameters
    ----------
    world
        The engine: its graph, agents, ghosts and degrees.
    """

    def __init__(self, world: Any) -> None:
        graph, like = world.graph, world.degree
        adjacency = graph.adjacency[list(world.agents)].sorted_indices()
        place = {a: i for i, a in enumerate((*world.agents, *world.ghosts))}
        degrees = np.diff(adjacency.indptr)
        self.device, self.dtype = like.device, like.dtype
        self.n_local, self.n_seen = len(world.agents), len(place)
        self.ids = torch.tensor(list(place), device=self.device)
        neighbors = [int(j) for j in adjacency.indices]
        self.own = torch.from_numpy(np.repeat(np.arange(self.n_local), degrees))
        self.own = self.own.to(self.device)
        self.other = torch.tensor([place[j] for j in neighbors], dtype=torch.int64)
        self.other = self.other.to(self.device)
        self.agent, self.neighbor = self.ids[self.own], self.ids[self.other]
        self.starts = torch.from_numpy(adjacency.indptr.astype(np.int64))
        self.starts = self.starts.to(self.device)
        everyone = torch.from_numpy(graph.degrees).to(self.device, self.dtype)
        largest = torch.maximum(everyone[self.agent], everyone[self.neighbor])
        self.mixing = 1 / (1 + largest)  # Metropolis weights
        self._is_dense = isinstance(graph.laplacian, np.ndarray)

    def __len__(self) -> int:
        return len(self.own)

    def near(self, rows: Tensor) -> Tensor:
        """What each edge's own agent has, ``[edges, ...]``."""
        return rows.index_select(0, self.own)  # what compilers take, unlike rows[...]

    def far(self, rows: Tensor) -> Tensor:
        """What each edge's neighbor has, of the rows of all that are seen here."""
        return rows.index_select(0, self.other)

    def weighted(self, rows: Tensor, weights: Tensor) -> Tensor:
        """Row i: ``sum_j weights_ij (x_i - x_j)``.

        Parameters
        ----------
        rows
            Of all agents that are seen here, ours first.
        weights
            Of the edges.
        """
        near = (rows - rows[:1]).flatten(1)  # small numbers have small rounding errors
        if self._is_dense:
            matrix = torch.zeros(
                self.n_local * self.n_seen, dtype=weights.dtype, device=self.device
            ).scatter(0, self.own * self.n_seen + self.other, weights)
            matrix = matrix.view(self.n_local, self.n_seen)
            sums, total = matrix @ near, matrix.sum(1)
        else:
            sums = sparse_product(self.starts, self.other, weights, near)
            total = self.per_agent(weights)
        found = total[:, None] * near[: self.n_local] - sums
        return found.view(self.n_local, *rows.shape[1:])

    def per_agent(self, values: Tensor) -> Tensor:
        """Row i: the sum of what agent i's edges have, ``[n_local, ...]``."""
        if values.ndim == 1:  # weights that follow from k: for many k at once
            empty = torch.zeros(self.n_local, dtype=values.dtype, device=self.device)
            return empty.scatter_add(0, self.own, values)
        flat = values.view(len(self), -1)
        if self.n_local * len(self) <= DENSE_UP_TO:
            sums = self._incidence.to(flat.dtype) @ flat
        else:
            ones = torch.ones(len(self), dtype=flat.dtype, device=self.device)
            sums = sparse_product(self.starts, self._places, ones, flat)
        return sums.view(self.n_local, *values.shape[1:])

    @cached_property
    def turned(self) -> Tensor | None:
        """Each edge's other direction, where all agents live here; else None."""
        if self.n_seen > self.n_local:
            return None
        ends = list(zip(self.agent.tolist(), self.neighbor.tolist(), strict=True))
        place = {end: e for e, end in enumerate(ends)}
        return torch.tensor([place[j, i] for i, j in ends], device=self.device)

    @cached_property
    def _incidence(self) -> Tensor:
        agents = torch.arange(self.n_local, device=self.device)[:, None]
        return (self.own[None] == agents).to(self.dtype)

    @cached_property
    def _places(self) -> Tensor:
        return torch.arange(len(self), device=self.device)


@final
@dataclass(frozen=True, slots=True)
class Draws:
    """Random numbers of one model: a hash of its seed, of who it is about, and of k."""

    keys: Tensor  # one for each edge, or agent

    @staticmethod
    def over(seed: int, purpose: str, index: int, *ids: Tensor) -> "Draws":
        """For these ids, of which the second is the far end of an edge."""
        start = torch.tensor(derived_seed(seed, "links", purpose, index))
        keys = scrambled(start.to(ids[0].device)).expand(len(ids[0]))
        for ends in ids:
            keys = scrambled((scrambled(keys ^ ends) + ends * NEIGHBOR_APART) & MASK)
        return Draws(keys)

    def below(self, k: Tensor, slot: int, chance: float) -> Tensor:
        """Whether each is drawn in iteration k, with this probability."""
        return self.at(k, slot) < round(chance * (MASK + 1))

    def at(self, k: Any, slot: int) -> Tensor:
        """32 random bits each."""
        key = scrambled(self.keys ^ k)
        return drawn(key, torch.full_like(key, slot))

    def up_to(self, largest: int) -> Tensor:
        """A whole number from 0 to the largest, each; the same at every k."""
        return (drawn(self.keys, torch.zeros_like(self.keys)) * (largest + 1)) >> 32
