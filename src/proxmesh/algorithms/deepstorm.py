"""DEEPSTORM: decentralized proximal stochastic methods with STORM momentum."""

from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.algorithms.gradients import grad_pair, storm_weight
from proxmesh.algorithms.mixing import mixed
from proxmesh.checks import require_positive, require_whole
from proxmesh.errors import unknown
from proxmesh.schedules import Power
from proxmesh.types import Cost, Network, Problem

__all__ = ["DEEPSTORM", "DEEPSTORMState"]


@final
@dataclass(frozen=True, slots=True)
class DEEPSTORMState:
    """The state of DEEPSTORM after iteration k; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the models, out of the prox
    wx: Tensor  # the models mixed: sent together with the trackers
    v: Tensor  # STORM estimators of the local gradients
    y: Tensor  # trackers: their sum is that of v


@final
@dataclass(frozen=True, slots=True)
class DEEPSTORM:
    """Mix, take a proximal step along the tracker, then update estimator and tracker.

    An iteration is, for every agent i at once::

        x_i <- prox of a_k h at (W_T x)_i - a_k y_i,      a_k = alpha / (k + k0)^(1/3)
        v_i <- V + (1 - b_k) (v_i - U)                              (version 2)
        v_i <- (1 - b_k) (v_i + V - U) + b_k V'                     (version 1)
        y_i <- W_T (y + v new - v old)

    where V and U are gradients at the new and the old x_i on one minibatch, V' one at
    the new x_i on an independent one, k counts from 0 and
    ``b_k = min(1, 1 - a_{k+1}/a_k + beta a_{k+1}^2)``. W_T is T rounds of mixing, plain
    or Chebyshev-accelerated (which reads ``mixing_lambda``).

    Cost of an iteration: 2T vectors to each neighbor in T rounds; 2 minibatch gradients
    (version 2) or 3 (version 1).

    Parameters
    ----------
    version
        2, or 1 with its independent second batch.
    alpha
        Scale of the step a_k.
    k0
        Offset of its schedule: the first step is ``alpha / k0^(1/3)``.
    beta
        Weight of ``a_{k+1}^2`` in the momentum b_k; the larger it is, the sooner old
        gradients are forgotten.
    rounds
        T, rounds of mixing per iteration.
    chebyshev
        Whether these rounds are accelerated; this needs the second eigenvalue of W, a
        global fact. With one round it changes nothing.

    Examples
    --------
    >>> DEEPSTORM(alpha=0.5, k0=8).a(1)
    0.25
    >>> DEEPSTORM(version=1).cost(1)
    Cost(vectors=2, rounds=1, gradients=3, batch=None)

    References
    ----------
    Mancino-Ball, Miao, Xu, Chen: Proximal Stochastic Recursive Momentum Methods for
    Nonconvex Composite Decentralized Optimization, AAAI 2023, arXiv:2211.11954.
    """

    version: Literal[1, 2] = 2
    alpha: float = 1.25
    k0: int = 5
    beta: float = 1.984
    rounds: int = 1
    chebyshev: bool = False

    def __post_init__(self) -> None:
        if self.version not in {1, 2}:
            raise unknown("version", self.version, ["1", "2"], of="DEEPSTORM")
        require_positive("DEEPSTORM", alpha=self.alpha, beta=self.beta)
        require_whole("DEEPSTORM", 1, k0=self.k0, rounds=self.rounds)

    @property
    def a(self) -> Power:
        """The step sizes: ``a(k)`` makes iterate k (k = 1, 2, ...)."""
        return Power(self.alpha, -1 / 3, self.k0 - 1)

    def init(self, x0: Tensor, problem: Problem, network: Network) -> DEEPSTORMState:
        """Start at x0 with a first minibatch gradient, mixed into the trackers."""
        require_fit(x0, network)
        v = problem.grad(x0, problem.sample(0))
        wx, y = self._mixed(network, x0, v)
        return DEEPSTORMState(k=torch.tensor(0), x=x0.clone(), wx=wx, v=v, y=y)

    def step(
        self, state: DEEPSTORMState, problem: Problem, network: Network
    ) -> DEEPSTORMState:
        """Make the next iterate; x and the tracker travel in one message."""
        s, k = state, state.k + 1
        a, a_next = self.a(k), self.a(k + 1)
        b = storm_weight(a, a_next, self.beta)

        x = problem.prox(s.wx - a * s.y, a)
        g, g_old = grad_pair(problem, x, s.x, problem.sample(k))
        if self.version == 2:
            v = g + (1 - b) * (s.v - g_old)
        else:
            fresh = problem.grad(x, problem.sample(k, stream=1))
            v = (1 - b) * (s.v + g - g_old) + b * fresh
        wx, y = self._mixed(network, x, s.y + v - s.v)
        return DEEPSTORMState(k=k, x=x, wx=wx, v=v, y=y)

    def cost(self, k: int) -> Cost:
        """2T vectors in T rounds; one gradient in `init`, then two or three."""
        gradients = (3 if self.version == 1 else 2) if k else 1
        return Cost(2 * self.rounds, self.rounds, gradients)

    def _mixed(self, network: Network, *rows: Tensor) -> tuple[Tensor, ...]:
        together = torch.stack(rows, dim=1)
        return mixed(network, together, self.rounds, self.chebyshev).unbind(1)
