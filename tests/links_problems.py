"""A small lasso, and iterates over imperfect links."""

import dataclasses
from typing import Any

import torch
from torch import Tensor
from zoo import Quadratics

import proxmesh as pm


def advanced(links: list[Any], algorithm: Any, problem: Any, graph: Any, k: int) -> Any:
    world = pm.connect(graph, links=links)
    state = world.start(algorithm, problem.x0, problem)
    for _ in range(k):
        state = world.advance(algorithm, state, problem)
    return state


@dataclasses.dataclass
class Lasso:
    """A small lasso with a start, for the literal references."""

    quadratics: Quadratics
    x0: Tensor

    @staticmethod
    def of(n: int, p: int = 3) -> "Lasso":
        start = torch.randn(n, p, generator=torch.Generator().manual_seed(n))
        return Lasso(Quadratics.random(n, p, 0.1, seed=3), start)

    def sample(self, k: Any, size: int | None = None, stream: int = 0) -> None:
        del k, size, stream

    def grad(self, x: Tensor, batch: None) -> Tensor:
        del batch
        return self.quadratics.full_grad(x)

    def prox(self, z: Tensor, step: Any) -> Tensor:
        return self.quadratics.prox(z, step)

    def one(self, i: int, row: Any) -> Any:
        rows = torch.zeros(len(self.x0), len(row))
        rows[i] = torch.from_numpy(row)
        return self.quadratics.full_grad(rows)[i].numpy()
