"""DSGT: decentralized stochastic gradient tracking (GT-DSGD)."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.algorithms.gradients import subgradient
from proxmesh.checks import require_step
from proxmesh.schedules import Power, Step, scheduled
from proxmesh.types import Cost, Network, Problem

__all__ = ["DSGT", "DSGTState"]


@final
@dataclass(frozen=True, slots=True)
class DSGTState:
    """The state of DSGT after iteration k; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the models
    y: Tensor  # trackers of the mean gradient: their sum is that of g
    g: Tensor  # last gradients


@final
@dataclass(frozen=True, slots=True)
class DSGT:
    """Track the mean gradient, step along the tracker, mix both.

    An iteration is, for every agent i at once::

        g_i <- grad f_i(x_i; xi) + a subgradient of h at x_i
        y_i <- sum_j w_ij (y_j + g_j new - g_j old)
        x_i <- sum_j w_ij (x_j - alpha y_j)

    The method is made for smooth objectives; h enters through a subgradient, so x is
    not sparse, and an h without one (a constraint) is refused. With a prox in the last
    line it would be `ProxGT` with K = 1.

    Cost of an iteration: 2 vectors to each neighbor in 2 rounds, 1 minibatch gradient.

    Parameters
    ----------
    alpha
        Step size, a number or a schedule; by default ``0.125 / sqrt(k)``.

    Examples
    --------
    >>> DSGT(alpha=0.1).cost(1)
    Cost(vectors=2, rounds=2, gradients=1, batch=None)

    References
    ----------
    Xin, Khan, Kar: An improved convergence analysis for decentralized online stochastic
    non-convex optimization, IEEE TSP 2021, arXiv:2008.04195.
    """

    alpha: Step = Power(0.125, -0.5)

    def __post_init__(self) -> None:
        require_step("DSGT", alpha=self.alpha)

    def init(self, x0: Tensor, problem: Problem, network: Network) -> DSGTState:
        """Start at x0 with trackers and last gradients at 0."""
        require_fit(x0, network)
        subgradient("DSGT", problem, x0)  # a constraint has none: found out here
        zero = torch.zeros_like(x0)
        return DSGTState(k=torch.tensor(0), x=x0.clone(), y=zero, g=zero.clone())

    def step(self, state: DSGTState, problem: Problem, network: Network) -> DSGTState:
        """Make the next iterate."""
        s, k = state, state.k + 1
        alpha = scheduled(self.alpha)(k)
        g = problem.grad(s.x, problem.sample(k)) + subgradient("DSGT", problem, s.x)
        y = network.exchange(s.y + g - s.g).mix()
        x = network.exchange(s.x - alpha * y).mix()
        return DSGTState(k=k, x=x, y=y, g=g)

    def cost(self, k: int) -> Cost:
        """Two vectors, the second after the first; `init` is free."""
        return Cost(vectors=2, rounds=2, gradients=1) if k else Cost(0, 0, 0)
