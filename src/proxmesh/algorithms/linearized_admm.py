"""Linearized ADMM on the split x = y: HSM-ADMM without its momentum."""

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.checks import require_nonnegative, require_positive
from proxmesh.types import Cost, Network, Problem, StepBound

__all__ = ["LinearizedADMM", "LinearizedADMMState"]


@final
@dataclass(frozen=True, slots=True)
class LinearizedADMMState:
    """The state of linearized ADMM after iteration k; rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the models
    y: Tensor  # splitting copies, out of the prox
    p: Tensor  # duals of the edges up to iterate k - 1; they sum to 0 over agents
    b: Tensor  # multipliers of x_i = y_i

    @property
    def sparse(self) -> Tensor:
        """The rows that come out of the prox."""
        return self.y


@final
@dataclass(frozen=True, slots=True)
class LinearizedADMM:
    """ADMM with linearized losses, constant penalty and degree-scaled steps.

    An iteration is, for every agent i at once::

        p_i   <- p_i - rho (L x)_i                    (from the second iteration on)
        y_i   <- prox of h/rho at x_i - b_i/rho
        eta_i  = c_eta (d_i + 1) + smoothness
        x_i   <- x_i - (grad f_i(x_i; xi) - p_i - b_i
                        + rho ((L x)_i + x_i - y_i)) / eta_i
        b_i   <- b_i - rho (x_i new - y_i)

    This is HSM-ADMM with plain gradients and constant schedules: its ablation without
    momentum. It is also what a proximal ADMM with linearized losses and the split
    x = y comes to, such as DP-ADMM (2024), which the HSM-ADMM paper names: the
    published update of that method could not be checked, so nothing here bears its
    name, and no curve of this class is a curve of theirs.

    A step reads the agent's own degree and no other fact about the graph. For convex
    quadratic losses it is stable for every prox if and only if
    ``Q > H/2 + 3/4 rho (L + I)`` with ``Q = diag(eta_i)``: ``c_eta >= 1.5 rho`` with
    ``smoothness >= L_f/2`` suffices on every graph.

    Cost of an iteration: 1 vector to each neighbor in 1 round, 1 minibatch gradient.

    Parameters
    ----------
    rho
        Penalty on the disagreement, between neighbors and between x and y.
    c_eta
        Of the step, for each unit of degree + 1.
    smoothness
        Added to every eta_i; half the largest curvature of the losses makes
        ``c_eta = 1.5 rho`` stable.

    Examples
    --------
    >>> LinearizedADMM(rho=1.0, c_eta=2.0).cost(1)
    Cost(vectors=1, rounds=1, gradients=1, batch=None)
    >>> LinearizedADMM(c_eta=-1.0)
    Traceback (most recent call last):
    proxmesh.errors.InputError: LinearizedADMM: `c_eta` must be positive and finite, ...

    References
    ----------
    Derived here; the constant 3/4: He, Ma, Yuan: Optimally linearizing the alternating
    direction method of multipliers for convex programming, Computational Optimization
    and Applications 2020.
    """

    rho: float = 0.25
    c_eta: float = 1.0
    smoothness: float = 0.0

    def __post_init__(self) -> None:
        require_positive("LinearizedADMM", rho=self.rho, c_eta=self.c_eta)
        require_nonnegative("LinearizedADMM", smoothness=self.smoothness)

    def init(
        self, x0: Tensor, problem: Problem, network: Network
    ) -> LinearizedADMMState:
        """Start at x0 with zero multipliers; nothing is drawn or sent."""
        del problem
        require_fit(x0, network)
        return LinearizedADMMState(
            k=torch.tensor(0),
            x=x0.clone(),
            y=x0.clone(),
            p=torch.zeros_like(x0),
            b=torch.zeros_like(x0),
        )

    def step(
        self, state: LinearizedADMMState, problem: Problem, network: Network
    ) -> LinearizedADMMState:
        """Make the next iterate; the first one leaves the duals of edges at 0."""
        s, k, rho = state, state.k + 1, self.rho
        sent = network.exchange(s.x)  # travels while the gradient is computed
        g = problem.grad(s.x, problem.sample(k))
        y = problem.prox(s.x - s.b / rho, 1 / rho)

        lx = sent.laplacian()
        p = s.p - rho * (k > 1).to(torch.float64) * lx
        eta = self.c_eta * (network.degree + 1) + self.smoothness
        x = s.x - (g - p - s.b + rho * (lx + s.x - y)) / eta
        return LinearizedADMMState(k=k, x=x, y=y, p=p, b=s.b - rho * (x - y))

    def step_bound(self, k: int, degree: Any) -> StepBound:
        """The bound on the step that makes iterate k; see `StepBound`."""
        del k
        return StepBound(
            self.c_eta * (degree + 1) + self.smoothness,
            edges=0.75 * self.rho,
            own=0.75 * self.rho,
            penalty=self.rho,
            value=self.smoothness,
            per_unit=1.0,
        )

    def cost(self, k: int) -> Cost:
        """One vector in one round, one gradient; `init` is free."""
        return Cost(1, 1, 1, overlaps=True) if k else Cost(0, 0, 0)
