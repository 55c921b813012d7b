"""ProxGT: proximal gradient tracking, with plain or SPIDER-type estimators."""

from dataclasses import dataclass, replace
from typing import Any, Literal, final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.algorithms.gradients import full_gradient, grad_pair, lacking
from proxmesh.algorithms.mixing import mixed
from proxmesh.checks import require_step, require_whole
from proxmesh.errors import unknown
from proxmesh.schedules import Step, scheduled
from proxmesh.types import Cost, Network, Problem, has_full_gradient

__all__ = ["ProxGT", "ProxGTState"]

NEVER = 2**62  # a period that no run lives to see
ESTIMATORS = ("sa", "sr-o", "sr-e")


@final
@dataclass(frozen=True, slots=True)
class ProxGTState:
    """The state of ProxGT after iteration k; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the models, mixed
    x_old: Tensor  # the models before, for the recursive estimator
    z: Tensor  # the rows out of the prox, before mixing
    v: Tensor  # estimators of the local gradients
    y: Tensor  # trackers: their sum is that of v

    @property
    def sparse(self) -> Tensor:
        """The rows that come out of the prox."""
        return self.z


@final
@dataclass(frozen=True, slots=True)
class ProxGT:
    """Estimate, track, take a proximal step, mix.

    An iteration is, for every agent i at once::

        v_i <- estimate of grad f_i(x_i)
        y_i <- W^K (y + v new - v old)
        z_i <- prox of alpha h at x_i - alpha y_i
        x_i <- W^K z

    The estimate is, for ``estimator``

    - ``"sa"``: a minibatch gradient;
    - ``"sr-o"``: a gradient of `large_batch` samples every `period` iterations, in
      between v_i + grad f_i(x_i; xi) - grad f_i(x_i old; xi);
    - ``"sr-e"``: the same with the gradient over the whole shard.

    Cost of an iteration: 2K vectors to each neighbor in 2K rounds; 1 minibatch gradient
    (sa), or 2 and every `period` iterations 1 of the large batch instead (sr).

    Parameters
    ----------
    estimator
        ``"sa"``, ``"sr-o"`` or ``"sr-e"``, as above.
    alpha
        Step size, a number or a schedule.
    period
        q, iterations from one large gradient to the next; ``"sa"`` has none.
    large_batch
        B, samples of that gradient, for ``"sr-o"``.
    rounds
        K, rounds of mixing, twice per iteration.

    Examples
    --------
    >>> ProxGT("sr-o", period=4, large_batch=100).cost(5)
    Cost(vectors=2, rounds=2, gradients=1, batch=100)

    References
    ----------
    Xin, Das, Khan, Kar: A stochastic proximal gradient framework for decentralized
    non-convex composite optimization, arXiv:2110.01594.
    """

    estimator: Literal["sa", "sr-o", "sr-e"] = "sr-o"
    alpha: Step = 0.3
    period: int = 32
    large_batch: int = 2048
    rounds: int = 1

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATORS:
            raise unknown("estimator", self.estimator, ESTIMATORS, of="ProxGT")
        require_step("ProxGT", alpha=self.alpha)
        require_whole(
            "ProxGT",
            1,
            period=self.period,
            large_batch=self.large_batch,
            rounds=self.rounds,
        )

    def init(self, x0: Tensor, problem: Problem, network: Network) -> ProxGTState:
        """Start at x0 with estimators and trackers at 0."""
        require_fit(x0, network)
        if self.estimator == "sr-e" and not has_full_gradient(problem):
            raise lacking("ProxGT", problem, "full_grad")
        return ProxGTState(
            k=torch.tensor(0),
            x=x0.clone(),
            x_old=x0.clone(),
            z=x0.clone(),
            v=torch.zeros_like(x0),
            y=torch.zeros_like(x0),
        )

    def step(
        self, state: ProxGTState, problem: Problem, network: Network
    ) -> ProxGTState:
        """Make the next iterate."""
        s, k = state, state.k + 1
        alpha = scheduled(self.alpha)(k)
        v = self._estimate(s, k, problem)
        y = mixed(network, s.y + v - s.v, self.rounds)
        z = problem.prox(s.x - alpha * y, alpha)
        x = mixed(network, z, self.rounds)
        return ProxGTState(k=k, x=x, x_old=s.x, z=z, v=v, y=y)

    def cost(self, k: int) -> Cost:
        """2K vectors in 2K rounds; gradients as the estimator needs them."""
        sent = 2 * self.rounds
        if k == 0:
            return Cost(0, 0, 0)
        if self.estimator == "sa":
            return Cost(sent, sent, gradients=1)
        if not self._refreshes(k):
            return Cost(sent, sent, gradients=2)
        if self.estimator == "sr-e":
            return Cost(sent, sent, gradients=1, batch="shard")
        return Cost(sent, sent, gradients=1, batch=self.large_batch)

    def _estimate(self, s: ProxGTState, k: Tensor, problem: Problem) -> Any:
        if self.estimator == "sa":
            return problem.grad(s.x, problem.sample(k))
        if not self._refreshes(k):
            g, g_old = grad_pair(problem, s.x, s.x_old, problem.sample(k))
            return s.v + g - g_old
        if self.estimator == "sr-e":
            return full_gradient("ProxGT", problem, s.x)
        return problem.grad(s.x, problem.sample(k, size=self.large_batch))

    def at(self, k: int) -> "ProxGT":
        """Return the method that does at every k what this one does at iteration k.

        Parameters
        ----------
        k
            An iteration, from 1.

        Examples
        --------
        >>> ProxGT("sr-o", period=4).at(5).period
        1
        """
        if self.estimator == "sa":
            return self
        return replace(self, period=1 if self._refreshes(k) else NEVER)

    def _refreshes(self, k: int | Tensor) -> bool:
        if self.period in {1, NEVER}:
            return self.period == 1
        return (int(k) - 1) % self.period == 0
