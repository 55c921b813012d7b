"""SMADMM: stochastic momentum ADMM with a server."""

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.algorithms.centralized import averaged
from proxmesh.algorithms.checks import require_fit
from proxmesh.algorithms.gradients import grad_pair
from proxmesh.checks import require_positive
from proxmesh.schedules import Power
from proxmesh.types import Cost, Problem, StepBound, World

__all__ = ["SMADMM", "SMADMMState"]


@final
@dataclass(frozen=True, slots=True)
class SMADMMState:
    """The state of SMADMM after iteration k; each row is repeated for every agent."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the one model, [n_local, p]
    y: Tensor  # its splitting copy, out of the prox
    v: Tensor  # the one STORM estimator of the mean gradient
    b: Tensor  # multipliers of x = y

    @property
    def sparse(self) -> Tensor:
        """The rows that come out of the prox."""
        return self.y


@final
@dataclass(frozen=True, slots=True)
class SMADMM:
    """Linearized ADMM with STORM gradients on the average of all agents' losses.

    All agents hold one model. The step that makes iterate k (k = 1, 2, ...) is::

        rho = c_rho k^(1/3),  eta = c_eta k^(1/3),  a = min(1, c_a (k + 1)^(-2/3))
        y  <- prox of h/rho at x - b/rho
        x  <- x - (v - b + rho (x - y)) / eta
        v  <- G(x new; xi) + (1 - a) (v - G(x old; xi))
        b  <- b - rho (x - y)

    where G is the average of the agents' minibatch gradients. This is HSM-ADMM on one
    agent: the centralized method that it grew out of, with HSM-ADMM's schedules (those
    of the SMADMM paper could not be confirmed). For convex quadratic losses,
    ``c_eta > 3/4 c_rho + L_f/2`` is stable. It takes a `World`, not a `Network`: the
    global average is what no decentralized method has.

    Cost of an iteration: nothing over the graph's edges (a server would receive and
    send one vector per agent), 2 minibatch gradients.

    Parameters
    ----------
    c_rho, c_eta, c_a
        Constants of the penalty, the step and the momentum.

    Examples
    --------
    >>> SMADMM(c_rho=0.25).rho(8)
    0.5
    >>> SMADMM().cost(1)
    Cost(vectors=0, rounds=0, gradients=2, batch=None)

    References
    ----------
    Deng et al.: stochastic momentum ADMM for nonconvex and nonsmooth optimization,
    arXiv:2504.08223.
    """

    c_rho: float = 0.25
    c_eta: float = 0.8
    c_a: float = 1.0

    def __post_init__(self) -> None:
        require_positive("SMADMM", c_rho=self.c_rho, c_eta=self.c_eta, c_a=self.c_a)

    @property
    def rho(self) -> Power:
        """The penalty, growing."""
        return Power(self.c_rho, 1 / 3)

    @property
    def eta(self) -> Power:
        """The inverse step, growing."""
        return Power(self.c_eta, 1 / 3)

    @property
    def a(self) -> Power:
        """The momentum, vanishing."""
        return Power(self.c_a, -2 / 3, ceiling=1.0)

    def init(self, x0: Tensor, problem: Problem, world: World) -> SMADMMState:
        """Start at the average of the rows of x0 with a first averaged gradient."""
        require_fit(x0, world)
        x = averaged(world, x0)
        return SMADMMState(
            k=torch.tensor(0),
            x=x,
            y=x.clone(),
            v=averaged(world, problem.grad(x, problem.sample(0))),
            b=torch.zeros_like(x),
        )

    def step(self, state: SMADMMState, problem: Problem, world: World) -> SMADMMState:
        """Make the next iterate."""
        s, k = state, state.k + 1
        rho, eta, a = self.rho(k), self.eta(k), self.a(k + 1)
        y = problem.prox(s.x - s.b / rho, 1 / rho)
        x = s.x - (s.v - s.b + rho * (s.x - y)) / eta
        g, g_old = grad_pair(problem, x, s.x, problem.sample(k))
        v = averaged(world, g) + (1 - a) * (s.v - averaged(world, g_old))
        return SMADMMState(k=k, x=x, y=y, v=v, b=s.b - rho * (x - y))

    def step_bound(self, k: int, degree: Any) -> StepBound:
        """The bound on the step that makes iterate k; see `StepBound`."""
        del degree
        grown = float(k) ** (1 / 3)
        return StepBound(
            self.c_eta * grown,
            own=0.75 * self.c_rho * grown,
            parameter="c_eta",
            value=self.c_eta,
            per_unit=grown,
        )

    def cost(self, k: int) -> Cost:
        """Two gradients, one in `init`; nothing sent to neighbors."""
        return Cost(0, 0, 2 if k else 1)
