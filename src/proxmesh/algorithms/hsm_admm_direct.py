"""HSM-ADMM with the prox on x itself: no second copy of the model, no beta."""

from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.algorithms.gradients import grad_pair
from proxmesh.types import Network, Problem, has_distance, has_full_gradient

__all__ = [
    "HSMADMMDirectFollowingState",
    "HSMADMMDirectState",
    "direct_start",
    "direct_step",
]


@dataclass(frozen=True, slots=True)
class HSMADMMDirectState:
    """The state of HSM-ADMM without a split; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the models, out of the prox: exactly sparse under l1
    v: Tensor  # STORM estimators of the local gradients
    lx: Tensor  # (L x)_i of the current x: one exchange serves two updates
    alpha_sum: Tensor  # sum_j alpha_ij: no multiplier is stored per edge

    def kkt_residual(self, problem: Problem) -> Tensor | None:
        """Each agent's part of ``dist^2(0, dL(x, alpha))``, ``[n_local]``.

        ``dist^2(sum_j alpha_ij - grad f_i(x_i), dh(x_i)) + <x_i, (L x)_i>``:
        stationarity in x, then the constraints. None for a problem without `full_grad`
        and `distance`.
        """
        if not has_full_gradient(problem):
            return None
        pull = self.alpha_sum - problem.full_grad(self.x)
        in_x = problem.distance(pull, self.x) if has_distance(problem) else None
        return None if in_x is None else in_x + (self.x * self.lx).sum(1)


@final
@dataclass(frozen=True, slots=True)
class HSMADMMDirectFollowingState(HSMADMMDirectState):
    """The same with what follows the losses along the path, ``[n_local, 1]``."""

    rho: Tensor  # the penalty, one for the whole network
    smoothness: Tensor  # L_i, each agent's own, as the last look found it
    met: Tensor  # the sharpest curvature met in a step, slowly forgotten
    noise: Tensor  # r_i, mean square of a minibatch gradient's error
    error: Tensor  # P_i, mean square of the error of v_i, as expected


def direct_start(
    x0: Tensor, problem: Problem, network: Network, first_batch: int | None
) -> dict[str, Tensor]:
    """The rows at x0, with zero multipliers and a first minibatch gradient."""
    sent = network.exchange(x0)
    return {
        "k": torch.tensor(0),
        "x": x0.clone(),
        "v": problem.grad(x0, problem.sample(0, size=first_batch)),
        "lx": sent.laplacian(),
        "alpha_sum": torch.zeros_like(x0),
    }


def direct_step(
    algorithm: Any,
    state: Any,
    problem: Problem,
    network: Network,
) -> Any:
    """Make the next iterate of an `HSMADMM`."""
    s, k = state, state.k + 1
    rho, eta = algorithm.penalty(k, s), algorithm.inverse_step(k, network, s)
    x = problem.prox(s.x - (s.v - s.alpha_sum + rho * s.lx) / eta, 1 / eta)
    sent = network.exchange(x)  # travels while the gradients are computed

    g, g_old = grad_pair(problem, x, s.x, problem.sample(k))
    a, met = algorithm.momentum(s, x, g, g_old)
    v = g + (1 - a) * (s.v - g_old)

    lx = sent.laplacian()
    known = sent.pull() if algorithm.fresh else lx
    alpha_sum = s.alpha_sum - algorithm.gain * rho * lx
    return replace(s, k=k, x=x, v=v, lx=known, alpha_sum=alpha_sum, **met)
