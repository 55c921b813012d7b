"""Prox-ED: proximal exact diffusion, also known as P2D2 and as NIDS with a prox."""

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.checks import require_step
from proxmesh.schedules import Power, Step, scheduled
from proxmesh.types import Cost, Network, Problem, StepBound

__all__ = ["ProxED", "ProxEDState"]


@final
@dataclass(frozen=True, slots=True)
class ProxEDState:
    """The state of Prox-ED after iteration k; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the models, out of the prox
    c: Tensor  # corrections, in units of a gradient; they sum to 0 over agents


@final
@dataclass(frozen=True, slots=True)
class ProxED:
    """Step along the corrected gradient, average half-way with the neighbors, prox.

    An iteration is, for every agent i at once::

        phi_i <- x_i - alpha (grad f_i(x_i; xi) + c_i)
        z_i   <- (phi_i + sum_j w_ij phi_j) / 2
        c_i   <- c_i + (phi_i - z_i) / alpha
        x_i   <- prox of alpha h at z_i

    The corrections take up the differences between the agents' gradients, so that the
    limit is exact at a constant step. Since they are in units of a gradient, alpha may
    change with k. For convex quadratic losses of smoothness L_f, ``alpha < 2 / L_f`` is
    stable on every graph, and no longer step is on any. Several local steps before the
    prox would bias the limit: there is no option for them.

    Cost of an iteration: 1 vector to each neighbor in 1 round, 1 minibatch gradient.

    Parameters
    ----------
    alpha
        Step size, a number or a schedule; by default ``0.5 / sqrt(k)``.

    Examples
    --------
    >>> ProxED(alpha=0.1).cost(1)
    Cost(vectors=1, rounds=1, gradients=1, batch=None)

    References
    ----------
    Alghunaim, Ryu, Yuan, Sayed: Decentralized proximal gradient algorithms with linear
    convergence rates, IEEE TAC 2021, arXiv:1909.06479.
    """

    alpha: Step = Power(0.5, -0.5)

    def __post_init__(self) -> None:
        require_step("ProxED", alpha=self.alpha)

    def init(self, x0: Tensor, problem: Problem, network: Network) -> ProxEDState:
        """Start at x0 with zero corrections; nothing is drawn or sent."""
        del problem
        require_fit(x0, network)
        return ProxEDState(k=torch.tensor(0), x=x0.clone(), c=torch.zeros_like(x0))

    def step(
        self, state: ProxEDState, problem: Problem, network: Network
    ) -> ProxEDState:
        """Make the next iterate."""
        s, k = state, state.k + 1
        alpha = scheduled(self.alpha)(k)
        phi = s.x - alpha * (problem.grad(s.x, problem.sample(k)) + s.c)
        apart = (phi - network.exchange(phi).mix()) / 2
        x = problem.prox(phi - apart, alpha)
        return ProxEDState(k=k, x=x, c=s.c + apart / alpha)

    def step_bound(self, k: int, degree: Any) -> StepBound:
        """The bound on the step that makes iterate k; see `StepBound`."""
        del degree
        alpha = float(scheduled(self.alpha)(k))
        return StepBound(1 / alpha, parameter="alpha", value=alpha)

    def cost(self, k: int) -> Cost:
        """One vector in one round, one gradient; `init` is free."""
        return Cost(1, 1, 1) if k else Cost(0, 0, 0)
