"""Penalty ADMM: consensus by a quadratic penalty alone, in the spirit of PAD."""

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.checks import require_nonnegative, require_positive
from proxmesh.types import Cost, Network, Problem, StepBound

__all__ = ["PenaltyADMM", "PenaltyADMMState"]


@final
@dataclass(frozen=True, slots=True)
class PenaltyADMMState:
    """The state of penalty ADMM after iteration k; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the models
    y: Tensor  # splitting copies, out of the prox
    b: Tensor  # multipliers of x_i = y_i

    @property
    def sparse(self) -> Tensor:
        """The rows that come out of the prox."""
        return self.y


@final
@dataclass(frozen=True, slots=True)
class PenaltyADMM:
    """Linearized ADMM on x = y with no multipliers on the edges.

    An iteration is, for every agent i at once::

        y_i   <- prox of h/rho at x_i - b_i/rho
        eta_i  = smoothness + tau d_i + rho
        x_i   <- x_i - (grad f_i(x_i; xi) + tau (L x)_i - b_i + rho (x_i - y_i)) / eta_i
        b_i   <- b_i - rho (x_i new - y_i)

    The limit minimizes ``sum_i f_i + h + tau/2 <x, L x>``: biased by O(1/tau), which is
    what the multipliers of other methods are for. Use it as the ablation "no dual".

    In the spirit of PAD (2021), which adds a quadratic penalty to the objective; its
    published update could not be checked. The method is derived here, and no curve of
    it is a curve of theirs.

    A step reads the agent's own degree and no other fact about the graph. For convex
    quadratic losses it is stable for every prox if and only if
    ``Q > H/2 + tau L/2 + 3/4 rho I`` with ``Q = diag(eta_i)``:
    ``eta_i >= L_f/2 + tau d_i + 0.75 rho`` suffices on every graph.

    Cost of an iteration: 1 vector to each neighbor in 1 round, 1 minibatch gradient.

    Parameters
    ----------
    tau
        Weight of the penalty; some ten times the smoothness of the losses.
    rho
        Penalty on the difference between x and y; about the smoothness of the losses.
    smoothness
        L_f of the step: the largest curvature of the losses.

    Examples
    --------
    >>> PenaltyADMM(tau=4.0, rho=1.0).cost(1)
    Cost(vectors=1, rounds=1, gradients=1, batch=None)
    >>> PenaltyADMM(tau=0.0)
    Traceback (most recent call last):
    proxmesh.errors.InputError: PenaltyADMM: `tau` must be positive and finite, got 0.0.

    References
    ----------
    Derived here; named in the HSM-ADMM paper: Zhang, So, Ling: penalty alternating
    direction method of multipliers for decentralized composite optimization, IEEE TSP
    2021.
    """

    tau: float = 10.0
    rho: float = 1.0
    smoothness: float = 2.0

    def __post_init__(self) -> None:
        require_positive("PenaltyADMM", tau=self.tau, rho=self.rho)
        require_nonnegative("PenaltyADMM", smoothness=self.smoothness)

    def init(self, x0: Tensor, problem: Problem, network: Network) -> PenaltyADMMState:
        """Start at x0 with zero multipliers; nothing is drawn or sent."""
        del problem
        require_fit(x0, network)
        return PenaltyADMMState(
            k=torch.tensor(0), x=x0.clone(), y=x0.clone(), b=torch.zeros_like(x0)
        )

    def step(
        self, state: PenaltyADMMState, problem: Problem, network: Network
    ) -> PenaltyADMMState:
        """Make the next iterate."""
        s, k, rho = state, state.k + 1, self.rho
        sent = network.exchange(s.x)  # travels while the gradient is computed
        g = problem.grad(s.x, problem.sample(k))
        y = problem.prox(s.x - s.b / rho, 1 / rho)
        eta = self.smoothness + self.tau * network.degree + rho
        pull = self.tau * sent.laplacian()
        x = s.x - (g + pull - s.b + rho * (s.x - y)) / eta
        return PenaltyADMMState(k=k, x=x, y=y, b=s.b - rho * (x - y))

    def step_bound(self, k: int, degree: Any) -> StepBound:
        """The bound on the step that makes iterate k; see `StepBound`."""
        del k
        return StepBound(
            self.smoothness + self.tau * degree + self.rho,
            edges=self.tau / 2,
            own=0.75 * self.rho,
            penalty=self.tau,
            value=self.smoothness,
            per_unit=1.0,
        )

    def cost(self, k: int) -> Cost:
        """One vector in one round, one gradient; `init` is free."""
        return Cost(1, 1, 1, overlaps=True) if k else Cost(0, 0, 0)
