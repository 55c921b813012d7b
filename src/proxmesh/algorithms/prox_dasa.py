"""Prox-DASA: averaged stochastic approximation, with or without gradient tracking."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.algorithms.mixing import mixed
from proxmesh.checks import require_positive, require_whole
from proxmesh.schedules import Power
from proxmesh.types import Cost, Network, Problem

__all__ = ["ProxDASA", "ProxDASAState"]


@final
@dataclass(frozen=True, slots=True)
class ProxDASAState:
    """The state of Prox-DASA after iteration k; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the models, mixed averages
    y: Tensor  # the rows out of the prox
    z: Tensor  # averaged gradients
    u: Tensor  # trackers, 0 without tracking
    v: Tensor  # last minibatch gradients, 0 without tracking

    @property
    def sparse(self) -> Tensor:
        """The rows that come out of the prox."""
        return self.y


@final
@dataclass(frozen=True, slots=True)
class ProxDASA:
    """Average models toward a proximal step and gradients toward a fresh one.

    An iteration is, for every agent i at once::

        y_i <- prox of gamma h at x_i - gamma z_i
        v_i <- grad f_i(x_i; xi), at the old x_i
        x_i <- W^m ((1 - a) x + a y)
        z_i <- W^m ((1 - a) z + a v),           a = min(1, alpha sqrt(n / k))

    With ``tracking`` (Prox-DASA-GT) a tracker takes the place of v in the last line:
    u <- u + v new - v old, then z as above, and u is mixed too. The schedule of a reads
    ``n``, a global fact.

    Cost of an iteration: 2m vectors to each neighbor in m rounds (3m with tracking), 1
    minibatch gradient.

    Parameters
    ----------
    gamma
        Step of the prox, constant.
    alpha
        Scale of the averaging weight a.
    tracking
        Whether to track the mean gradient: False is Prox-DASA, True is Prox-DASA-GT.
    rounds
        m, rounds of mixing per iteration.

    Examples
    --------
    >>> ProxDASA(tracking=True).cost(1)
    Cost(vectors=3, rounds=1, gradients=1, batch=None)

    References
    ----------
    Xiao, Chen, Balasubramanian, Ghadimi: A One-Sample Decentralized Proximal Algorithm
    for Non-Convex Stochastic Composite Optimization, UAI 2023, arXiv:2302.09766.
    """

    gamma: float = 1.25
    alpha: float = 0.3
    tracking: bool = False
    rounds: int = 1

    def __post_init__(self) -> None:
        require_positive("ProxDASA", gamma=self.gamma, alpha=self.alpha)
        require_whole("ProxDASA", 1, rounds=self.rounds)

    def init(self, x0: Tensor, problem: Problem, network: Network) -> ProxDASAState:
        """Start at x0 with averages and trackers at 0."""
        del problem
        require_fit(x0, network)
        zero = torch.zeros_like(x0)
        return ProxDASAState(
            k=torch.tensor(0),
            x=x0.clone(),
            y=x0.clone(),
            z=zero,
            u=zero.clone(),
            v=zero.clone(),
        )

    def step(
        self, state: ProxDASAState, problem: Problem, network: Network
    ) -> ProxDASAState:
        """Make the next iterate; everything travels in one message."""
        s, k = state, state.k + 1
        a = Power(self.alpha * network.n**0.5, -0.5, ceiling=1.0)(k)
        y = problem.prox(s.x - self.gamma * s.z, self.gamma)
        v = problem.grad(s.x, problem.sample(k))
        if not self.tracking:
            rows = ((1 - a) * s.x + a * y, (1 - a) * s.z + a * v)
            x, z = mixed(network, torch.stack(rows, dim=1), self.rounds).unbind(1)
            return ProxDASAState(k=k, x=x, y=y, z=z, u=s.u, v=s.v)
        u = s.u + v - s.v
        rows = ((1 - a) * s.x + a * y, (1 - a) * s.z + a * u)
        together = torch.stack((*rows, u), dim=1)
        x, z, u = mixed(network, together, self.rounds).unbind(1)
        return ProxDASAState(k=k, x=x, y=y, z=z, u=u, v=v)

    def cost(self, k: int) -> Cost:
        """2m vectors (3m with tracking) in m rounds, one gradient; `init` is free."""
        if k == 0:
            return Cost(0, 0, 0)
        return Cost((3 if self.tracking else 2) * self.rounds, self.rounds, gradients=1)
