"""SPPDM: stochastic proximal primal-dual method with momentum."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.checks import require_nonnegative, require_positive
from proxmesh.errors import InputError
from proxmesh.types import Cost, Network, Problem

__all__ = ["SPPDM", "SPPDMState"]


@final
@dataclass(frozen=True, slots=True)
class SPPDMState:
    """The state of SPPDM after iteration k; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the models, out of the prox
    x_old: Tensor  # the models before
    z: Tensor  # proximal centers
    p: Tensor  # duals of the consensus constraints; they sum to 0 over agents
    theta: Tensor  # Nesterov's sequence, 0-d float64


@final
@dataclass(frozen=True, slots=True)
class SPPDM:
    """Linearized proximal primal-dual steps with extrapolation and a moving center.

    An iteration is, for every agent i at once::

        theta_k  = (1 + sqrt(1 + 4 theta_{k-1}^2)) / 2
        s_i      = x_i + (theta_{k-1} - 1) / theta_k (x_i - x_i old)
        p_i     <- p_i + alpha (L x)_i
        phi_i    = gamma + 2 c d_i + kappa
        x_i     <- prox of h/phi_i at (gamma s_i + c (d_i x_i + sum_j x_j) + kappa z_i
                                       - grad f_i(s_i; xi) - p_i) / phi_i
        z_i     <- z_i + beta (x_i - z_i)

    The first iteration leaves p, z and theta as they start (p = 0, z = x, theta = 1).
    ``phi_i`` is scaled by the agent's own degree, so no global knowledge is needed.

    Cost of an iteration: 1 vector to each neighbor in 1 round, 1 minibatch gradient.

    Parameters
    ----------
    alpha
        Step of the duals p.
    c
        Penalty on the disagreement between neighbors.
    kappa
        Weight of the proximal center z; 0 leaves it out.
    gamma
        Inverse of the primal step, the network and the center aside.
    beta
        How fast the center follows x: 0 keeps it where it starts, 1 puts it at x.
    momentum
        ``"nesterov"`` for the sequence theta_k, or a constant weight in 0 .. 1 of the
        extrapolation.

    Examples
    --------
    >>> SPPDM(momentum=0.9).cost(1)
    Cost(vectors=1, rounds=1, gradients=1, batch=None)
    >>> SPPDM(momentum="heavy")
    Traceback (most recent call last):
    proxmesh.errors.InputError: SPPDM: `momentum` must be "nesterov" or a number ...

    References
    ----------
    Wang, Zhang, Chang, Li, Luo: Distributed Stochastic Consensus Optimization With
    Momentum for Nonconvex Nonsmooth Problems, IEEE TSP 2021, arXiv:2011.05082.
    """

    alpha: float = 0.08
    c: float = 8.0
    kappa: float = 0.8
    gamma: float = 24.0
    beta: float = 0.9
    momentum: str | float = "nesterov"

    def __post_init__(self) -> None:
        require_positive("SPPDM", alpha=self.alpha, c=self.c, gamma=self.gamma)
        require_nonnegative("SPPDM", kappa=self.kappa, beta=self.beta)
        number = isinstance(self.momentum, int | float) and 0 <= self.momentum <= 1
        if self.momentum != "nesterov" and not number:
            raise InputError(
                'SPPDM: `momentum` must be "nesterov" or a number in 0 .. 1, got '
                f"{self.momentum}."
            )

    def init(self, x0: Tensor, problem: Problem, network: Network) -> SPPDMState:
        """Start at x0 with centers at x0 and zero duals."""
        del problem
        require_fit(x0, network)
        return SPPDMState(
            k=torch.tensor(0),
            x=x0.clone(),
            x_old=x0.clone(),
            z=x0.clone(),
            p=torch.zeros_like(x0),
            theta=torch.tensor(1.0, dtype=torch.float64),
        )

    def step(self, state: SPPDMState, problem: Problem, network: Network) -> SPPDMState:
        """Make the next iterate; the first one moves neither duals nor centers."""
        s, k = state, state.k + 1
        sent = network.exchange(s.x)
        later = (k > 1).to(torch.float64)  # 0 in the first iteration, then 1

        theta = torch.where(k > 1, (1 + (1 + 4 * s.theta.square()).sqrt()) / 2, s.theta)
        eta = self._extrapolation(s.theta, theta)
        ahead = s.x + eta * (s.x - s.x_old)
        g = problem.grad(ahead, problem.sample(k))

        lx = sent.laplacian()
        p = s.p + self.alpha * later * lx
        around = 2 * network.degree * s.x - lx  # d_i x_i + sum_j x_j
        phi = self.gamma + 2 * self.c * network.degree + self.kappa
        center = self.gamma * ahead + self.c * around + self.kappa * s.z - g - p
        x = problem.prox(center / phi, 1 / phi)
        z = s.z + self.beta * later * (x - s.z)
        return SPPDMState(k=k, x=x, x_old=s.x, z=z, p=p, theta=theta)

    def cost(self, k: int) -> Cost:
        """One vector in one round, one gradient; `init` is free."""
        return Cost(1, 1, 1, overlaps=True) if k else Cost(0, 0, 0)

    def _extrapolation(self, theta_old: Tensor, theta: Tensor) -> Tensor | float:
        if isinstance(self.momentum, str):
            return (theta_old - 1) / theta
        return self.momentum
