"""How sharply the losses curve, from a few Hessian-vector products.

Each agent looks only at its own loss: nothing is sent.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.checks import require_whole
from proxmesh.errors import InputError
from proxmesh.types import Problem, World, has_hessian

__all__ = ["Smoothness", "estimate_smoothness", "require_finite"]

PRODUCTS = 8  # of the Lanczos iteration: the extremes of a spectrum settle first
SAMPLES = 128  # per agent, on which curvature is taken
BATCHES = 4  # minibatches on which its noise is taken
STREAM = 7  # of the sampler: batches that no iteration draws
DOUBLE = torch.float64


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

    Parameters
    ----------
    problem
        This process's part of the problem. Without the optional method
        ``hvp(x, u, batch)``, differences of gradients take its place.
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
    batch = problem.sample(0, size=samples, stream=STREAM)
    upper, lower, sharpest = _extremes(
        lambda u: _product(problem, x, u, batch), _directions(x), products
    )
    found = torch.stack(
        [
            _product(problem, x, sharpest, problem.sample(j, stream=STREAM))
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


def _product(problem: Problem, x: Tensor, u: Tensor, batch: Any) -> Tensor:
    """Row i: Hessian of f_i at x_i on the batch, times u_i."""
    if has_hessian(problem):
        return problem.hvp(x, u, batch)
    far = torch.finfo(x.dtype).eps ** (1 / 3) * (1 + x.norm(dim=1, keepdim=True))
    forth, back = problem.grad(x + far * u, batch), problem.grad(x - far * u, batch)
    difference: Tensor = (forth - back) / (2 * far)
    return difference


def _directions(x: Tensor) -> Tensor:
    """The same random unit direction for every agent, on every engine."""
    draw = torch.Generator().manual_seed(0)
    u = torch.randn(x.shape[1], generator=draw, dtype=DOUBLE).to(x)
    directions: Tensor = (u / u.norm()).expand_as(x)
    return directions


def _extremes(
    product: Callable[[Tensor], Tensor], u: Tensor, products: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Largest and smallest Ritz value of every row, and the unit vector of the largest.

    Lanczos with full orthogonalization: all rows at once, each with its own matrix.
    """
    basis, diagonal, beside = [u], [], []
    for j in range(products):
        image = product(basis[-1])
        diagonal.append((image * basis[-1]).sum(1))
        for _ in range(2):  # twice is enough, for any rounding
            for q in basis:
                image = image - (image * q).sum(1, keepdim=True) * q
        length = image.norm(dim=1, keepdim=True)
        if j + 1 < products:
            # A row whose Krylov space is exhausted goes on with zeros.
            small = length <= 1e-6 * torch.stack(diagonal).abs().amax(0)[:, None]
            beside.append(torch.where(small, 0, length)[:, 0])
            basis.append(torch.where(small, 0, image / length))
    # Their Ritz values would be 0; the first one is between the ends of the spectrum.
    used = torch.stack(basis).abs().amax(2) > 0
    filled = torch.where(used, torch.stack(diagonal), diagonal[0])
    inner = torch.diag_embed(filled.T.to(DOUBLE))
    if beside:
        off = torch.stack(beside, 1).to(DOUBLE)
        inner = inner + torch.diag_embed(off, 1) + torch.diag_embed(off, -1)
    sick = ~inner.isfinite().flatten(1).all(1)
    inner[sick] = 0  # which no decomposition takes
    values, vectors = torch.linalg.eigh(inner)
    values[sick] = torch.nan
    weights = vectors[:, :, -1].to(u.dtype)
    sharpest = torch.einsum("nj,jnp->np", weights, torch.stack(basis))
    return values[:, -1], values[:, 0], sharpest


def require_finite(problem: Problem, *found: Tensor) -> None:
    """Name the first local agent whose loss has no finite curvature or gradient."""
    for values in found:
        sick = (~values.isfinite()).nonzero()
        if len(sick):
            agents = getattr(problem, "agents", range(len(values)))
            raise InputError(
                f"the curvature of agent {agents[int(sick[0])]}'s loss at the initial "
                "model is not finite. Check its data and the initial values, or give "
                "`c_rho`, `c_eta` and `c_a`."
            )
