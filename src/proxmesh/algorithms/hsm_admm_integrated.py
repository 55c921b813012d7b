"""HSM-ADMM that sends sums over all iterations, for losses that nobody tells.

The multipliers of the edges are ``-L Z`` with Z a sum that each agent forms alone, so
that ``-alpha + rho L x = L U`` with ``U = Z + rho x``. U travels in place of x: what
was lost is made up for by whatever arrives next, also where rho grows.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.algorithms.gradients import grad_pair
from proxmesh.types import Network, Problem, holds_sums

__all__ = ["HSMADMMIntegratedState", "integrated_start", "integrated_step"]


@final
@dataclass(frozen=True, slots=True)
class HSMADMMIntegratedState:
    """The state of HSM-ADMM with sums; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # primal copies x_i: the models
    y: Tensor  # splitting copies y_i: the prox side, exactly sparse under l1
    v: Tensor  # STORM estimators of the local gradients
    z: Tensor  # gamma rho x, summed over all iterations, in float64
    force: Tensor  # sum_j (U_i - U_j), of the newest that was heard: -alpha + rho L x
    beta: Tensor  # multipliers of x_i = y_i

    @property
    def sparse(self) -> Tensor:
        """The rows that come out of the prox."""
        return self.y


def integrated_start(
    x0: Tensor, problem: Problem, network: Network, algorithm: Any
) -> HSMADMMIntegratedState:
    """The rows at x0, with zero multipliers and a first minibatch gradient."""
    z = torch.zeros_like(x0, dtype=torch.float64)
    return HSMADMMIntegratedState(
        k=torch.tensor(0),
        x=x0.clone(),
        y=x0.clone(),
        v=problem.grad(x0, problem.sample(0, size=algorithm.first_batch)),
        z=z,
        force=_force(z + algorithm.rho(1) * x0, x0, network, 0.0),
        beta=torch.zeros_like(x0),
    )


def integrated_step(
    algorithm: Any,
    state: Any,
    problem: Problem,
    network: Network,
    eta: Any,
) -> Any:
    """Make the next iterate of an `HSMADMM` with this inverse step."""
    s, k = state, state.k + 1
    rho, rho_next = algorithm.rho(k), algorithm.rho(k + 1)

    y = problem.prox(s.x - s.beta / rho, 1 / rho)
    x = s.x - (s.v + s.force - s.beta + rho * (s.x - y)) / eta
    z = s.z + algorithm.gain * rho * x
    weight = rho_next if algorithm.fresh else 0.0
    force = _force(z + rho_next * x, x, network, weight)

    g, g_old = grad_pair(problem, x, s.x, problem.sample(k))
    a, _ = algorithm.momentum(s, x, g, g_old)
    v = g + (1 - a) * (s.v - g_old)
    beta = s.beta - rho * (x - y)
    return replace(s, k=k, x=x, y=y, v=v, z=z, force=force, beta=beta)


def _force(u: Tensor, x: Tensor, network: Network, weight: Any) -> Tensor:
    """``sum_j (U_i - U_j)``, and how far x_i has moved since, with this weight."""
    if not holds_sums(network):
        return network.exchange(u.to(x.dtype)).laplacian()
    sent = network.hold(u, x)
    found = sent.laplacian().to(x.dtype)
    if isinstance(weight, float) and weight == 0:
        return found
    moved: Tensor = weight * sent.behind()
    return found + moved
