"""DPGA, its smooth ancestor DLM and its stochastic form SDPGA."""

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.algorithms.gradients import subgradient
from proxmesh.checks import require_nonnegative, require_positive
from proxmesh.schedules import Power
from proxmesh.types import Cost, Network, Problem, StepBound, has_subgradient

__all__ = ["DPGA", "DPGAState"]


@final
@dataclass(frozen=True, slots=True)
class DPGAState:
    """The state of DPGA after iteration k; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the models, out of the prox
    p: Tensor  # duals up to iterate k - 1; they sum to 0 over agents


@final
@dataclass(frozen=True, slots=True)
class DPGA:
    """Linearized ADMM on the edges with a prox on x itself: degree-scaled local steps.

    The step that makes iterate k (k = 1, 2, ...) is, for every agent i at once::

        p_i   <- p_i - rho (L x)_i                    (from the second iteration on)
        eta_i  = smoothness + 2 rho d_i + growth sqrt(k - 1)
        x_i   <- prox of h/eta_i at
                 x_i - (grad f_i(x_i; xi) - p_i + rho (L x)_i) / eta_i

    where L is the Laplacian and d_i the degree. One exchange of x serves both lines and
    hides behind the gradient. x is exactly sparse under l1. Without its prox it is DLM,
    and h enters through a subgradient; with ``growth=1`` it is SDPGA, whose steps
    shrink for minibatches.

    A step reads the agent's own degree and no other fact about the graph. For constant
    rho and convex quadratic losses it is stable if and only if
    ``Q > H/2 + 3/4 rho L`` with ``Q = diag(eta_i)``, whatever the prox:
    ``eta_i > L_f/2 + 1.5 rho d_i`` suffices on every graph.

    Cost of an iteration: 1 vector to each neighbor in 1 round, 1 minibatch gradient.

    Parameters
    ----------
    rho
        Penalty on the disagreement between neighbors; it scales with the smoothness of
        the losses.
    smoothness
        L_i of the step. The published value is the Lipschitz constant of the agent's
        gradient; half of the largest one is enough for stability.
    growth
        0: constant steps (DPGA, DLM). 1: SDPGA.
    prox
        Whether h enters through its prox. False: through a subgradient, where the
        problem has one.

    Examples
    --------
    >>> DPGA(rho=1.0, smoothness=2.0).cost(1)
    Cost(vectors=1, rounds=1, gradients=1, batch=None)
    >>> DPGA(rho=0.0)
    Traceback (most recent call last):
    proxmesh.errors.InputError: DPGA: `rho` must be positive and finite, got 0.0.

    References
    ----------
    Aybat, Wang, Lin, Ma: Distributed linearized alternating direction method of
    multipliers for composite convex consensus optimization, IEEE TAC 2018,
    arXiv:1512.08122; without the prox: Ling, Shi, Wu, Ribeiro: DLM: Decentralized
    linearized alternating direction method of multipliers, IEEE TSP 2015.
    """

    rho: float = 0.25
    smoothness: float = 2.0
    growth: float = 0.0
    prox: bool = True

    def __post_init__(self) -> None:
        require_positive("DPGA", rho=self.rho, smoothness=self.smoothness)
        require_nonnegative("DPGA", growth=self.growth)

    def init(self, x0: Tensor, problem: Problem, network: Network) -> DPGAState:
        """Start at x0 with zero duals; nothing is drawn or sent."""
        require_fit(x0, network)
        if not self.prox and has_subgradient(problem):
            subgradient("DPGA", problem, x0)  # a constraint has none: found out here
        return DPGAState(k=torch.tensor(0), x=x0.clone(), p=torch.zeros_like(x0))

    def step(self, state: DPGAState, problem: Problem, network: Network) -> DPGAState:
        """Make the next iterate; the first one leaves the duals at 0."""
        s, k = state, state.k + 1
        sent = network.exchange(s.x)  # travels while the gradient is computed
        g = problem.grad(s.x, problem.sample(k))
        if not self.prox and has_subgradient(problem):
            g = g + problem.subgrad(s.x)

        eta = self.inverse_step(k, network.degree)
        lx = sent.laplacian()
        p = s.p - self.rho * (k > 1).to(torch.float64) * lx
        x = s.x - (g - p + self.rho * lx) / eta
        return DPGAState(k=k, x=problem.prox(x, 1 / eta) if self.prox else x, p=p)

    def inverse_step(self, k: Any, degree: Any) -> Any:
        """eta_i of iteration k, for agents of these degrees.

        Parameters
        ----------
        k
            Iteration, from 1 on.
        degree
            Of each agent.
        """
        grown = Power(self.growth, 0.5, -1)(k)
        return self.smoothness + 2 * self.rho * degree + grown

    def step_bound(self, k: int, degree: Any) -> StepBound:
        """The bound on the step that makes iterate k; see `StepBound`."""
        return StepBound(
            self.inverse_step(k, degree),
            edges=0.75 * self.rho,
            penalty=self.rho,
            value=self.smoothness,
            per_unit=1.0,
        )

    def cost(self, k: int) -> Cost:
        """One vector in one round, one gradient; `init` is free."""
        return Cost(1, 1, 1, overlaps=True) if k else Cost(0, 0, 0)
