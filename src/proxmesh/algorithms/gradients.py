"""Gradients beyond `Problem.grad`, where a problem offers them."""

from typing import Any

from torch import Tensor

from proxmesh.errors import InputError
from proxmesh.types import (
    Batch,
    Problem,
    has_full_gradient,
    has_pairs,
    has_subgradient,
)

__all__ = ["full_gradient", "grad_pair", "lacking", "storm_weight", "subgradient"]


def grad_pair(
    problem: Problem, x: Tensor, x_old: Tensor, batch: Batch
) -> tuple[Tensor, Tensor]:
    """Gradients on one batch at two points: one pass where the problem offers it."""
    if has_pairs(problem):
        return problem.grad_pair(x, x_old, batch)
    return problem.grad(x, batch), problem.grad(x_old, batch)


def full_gradient(who: str, problem: Problem, x: Tensor) -> Tensor:
    """Gradients over whole shards, for a method that cannot do without."""
    if not has_full_gradient(problem):
        raise lacking(who, problem, "full_grad")
    return problem.full_grad(x)


def subgradient(who: str, problem: Problem, x: Tensor) -> Tensor:
    """A subgradient of h, for a method that cannot do without."""
    if not has_subgradient(problem):
        raise lacking(who, problem, "subgrad")
    return problem.subgrad(x)


def lacking(who: str, problem: Problem, name: str) -> InputError:
    """The error for a problem without an optional method that a method needs."""
    return InputError(
        f"{who} needs `{name}`, which `{type(problem).__name__}` does not have. Add "
        "it, or choose another algorithm."
    )


def storm_weight(a: Any, a_next: Any, beta: float) -> Any:
    """The momentum of these steps: ``min(1, 1 - a_next/a + beta a_next^2)``.

    Examples
    --------
    >>> storm_weight(0.5, 0.25, beta=4.0)
    0.75
    """
    b = 1 - a_next / a + beta * a_next**2
    return b.clamp(max=1) if isinstance(b, Tensor) else min(1.0, b)
