"""How sharply the losses curve, from a few Hessian-vector products.

Each agent looks only at its own loss: nothing is sent.
"""

import time
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from proxmesh.checks import require_whole
from proxmesh.errors import InputError
from proxmesh.theory.lanczos import FIRST_PRODUCTS, extremes, extremes_in_few_rows
from proxmesh.theory.products import Products
from proxmesh.types import Problem, World, facts_of

__all__ = [
    "NotFiniteError",
    "Smoothness",
    "estimate_smoothness",
    "is_large",
    "require_finite",
]

PRODUCTS = 8  # of the Lanczos iteration: the extremes of a spectrum settle first
SAMPLES = 128  # per agent, on which curvature is taken
BATCHES = 4  # minibatches on which its noise is taken
STREAM = 7  # of the sampler: batches that no iteration draws
LARGE = 2**25  # numbers in the rows of all agents, from which on few rows must do
FEWER_PRODUCTS = 4  # then, of the Lanczos iteration; two more make it a good start
FEWEST_SAMPLES = 16  # then, or half a minibatch
DOUBLE = torch.float64


class NotFiniteError(InputError):
    """A loss has no finite curvature or gradient where it was looked at."""


@final
@dataclass(frozen=True, slots=True)
class Smoothness:
    """Curvature of each local agent's loss at one point; tensors are ``[n_local]``.

    Attributes
    ----------
    upper
        Largest eigenvalue of the Hessian H, at least 0.
    lower
        Smallest eigenvalue; negative where the loss is not convex.
    mean_square
        ``sqrt(E |H_xi u|^2)`` over minibatches xi, where u is the sharpest direction.
    noise
        ``sqrt(E |H_xi u - H u|^2)``: the error that STORM's correction leaves.
    seconds
        Time that the estimate took.
    products
        Hessian-vector products per agent.

    Examples
    --------
    >>> at = torch.tensor([1.0, 2.0])
    >>> print(Smoothness(at, -at, at, 0 * at, seconds=0.1, products=12))
    smoothness 2, lowest curvature -2 (12 Hessian-vector products, 0.1 s)
    """

    upper: Tensor
    lower: Tensor
    mean_square: Tensor
    noise: Tensor
    seconds: float
    products: int

    def gathered(self, world: World) -> tuple[Tensor, Tensor]:
        """Upper and lower curvature of every agent of the network, ``[n]`` each.

        Parameters
        ----------
        world
            The network of the run. Every process calls this: it takes a reduction.
        """
        both = torch.stack([self.upper, self.lower], dim=1)
        if len(both) == world.n:
            return self.upper, self.lower
        spread = both.new_zeros(len(both), world.n, 2)
        spread[torch.arange(len(both)), list(world.agents)] = both
        return tuple(world.reduce(spread, "sum").unbind(1))  # type: ignore[return-value]

    def __str__(self) -> str:
        return (
            f"smoothness {float(self.upper.max()):.3g}, lowest curvature "
            f"{float(self.lower.min()):.2g} ({self.products} Hessian-vector products, "
            f"{self.seconds:.2g} s)"
        )


def estimate_smoothness(
    problem: Problem,
    x: Tensor,
    *,
    products: int = PRODUCTS,
    samples: int = SAMPLES,
    batches: int = BATCHES,
) -> Smoothness:
    """Estimate the curvature of every local agent's loss at its row of x.

    A Lanczos iteration on one batch approaches both ends of every Hessian's spectrum
    from inside; a few minibatches tell how much the sharpest curvature varies.

    Where the rows of all agents together hold more than 2^25 numbers, agents are looked
    at one after the other, on half a minibatch and in few rows of memory. `products`
    and `samples` are then ceilings, and the noise comes from one other batch.

    Parameters
    ----------
    problem
        This process's part of the problem. Without the optional method
        ``hvp(x, u, batch)``, or if the model has no second derivative, differences of
        gradients take its place.
    x
        Rows at which to look, ``[n_local, p]``; usually the initial ones.
    products
        Steps of the Lanczos iteration, one Hessian-vector product each.
    samples
        Samples per agent on which curvature is taken.
    batches
        Minibatches of the problem's own size on which its noise is taken, at least 2.

    Examples
    --------
    >>> import proxmesh as pm
    >>> data = pm.datasets.breast_cancer()
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), torch.nn.functional.cross_entropy, data.split(4)
    ... )
    >>> found = estimate_smoothness(problem, problem.x0())
    >>> bool((found.upper > 1).all()), bool((found.lower > -1e-3).all())
    (True, True)
    """
    require_whole("estimate_smoothness", 1, products=products, samples=samples)
    require_whole("estimate_smoothness", 2, batches=batches)
    begin = time.perf_counter()
    products_at = Products(problem, x)
    if is_large(problem, x):
        steps = min(products, FEWER_PRODUCTS)
        return _of_large_rows(products_at, problem, x, steps, samples)
    batch = problem.sample(0, size=samples, stream=STREAM)
    upper, lower, sharpest = extremes(
        lambda u: products_at(u, batch), _directions(x), products
    )
    found = torch.stack(
        [
            products_at(sharpest, problem.sample(j, stream=STREAM))
            for j in range(1, batches + 1)
        ]
    ).to(DOUBLE)
    spread = (found - found.mean(0)).square().sum(2).sum(0) / (batches - 1)
    require_finite(problem, upper, lower, spread)
    noticed = torch.finfo(x.dtype).eps ** 0.5 * upper  # less is rounding
    return Smoothness(
        upper=upper.clamp_min(0),
        lower=torch.where(lower.abs() <= noticed, 0, lower),
        mean_square=found.square().sum(2).mean(0).sqrt(),
        noise=spread.sqrt(),
        seconds=time.perf_counter() - begin,
        products=products + batches,
    )


def is_large(problem: Problem, x: Tensor) -> bool:
    """Whether rows are so large that a dozen more would be too many.

    Every rank must say the same, so it goes by the agents of the whole network.
    """
    return (facts_of(problem).num_agents or len(x)) * x.shape[1] > LARGE


def _of_large_rows(
    products_at: Products, problem: Problem, x: Tensor, steps: int, samples: int
) -> Smoothness:
    """The same from few rows and samples: agents one by one, two small batches."""
    begin = time.perf_counter()
    size = facts_of(problem).batch_size or samples
    few = min(samples, max(FEWEST_SAMPLES, size // 2))
    batches = [problem.sample(j, size=few, stream=STREAM) for j in (0, 1)]
    start = _directions(x)

    def look() -> list[tuple[Tensor, ...]]:
        return [
            extremes_in_few_rows(one, other, start[rows], steps)
            for rows, (one, other) in products_at.agent_by_agent(*batches)
        ]

    try:
        found = look()
    except (RuntimeError, NotImplementedError):
        products_at.use_differences()
        found = look()
    upper, lower, square, spread = map(torch.cat, zip(*found, strict=True))
    require_finite(problem, upper, lower, spread)
    noticed = torch.finfo(x.dtype).eps ** 0.5 * upper
    of_a_minibatch = spread * few / size  # the noise of a mean falls with its samples
    return Smoothness(
        upper=upper.clamp_min(0),
        lower=torch.where(lower.abs() <= noticed, 0, lower),
        mean_square=(square - spread + of_a_minibatch).clamp_min(0).sqrt(),
        noise=of_a_minibatch.sqrt(),
        seconds=time.perf_counter() - begin,
        products=steps + FIRST_PRODUCTS + 1,
    )


def _directions(x: Tensor) -> Tensor:
    """The same random unit direction for every agent, on every engine."""
    draw = torch.Generator().manual_seed(0)
    u = torch.randn(x.shape[1], generator=draw, dtype=DOUBLE).to(x)
    directions: Tensor = (u / u.norm()).expand_as(x)
    return directions


def require_finite(problem: Problem, *found: Tensor) -> None:
    """Name the first local agent whose loss has no finite curvature or gradient."""
    for values in found:
        sick = (~values.isfinite()).nonzero()
        if len(sick):
            agents = getattr(problem, "agents", range(len(values)))
            raise NotFiniteError(
                f"the curvature of agent {agents[int(sick[0])]}'s loss at the initial "
                "model is not finite. Check its data and the initial values, or give "
                "`c_rho`, `c_eta` and `c_a`."
            )
