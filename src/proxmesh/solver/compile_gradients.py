"""Compiled gradients for engines whose steps send messages, which no compiler takes.

Drawing a batch, gathering it and taking its gradients is a pure function of the models
and k, like a step; so it is compiled as if it were one.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

from torch import Tensor

from proxmesh.algorithms.gradients import grad_pair
from proxmesh.solver.compile_step import CompiledStep
from proxmesh.types import Algorithm, Problem, World

__all__ = ["CompiledGradients"]


@final
@dataclass(frozen=True, slots=True)
class One:
    """A model on its way in, its gradient on its way out."""

    k: Tensor
    x: Tensor


@final
@dataclass(frozen=True, slots=True)
class Pair:
    """Two models on their way in, their gradients on one batch on their way out."""

    k: Tensor
    x: Tensor
    y: Tensor


@final
class OneGradient:
    """A step that is nothing but a gradient."""

    def step(self, state: One, problem: Problem, network: Any) -> One:
        """Evaluate on the batch of the next k."""
        del network
        k = state.k + 1
        return One(k, problem.grad(state.x, problem.sample(k)))


@final
class TwoGradients:
    """A step that is nothing but two gradients on one batch."""

    def step(self, state: Pair, problem: Problem, network: Any) -> Pair:
        """Evaluate both on the batch of the next k."""
        del network
        k = state.k + 1
        return Pair(k, *grad_pair(problem, state.x, state.y, problem.sample(k)))


class Draw(NamedTuple):
    """The plain batch of iteration k, drawn where it is used."""

    k: Tensor


@final
class CompiledGradients:
    """A problem whose minibatch gradients are compiled; all else is as it was."""

    def __init__(
        self, algorithm: Algorithm[Any], problem: Problem, world: World, state: Any
    ) -> None:
        self._problem = problem
        self._world = world
        self._one: CompiledStep | None = None
        self._pair: CompiledStep | None = None
        rows = state.x.clone()
        if algorithm.cost(1).gradients == 1:  # compile now what the run will need
            made = self._one = self._made(OneGradient(), One(state.k, rows))
        else:
            made = self._pair = self._made(TwoGradients(), Pair(state.k, state.x, rows))
        self.seconds = made.seconds

    def _made(self, step: Any, example: One | Pair) -> CompiledStep:
        return CompiledStep(step, self._problem, self._world, example)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)

    def sample(self, k: Any, size: int | None = None, stream: int = 0) -> Any:
        """Put off the usual draw; others are made now."""
        if size is None and stream == 0 and isinstance(k, Tensor):
            return Draw(k)
        return self._problem.sample(k, size=size, stream=stream)

    def grad(self, x: Tensor, batch: Any) -> Tensor:
        """Row i: gradient of f_i at x_i."""
        if not isinstance(batch, Draw):
            found: Tensor = self._problem.grad(x, batch)
            return found
        before = One(batch.k - 1, x)
        if self._one is None:
            self._one = self._made(OneGradient(), before)
        gradient: Tensor = self._one(before).x
        return gradient

    def grad_pair(self, x: Tensor, x_old: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        """Both gradients of a recursive estimator."""
        if not isinstance(batch, Draw):
            return grad_pair(self._problem, x, x_old, batch)
        before = Pair(batch.k - 1, x, x_old)
        if self._pair is None:
            self._pair = self._made(TwoGradients(), before)
        both = self._pair(before)
        return both.x, both.y
