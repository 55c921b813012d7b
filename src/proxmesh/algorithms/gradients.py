"""What recursive gradient estimators share."""

from typing import Any

from torch import Tensor

from proxmesh.types import Batch

__all__ = ["grad_pair", "storm_weight"]


def grad_pair(
    problem: Any, x: Tensor, x_old: Tensor, batch: Batch
) -> tuple[Tensor, Tensor]:
    """Gradients on one batch at two points: one pass where the problem offers it."""
    if hasattr(problem, "grad_pair"):
        pair: tuple[Tensor, Tensor] = problem.grad_pair(x, x_old, batch)
        return pair
    return problem.grad(x, batch), problem.grad(x_old, batch)


def storm_weight(a: Any, a_next: Any, beta: float) -> Any:
    """The momentum of these steps: ``min(1, 1 - a_next/a + beta a_next^2)``.

    Examples
    --------
    >>> storm_weight(0.5, 0.25, beta=4.0)
    0.75
    """
    b = 1 - a_next / a + beta * a_next**2
    return b.clamp(max=1) if isinstance(b, Tensor) else min(1.0, b)
