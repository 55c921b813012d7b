"""Two references with a server: what a method loses to the network shows in them."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.algorithms.gradients import grad_pair, storm_weight
from proxmesh.checks import require_positive, require_step, require_whole
from proxmesh.schedules import Power, Step, scheduled
from proxmesh.types import Cost, Problem, World

__all__ = ["ProxSGD", "ProxSGDState", "ProxSTORM", "ProxSTORMState"]


@final
@dataclass(frozen=True, slots=True)
class ProxSGDState:
    """The state of proximal SGD after iteration k."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the one model, repeated for every agent, [n_local, p]


@final
@dataclass(frozen=True, slots=True)
class ProxSGD:
    """Proximal SGD on the average of all agents' minibatch gradients.

    All agents hold one model x. An iteration is::

        x <- prox of alpha h at x - alpha (1/n) sum_i grad f_i(x; xi_i)

    Every agent counts 1/n, whatever the size of its shard: the objective is (P). It
    takes a `World`, not a `Network`: the global average is what no decentralized
    method has.

    Cost of an iteration: nothing over the graph's edges (a server would receive and
    send one vector per agent), 1 minibatch gradient.

    Parameters
    ----------
    alpha
        Step size, a number or a schedule; by default ``0.5 / sqrt(k)``.

    Examples
    --------
    >>> ProxSGD(alpha=0.1).cost(1)
    Cost(vectors=0, rounds=0, gradients=1, batch=None)

    References
    ----------
    Ghadimi, Lan, Zhang: Mini-batch stochastic approximation methods for nonconvex
    stochastic composite optimization, Mathematical Programming 2016.
    """

    alpha: Step = Power(0.5, -0.5)

    def __post_init__(self) -> None:
        require_step("ProxSGD", alpha=self.alpha)

    def init(self, x0: Tensor, problem: Problem, world: World) -> ProxSGDState:
        """Start at the average of the rows of x0; nothing is drawn."""
        del problem
        require_fit(x0, world)
        return ProxSGDState(k=torch.tensor(0), x=averaged(world, x0))

    def step(self, state: ProxSGDState, problem: Problem, world: World) -> ProxSGDState:
        """Make the next iterate."""
        s, k = state, state.k + 1
        alpha = scheduled(self.alpha)(k)
        g = averaged(world, problem.grad(s.x, problem.sample(k)))
        return ProxSGDState(k=k, x=problem.prox(s.x - alpha * g, alpha))

    def cost(self, k: int) -> Cost:
        """One gradient, nothing sent to neighbors; `init` is free."""
        return Cost(0, 0, 1) if k else Cost(0, 0, 0)


@final
@dataclass(frozen=True, slots=True)
class ProxSTORMState:
    """The state of proximal STORM after iteration k."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the one model, repeated for every agent, [n_local, p]
    v: Tensor  # the one STORM estimator, repeated likewise


@final
@dataclass(frozen=True, slots=True)
class ProxSTORM:
    """Proximal STORM on the average of all agents' minibatch gradients.

    All agents hold one model x and one estimator v. An iteration is::

        x <- prox of a_k h at x - a_k v,                a_k = alpha / (k + k0)^(1/3)
        v <- V + (1 - b_k) (v - U)

    where V and U are averages over agents of gradients at the new and the old x on one
    minibatch each, k counts from 0 and ``b_k = min(1, 1 - a_{k+1}/a_k + beta
    a_{k+1}^2)``: DEEPSTORM v2 with exact averages in place of mixing. Every agent
    counts 1/n, whatever the size of its shard. It takes a `World`, not a `Network`.

    Cost of an iteration: nothing over the graph's edges (a server would receive and
    send one vector per agent), 2 minibatch gradients.

    Parameters
    ----------
    alpha
        Scale of the step a_k.
    k0
        Offset of its schedule: the first step is ``alpha / k0^(1/3)``.
    beta
        Weight of ``a_{k+1}^2`` in the momentum b_k; the larger it is, the sooner old
        gradients are forgotten.

    Examples
    --------
    >>> ProxSTORM(alpha=0.5, k0=8).a(1)
    0.25
    >>> ProxSTORM(alpha=0.5).cost(1)
    Cost(vectors=0, rounds=0, gradients=2, batch=None)

    References
    ----------
    Cutkosky, Orabona: Momentum-Based Variance Reduction in Non-Convex SGD, NeurIPS
    2019, arXiv:1905.10018; with a prox: Xu, Xu: Momentum-Based Variance-Reduced
    Proximal Stochastic Gradient Method, JOTA 2023, arXiv:2006.00425.
    """

    alpha: float = 1.25
    k0: int = 5
    beta: float = 1.984

    def __post_init__(self) -> None:
        require_positive("ProxSTORM", alpha=self.alpha, beta=self.beta)
        require_whole("ProxSTORM", 1, k0=self.k0)

    @property
    def a(self) -> Power:
        """The step sizes: ``a(k)`` makes iterate k (k = 1, 2, ...)."""
        return Power(self.alpha, -1 / 3, self.k0 - 1)

    def init(self, x0: Tensor, problem: Problem, world: World) -> ProxSTORMState:
        """Start at the average of the rows of x0 with a first averaged gradient."""
        require_fit(x0, world)
        x = averaged(world, x0)
        v = averaged(world, problem.grad(x, problem.sample(0)))
        return ProxSTORMState(k=torch.tensor(0), x=x, v=v)

    def step(
        self, state: ProxSTORMState, problem: Problem, world: World
    ) -> ProxSTORMState:
        """Make the next iterate."""
        s, k = state, state.k + 1
        a, a_next = self.a(k), self.a(k + 1)
        b = storm_weight(a, a_next, self.beta)
        x = problem.prox(s.x - a * s.v, a)
        g, g_old = grad_pair(problem, x, s.x, problem.sample(k))
        v = averaged(world, g) + (1 - b) * (s.v - averaged(world, g_old))
        return ProxSTORMState(k=k, x=x, v=v)

    def cost(self, k: int) -> Cost:
        """Two gradients, one in `init`; nothing sent to neighbors."""
        return Cost(0, 0, 2 if k else 1)


def averaged(world: World, rows: Tensor) -> Tensor:
    """The mean over all agents of the network, repeated for each local agent."""
    return world.reduce(rows, "mean").repeat(len(rows), 1)
