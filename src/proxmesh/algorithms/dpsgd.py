"""D-PSGD: decentralized stochastic gradient descent, with a prox added."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.checks import require_step
from proxmesh.schedules import Power, Step, scheduled
from proxmesh.types import Cost, Network, Problem

__all__ = ["DPSGD", "DPSGDState"]


@final
@dataclass(frozen=True, slots=True)
class DPSGDState:
    """The state of D-PSGD after iteration k."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the models, [n_local, p]


@final
@dataclass(frozen=True, slots=True)
class DPSGD:
    """Mix with the neighbors, then step along your own minibatch gradient.

    An iteration is, for every agent i at once::

        x_i <- prox of alpha h at sum_j w_ij x_j - alpha grad f_i(x_i; xi)

    The gradient is taken at the unmixed x_i, so the exchange hides behind it. The prox
    is an addition to the paper (``prox=False`` leaves it out, and h with it). Under
    heterogeneous data a constant alpha leaves a bias, which nothing corrects.

    Cost of an iteration: 1 vector to each neighbor in 1 round, 1 minibatch gradient.

    Parameters
    ----------
    alpha
        Step size, a number or a schedule; by default ``0.5 / sqrt(k)``.
    prox
        Whether to apply the prox of h. False: h is ignored.

    Examples
    --------
    >>> DPSGD(alpha=0.1).cost(1)
    Cost(vectors=1, rounds=1, gradients=1, batch=None)

    References
    ----------
    Lian, Zhang, Zhang, Hsieh, Zhang, Liu: Can Decentralized Algorithms Outperform
    Centralized Algorithms?, NeurIPS 2017, arXiv:1705.09056.
    """

    alpha: Step = Power(0.5, -0.5)
    prox: bool = True

    def __post_init__(self) -> None:
        require_step("DPSGD", alpha=self.alpha)

    def init(self, x0: Tensor, problem: Problem, network: Network) -> DPSGDState:
        """Start at x0; nothing is drawn or sent."""
        del problem
        require_fit(x0, network)
        return DPSGDState(k=torch.tensor(0), x=x0.clone())

    def step(self, state: DPSGDState, problem: Problem, network: Network) -> DPSGDState:
        """Make the next iterate."""
        s, k = state, state.k + 1
        alpha = scheduled(self.alpha)(k)
        sent = network.exchange(s.x)
        g = problem.grad(s.x, problem.sample(k))
        x = sent.mix() - alpha * g
        return DPSGDState(k=k, x=problem.prox(x, alpha) if self.prox else x)

    def cost(self, k: int) -> Cost:
        """One vector in one round, one gradient; `init` is free."""
        return Cost(1, 1, 1, overlaps=True) if k else Cost(0, 0, 0)
