"""Hessian-vector products: exact where second derivatives exist, else differences."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

from proxmesh.types import Problem, has_hessian, has_hessian_of_one

__all__ = ["Product", "Products"]

Product: TypeAlias = Callable[[Tensor], Tensor]
"""Rows in, rows out: each multiplied by the Hessian of its own agent's loss."""


@final
class Products:
    """Products with the Hessians of all local agents' losses at one point.

    Where an operation of the model has no second derivative, and for problems without
    the method ``hvp``, central differences of gradients take their place.

    Parameters
    ----------
    problem
        This process's part.
    x
        Rows at which to look.

    Examples
    --------
    >>> import proxmesh as pm
    >>> shards = [(torch.ones(4, 1), 2 * torch.ones(4, 1))] * 2
    >>> problem = pm.LearningProblem(
    ...     torch.nn.Linear(1, 1, bias=False), torch.nn.functional.mse_loss, shards,
    ...     batch_size=2)
    >>> products = Products(problem, problem.x0())
    >>> products(torch.ones(2, 1), problem.sample(0))  # the loss is (x - 2)^2
    tensor([[2.],
            [2.]])
    """

    def __init__(self, problem: Problem, x: Tensor) -> None:
        self._problem = problem
        self._x = x
        self._differentiable = True  # until it is found not to be

    def __call__(self, u: Tensor, batch: Any) -> Tensor:
        """Row i: Hessian of f_i at x_i on the batch, times u_i."""
        if self._differentiable and has_hessian(self._problem):
            try:
                return self._problem.hvp(self._x, u, batch)
            except (RuntimeError, NotImplementedError):
                # An operation without a second derivative; whatever else is wrong
                # is wrong with gradients too, and said by them.
                self._differentiable = False
        return self._differences(u, batch)

    def use_differences(self) -> None:
        """Take differences of gradients from now on."""
        self._differentiable = False

    def agent_by_agent(
        self, *batches: Any
    ) -> Iterator[tuple[slice, tuple[Callable[[], Product], ...]]]:
        """For each agent its row, and for each batch what makes its `Product`.

        A product is made when it is needed and holds what it needs in memory as long
        as it is held itself. A problem without the method ``hessian`` hands out all
        agents at once.
        """
        problem, x = self._problem, self._x
        if self._differentiable and has_hessian_of_one(problem):
            for i in range(len(x)):
                made = (self._of_one(i, batch) for batch in batches)
                yield slice(i, i + 1), tuple(made)
            return
        yield slice(None), tuple(self._of_all(batch) for batch in batches)

    def _of_one(self, i: int, batch: Any) -> Callable[[], Product]:
        problem: Any = self._problem

        def make() -> Product:
            times = problem.hessian(self._x, i, batch)
            return lambda u: times(u[0])[None]

        return make

    def _of_all(self, batch: Any) -> Callable[[], Product]:
        # A copy: what the user's own `hvp` returns may be held elsewhere.
        return lambda: lambda u: self(u, batch).clone()

    def _differences(self, u: Tensor, batch: Any) -> Tensor:
        x, problem = self._x, self._problem
        far = torch.finfo(x.dtype).eps ** (1 / 3) * (1 + x.norm(dim=1, keepdim=True))
        forth, back = problem.grad(x + far * u, batch), problem.grad(x - far * u, batch)
        difference: Tensor = (forth - back) / (2 * far)
        return difference
