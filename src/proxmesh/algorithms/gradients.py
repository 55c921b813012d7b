"""Gradients that recursive estimators ask for together."""

from typing import Any

from torch import Tensor

from proxmesh.types import Batch

__all__ = ["grad_pair"]


def grad_pair(
    problem: Any, x: Tensor, x_old: Tensor, batch: Batch
) -> tuple[Tensor, Tensor]:
    """Gradients on one batch at two points: one pass where the problem offers it."""
    if hasattr(problem, "grad_pair"):
        pair: tuple[Tensor, Tensor] = problem.grad_pair(x, x_old, batch)
        return pair
    return problem.grad(x, batch), problem.grad(x_old, batch)
