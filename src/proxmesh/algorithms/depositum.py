"""DEPOSITUM: proximal tracking with momentum and local updates."""

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.checks import require_nonnegative, require_step, require_whole
from proxmesh.errors import InputError
from proxmesh.schedules import Step, scheduled
from proxmesh.types import Cost, Network, Problem

__all__ = ["DEPOSITUM", "DEPOSITUMState"]

NEVER = 2**62  # a period that no run lives to see


@final
@dataclass(frozen=True, slots=True)
class DEPOSITUMState:
    """The state of DEPOSITUM after iteration k; all rows are ``[n_local, p]``."""

    k: Tensor  # finished iterations, 0-d int64
    x: Tensor  # the models, mixed where neighbors talk
    z: Tensor  # the rows out of the prox, before mixing
    m: Tensor  # momentum of the trackers
    y: Tensor  # trackers: their sum is that of g
    g: Tensor  # last gradients

    @property
    def sparse(self) -> Tensor:
        """The rows that come out of the prox."""
        return self.z


@final
@dataclass(frozen=True, slots=True)
class DEPOSITUM:
    """Average the tracker over time, take a proximal step, talk now and then.

    The step that makes iterate k (k = 1, 2, ...) is, for every agent i at once::

        m_i <- momentum m_i + (1 - momentum) y_i
        x_i <- W_k (prox of alpha h at x - alpha m)
        g_i <- grad f_i(x_i new; xi)
        y_i <- W_k (y + g new - g old)

    where W_k mixes with the neighbors in every `period`-th iteration and does nothing
    in the others, which are local. The limit is exact, local iterations or not.

    The problem, tracking, momentum and local updates are those of the paper's abstract;
    the formulas are the usual ones for these parts, with the gradient scale at 1 (any
    other would move the solution). They could not be compared with the published ones.

    Cost of an iteration: 1 minibatch gradient, and in every `period`-th 2 vectors to
    each neighbor in 2 rounds.

    Parameters
    ----------
    alpha
        Step size, a number or a schedule.
    momentum
        Weight of the past in m, from 0 up to but not including 1.
    period
        T0: neighbors talk in every T0-th iteration; 1: in all.

    Examples
    --------
    >>> [DEPOSITUM(period=2).cost(k).vectors for k in (1, 2, 3, 4)]
    [0, 2, 0, 2]
    >>> DEPOSITUM(momentum=1.0)
    Traceback (most recent call last):
    proxmesh.errors.InputError: DEPOSITUM: `momentum` must be below 1, got 1.0.

    References
    ----------
    Zhou et al., arXiv:2504.12742.
    """

    alpha: Step = 0.3
    momentum: float = 0.8
    period: int = 1

    def __post_init__(self) -> None:
        require_step("DEPOSITUM", alpha=self.alpha)
        require_nonnegative("DEPOSITUM", momentum=self.momentum)
        require_whole("DEPOSITUM", 1, period=self.period)
        if self.momentum >= 1:
            raise InputError(
                f"DEPOSITUM: `momentum` must be below 1, got {self.momentum}."
            )

    def init(self, x0: Tensor, problem: Problem, network: Network) -> DEPOSITUMState:
        """Start at x0 with a first minibatch gradient, which is the tracker too."""
        require_fit(x0, network)
        g = problem.grad(x0, problem.sample(0))
        return DEPOSITUMState(
            k=torch.tensor(0),
            x=x0.clone(),
            z=x0.clone(),
            m=torch.zeros_like(x0),
            y=g.clone(),
            g=g,
        )

    def step(
        self, state: DEPOSITUMState, problem: Problem, network: Network
    ) -> DEPOSITUMState:
        """Make the next iterate."""
        s, k = state, state.k + 1
        talks = self._talks(k)
        alpha = scheduled(self.alpha)(k)
        m = self.momentum * s.m + (1 - self.momentum) * s.y
        z = problem.prox(s.x - alpha * m, alpha)
        x = network.exchange(z).mix() if talks else z
        g = problem.grad(x, problem.sample(k))
        y = s.y + g - s.g
        if talks:
            y = network.exchange(y).mix()
        return DEPOSITUMState(k=k, x=x, z=z, m=m, y=y, g=g)

    def cost(self, k: int) -> Cost:
        """One gradient, also in `init`; two vectors where neighbors talk."""
        sent = 2 if k and self._talks(k) else 0
        return Cost(vectors=sent, rounds=sent, gradients=1)

    def at(self, k: int) -> "DEPOSITUM":
        """Return the method that does at every k what this one does at iteration k.

        Parameters
        ----------
        k
            An iteration, from 1.

        Examples
        --------
        >>> DEPOSITUM(period=4).at(8).period
        1
        """
        return replace(self, period=1 if self._talks(k) else NEVER)

    def _talks(self, k: int | Tensor) -> bool:
        if self.period in {1, NEVER}:
            return self.period == 1
        return int(k) % self.period == 0
