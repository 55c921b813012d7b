"""PG-EXTRA: proximal gradients with an exact first-order correction."""

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.checks import require_step
from proxmesh.schedules import Power, Step, scheduled
from proxmesh.types import Cost, Network, Problem, StepBound

__all__ = ["PGEXTRA", "PGEXTRAState"]


@final
@dataclass(frozen=True, slots=True)
class PGEXTRAState:
    """The state of PG-EXTRA after iteration k; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the models, out of the prox
    c: Tensor  # corrections, in units of a gradient; they sum to 0 over agents


@final
@dataclass(frozen=True, slots=True)
class PGEXTRA:
    """Average with the neighbors, step along the corrected gradient, prox.

    An iteration is, for every agent i at once::

        u_i  = (x_i - sum_j w_ij x_j) / 2
        c_i <- c_i + u_i / alpha
        x_i <- prox of alpha h at x_i - u_i - alpha (grad f_i(x_i; xi) + c_i)

    which is the published recursion over two iterates and two gradients with the sum of
    all past disagreements kept as c (a test compares the two). It is also DPGA with
    ``eta = 1/alpha``, ``rho L = (I - W)/(2 alpha)`` and duals that start at
    ``-rho L x``. The published step is constant; here it may change with k, since c is
    in units of a gradient.

    Choosing alpha needs a global fact, the smallest eigenvalue of W: for convex
    quadratic losses of smoothness L_f the iteration is stable if and only if
    ``alpha < (5 + 3 lambda_min(W)) / (4 L_f)``, and ``alpha < 1 / (2 L_f)`` is on every
    graph. `proxmesh check` knows the eigenvalue.

    Cost of an iteration: 1 vector to each neighbor in 1 round, 1 minibatch gradient.

    Parameters
    ----------
    alpha
        Step size, a number or a schedule; by default ``0.5 / sqrt(k)``.

    Examples
    --------
    >>> PGEXTRA(alpha=0.1).cost(1)
    Cost(vectors=1, rounds=1, gradients=1, batch=None)

    References
    ----------
    Shi, Ling, Wu, Yin: A proximal gradient algorithm for decentralized composite
    optimization, IEEE TSP 2015, arXiv:1411.4713; the weakest condition on its step: Li,
    Yan, arXiv:1711.06785.
    """

    alpha: Step = Power(0.5, -0.5)

    def __post_init__(self) -> None:
        require_step("PGEXTRA", alpha=self.alpha)

    def init(self, x0: Tensor, problem: Problem, network: Network) -> PGEXTRAState:
        """Start at x0 with zero corrections; nothing is drawn or sent."""
        del problem
        require_fit(x0, network)
        return PGEXTRAState(k=torch.tensor(0), x=x0.clone(), c=torch.zeros_like(x0))

    def step(
        self, state: PGEXTRAState, problem: Problem, network: Network
    ) -> PGEXTRAState:
        """Make the next iterate."""
        s, k = state, state.k + 1
        alpha = scheduled(self.alpha)(k)
        sent = network.exchange(s.x)  # travels while the gradient is computed
        g = problem.grad(s.x, problem.sample(k))
        apart = (s.x - sent.mix()) / 2
        c = s.c + apart / alpha
        x = problem.prox(s.x - apart - alpha * (g + c), alpha)
        return PGEXTRAState(k=k, x=x, c=c)

    def step_bound(self, k: int, degree: Any) -> StepBound:
        """The bound on the step that makes iterate k; see `StepBound`."""
        del degree
        alpha = float(scheduled(self.alpha)(k))
        return StepBound(
            1 / alpha, mixing=0.375 / alpha, parameter="alpha", value=alpha
        )

    def cost(self, k: int) -> Cost:
        """One vector in one round, one gradient; `init` is free."""
        return Cost(1, 1, 1, overlaps=True) if k else Cost(0, 0, 0)
