"""What HSM-ADMM remembers, in its usual form."""

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.types import Problem, has_distance, has_full_gradient

__all__ = ["FOLLOWED", "HSMADMMFollowingState", "HSMADMMState", "met_on_the_way"]

LEAST_SHARE_OF_NOISE = 0.05  # of the newest error in the mean of squared errors
NOISY_SHARE = 0.1  # of a difference of gradients, squared: what minibatches differ in
FOLLOWED = ("rho", "smoothness", "met", "noise", "error")  # along the path
KEPT_OF_THE_SHARPEST = 0.99  # from one iteration to the next


@dataclass(frozen=True, slots=True)
class HSMADMMState:
    """The state of HSM-ADMM after iteration k; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # primal copies x_i: the models
    y: Tensor  # splitting copies y_i: the prox side, exactly sparse under l1
    v: Tensor  # STORM estimators of the local gradients
    lx: Tensor  # (L x)_i of the current x: one exchange serves two updates
    alpha_sum: Tensor  # sum_j alpha_ij: no multiplier is stored per edge
    beta: Tensor  # multipliers of x_i = y_i

    @property
    def sparse(self) -> Tensor:
        """The rows that come out of the prox."""
        return self.y

    def kkt_residual(self, problem: Problem) -> Tensor | None:
        """Each agent's part of ``dist^2(0, dL(x, y, lambda))``, ``[n_local]``.

        ``|grad f_i(x_i) - sum_j alpha_ij - beta_i|^2 + dist^2(-beta_i, dh(y_i))
        + <x_i, (L x)_i> + |x_i - y_i|^2``: stationarity in x and in y, then the two
        constraints. None for a problem without `full_grad` and `distance`.
        """
        in_y = problem.distance(-self.beta, self.y) if has_distance(problem) else None
        if in_y is None or not has_full_gradient(problem):
            return None
        in_x = problem.full_grad(self.x) - self.alpha_sum - self.beta
        edges = (self.x * self.lx).sum(1)
        copies = (self.x - self.y).square().sum(1)
        return in_x.square().sum(1) + in_y + edges + copies


@final
@dataclass(frozen=True, slots=True)
class HSMADMMFollowingState(HSMADMMState):
    """The same with what follows the losses along the path, ``[n_local, 1]``."""

    rho: Tensor  # the penalty, one for the whole network
    smoothness: Tensor  # L_i, each agent's own, as the last look found it
    met: Tensor  # the sharpest curvature met in a step, slowly forgotten
    noise: Tensor  # r_i, mean square of a minibatch gradient's error
    error: Tensor  # P_i, mean square of the error of v_i, as expected


def met_on_the_way(
    state: Any, x: Tensor, g: Tensor, g_old: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """The a that each agent's steps ask for, and what they have met.

    With D the difference of the gradients at the new and at the old rows: an estimate
    whose error is P + q |D|^2 before a gradient with noise r is best corrected by a
    Kalman filter's gain. A correction that is larger than the noise tells nothing:
    ``|D|^2 / (|D|^2 + r)`` makes the estimate start afresh.
    """
    tiny = torch.finfo(x.dtype).tiny
    moved, change = _square(x - state.x), _square(g - g_old)
    share = (1 / (state.k + 2)).clamp(min=LEAST_SHARE_OF_NOISE)
    noise = torch.lerp(state.noise, _square(g_old - state.v), share.to(x))
    curvature = (change / moved.clamp_min(tiny)).sqrt()
    before = torch.where(state.k == 0, noise, state.error) + NOISY_SHARE * change
    gain = before / (before + noise).clamp_min(tiny)
    afresh = change / (change + noise).clamp_min(tiny)
    return torch.maximum(gain, afresh), {
        "met": torch.maximum(curvature, KEPT_OF_THE_SHARPEST * state.met),
        "noise": noise,
        "error": (1 - gain) * before,
    }


def _square(rows: Tensor) -> Tensor:
    """Squared length of each row, ``[n_local, 1]``."""
    return rows.square().sum(1, keepdim=True)
