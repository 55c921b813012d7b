"""Perturbed ADMM: PPG-ADMM on the splitting of the HSM-ADMM paper."""

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.checks import require_nonnegative, require_positive
from proxmesh.errors import InputError
from proxmesh.types import Cost, Network, Problem, StepBound

__all__ = ["PerturbedADMM", "PerturbedADMMState"]


@final
@dataclass(frozen=True, slots=True)
class PerturbedADMMState:
    """The state of perturbed ADMM after iteration k; rows are ``[n_local, p]``."""

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
class PerturbedADMM:
    """Linearized ADMM whose multipliers are shrunk a little in every iteration.

    With ``kappa_k = 1 - rho beta_k`` and ``beta_k = beta / k`` (or beta, without
    `decay`), the step that makes iterate k (k = 1, 2, ...) is, for every agent i::

        eta_i  = 1.5 rho (d_i + 1) + smoothness / 2
        x_i   <- x_i - (grad f_i(x_i; xi) - kappa_k (p_i + b_i)
                        + rho ((L x)_i + x_i - y_i)) / eta_i
        y_i   <- prox of h/rho at x_i - kappa_k b_i / rho
        p_i   <- kappa_k p_i - rho (L x)_i,   b_i <- kappa_k b_i - rho (x_i - y_i)

    The shrinking keeps the multipliers bounded without the range condition that
    nonconvex ADMM asks for, and which the splitting x_i = x_j, x_i = y_i does not meet.
    Its price at a constant beta: the limit minimizes
    ``f + h(y) + (<x, L x> + |x - y|^2) / (2 beta)``, a quadratic penalty, whatever rho
    is. With `decay` the limit is exact.

    The perturbed Lagrangian and the linearized steps are those of PPG-ADMM, as far as
    its abstract and a review tell; dual step and order of blocks are the usual ones and
    could not be compared with the published ones. ``Q > H/2 + 3/4 rho (L + I)``
    suffices for stability; it is not the limit.

    Cost of an iteration: 1 vector to each neighbor in 1 round, 1 minibatch gradient.

    Parameters
    ----------
    rho
        Penalty on the disagreement, between neighbors and between x and y.
    beta
        Perturbation; ``rho beta`` must be below 1.
    smoothness
        L_f of the step: the largest curvature of the losses.
    decay
        Whether the perturbation vanishes like 1/k.

    Examples
    --------
    >>> PerturbedADMM().cost(1)
    Cost(vectors=1, rounds=1, gradients=1, batch=None)
    >>> PerturbedADMM(rho=2.0, beta=0.5)
    Traceback (most recent call last):
    proxmesh.errors.InputError: PerturbedADMM: `rho` times `beta` must be below 1, ...

    References
    ----------
    Zhou, Shi, Guo, Cao, Abdel-Aty: arXiv:2504.12759.
    """

    rho: float = 0.25
    beta: float = 0.4
    smoothness: float = 2.0
    decay: bool = True

    def __post_init__(self) -> None:
        require_positive("PerturbedADMM", rho=self.rho, beta=self.beta)
        require_nonnegative("PerturbedADMM", smoothness=self.smoothness)
        if self.rho * self.beta >= 1:
            raise InputError(
                "PerturbedADMM: `rho` times `beta` must be below 1, got "
                f"{self.rho:g} times {self.beta:g}. Lower `beta`."
            )

    def kappa(self, k: Any) -> Any:
        """What is kept of the multipliers in iteration k.

        Parameters
        ----------
        k
            Iteration, from 1 on; a number or a 0-d tensor.

        Examples
        --------
        >>> PerturbedADMM(rho=1.0, beta=0.5).kappa(2)
        0.75
        """
        return 1 - self.rho * self.beta / (k if self.decay else 1)

    def init(
        self, x0: Tensor, problem: Problem, network: Network
    ) -> PerturbedADMMState:
        """Start at x0 with zero multipliers; nothing is drawn or sent."""
        del problem
        require_fit(x0, network)
        return PerturbedADMMState(
            k=torch.tensor(0),
            x=x0.clone(),
            y=x0.clone(),
            p=torch.zeros_like(x0),
            b=torch.zeros_like(x0),
        )

    def step(
        self, state: PerturbedADMMState, problem: Problem, network: Network
    ) -> PerturbedADMMState:
        """Make the next iterate; the duals of edges are one exchange behind."""
        s, k, rho = state, state.k + 1, self.rho
        sent = network.exchange(s.x)  # travels while the gradient is computed
        g = problem.grad(s.x, problem.sample(k))

        lx = sent.laplacian()
        now = k.to(torch.float64)
        kappa, before = self.kappa(now), self.kappa((now - 1).clamp(min=1))
        p = before * s.p - rho * (k > 1).to(torch.float64) * lx
        eta = 1.5 * rho * (network.degree + 1) + self.smoothness / 2
        x = s.x - (g - kappa * (p + s.b) + rho * (lx + s.x - s.y)) / eta
        y = problem.prox(x - kappa * s.b / rho, 1 / rho)
        b = kappa * s.b - rho * (x - y)
        return PerturbedADMMState(k=k, x=x, y=y, p=p, b=b)

    def step_bound(self, k: int, degree: Any) -> StepBound:
        """The bound on the step that makes iterate k; see `StepBound`."""
        del k
        return StepBound(
            1.5 * self.rho * (degree + 1) + self.smoothness / 2,
            edges=0.75 * self.rho,
            own=0.75 * self.rho,
            penalty=self.rho,
            value=self.smoothness,
            per_unit=0.5,
            sharp=False,
        )

    def cost(self, k: int) -> Cost:
        """One vector in one round, one gradient; `init` is free."""
        return Cost(1, 1, 1, overlaps=True) if k else Cost(0, 0, 0)
