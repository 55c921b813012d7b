"""HSM-ADMM for agents that wait for nobody.

Neighbors are told ``U_i(t) = Z_i(t) + rho(t + 1) x_i(t)``, where Z_i adds up gamma rho
x_i over all ticks t of the clock, those at which the agent stood still included. With
a message of clock t the agent compares what it had itself at t, so that the two ends of
an edge mean the same whenever both have heard of the same t::

    x_i <- x_i - (v_i - beta_i + rho (x_i - y_i)
                  + sum_j [U_i(t_j) - U_j(t_j) + rho (x_i - x_i(t_j))]) / eta_i

A message says it all: one that is late, or never comes, makes an edge old, not wrong.
The gain gamma follows the age of messages. It need not change at all agents at the same
tick: whatever Z_i is, the forces of an edge on its two ends add up to 0.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.algorithms.gradients import grad_pair
from proxmesh.algorithms.hsm_admm import HSMADMM
from proxmesh.types import Heard, Neighborhood, Problem

__all__ = ["HSMADMMAsynchronous", "HSMADMMAsynchronousState", "Kept"]

FIRST_GAIN = 0.1  # until the age of messages is known


@final
@dataclass(frozen=True, slots=True)
class HSMADMMAsynchronousState:
    """The state of agents that wait for nobody; all rows are ``[n_local, p]``."""

    k: Tensor  # the clock, 0-d int64
    x: Tensor  # primal copies x_i: the models
    y: Tensor  # splitting copies y_i: the prox side, exactly sparse under l1
    v: Tensor  # STORM estimators of the local gradients
    z: Tensor  # gamma rho x, summed over all ticks of the clock, in float64
    beta: Tensor  # multipliers of x_i = y_i
    count: Tensor  # steps that the agent has made itself, [n_local, 1]
    gain: Tensor  # gamma, [n_local, 1]

    @property
    def sparse(self) -> Tensor:
        """The rows that come out of the prox."""
        return self.y


@final
@dataclass(frozen=True, slots=True)
class Kept:
    """What is remembered of a state: enough for U at its clock and later."""

    k: int
    x: Tensor
    z: Tensor


@final
class HSMADMMAsynchronous:
    """The asynchronous form of an `HSMADMM` whose constants are given.

    Parameters
    ----------
    algorithm
        With a penalty that is a function of k alone.

    Examples
    --------
    >>> form = HSMADMMAsynchronous(HSMADMM(c_rho=0.3, c_eta=0.6, c_a=1.0))
    >>> form.state_kind.__name__
    'HSMADMMAsynchronousState'
    """

    state_kind = HSMADMMAsynchronousState

    def __init__(self, algorithm: HSMADMM) -> None:
        self.algorithm = algorithm
        self._sums = array("d", [0.0])  # of gamma rho from 1 to t
        self._changes = [(0, algorithm.dual_gain or FIRST_GAIN)]  # after these ticks

    def begin(self, state: HSMADMMAsynchronousState) -> None:
        """Go on with the gain that a state was made with."""
        if self.algorithm.dual_gain is None:
            self._changes = [(0, float(state.gain[0, 0]))]

    def adapt(self, age: float, after: int) -> None:
        """Half of the gain that is stable with messages of this age, from a tick on."""
        if self.algorithm.dual_gain is None:
            after = max(after, len(self._sums) - 1)
            self._changes.append((after, 1 / (2 * (1 + max(0.0, age)))))

    def gain(self, clock: int) -> float:
        """Gamma at this tick."""
        return next(g for after, g in reversed(self._changes) if after < clock)

    def start(self, x0: Tensor, problem: Problem) -> HSMADMMAsynchronousState:
        """Zero multipliers and a first minibatch gradient."""
        size = self.algorithm.first_batch
        return HSMADMMAsynchronousState(
            k=torch.tensor(0),
            x=x0.clone(),
            y=x0.clone(),
            v=problem.grad(x0, problem.sample(0, size=size)),
            z=torch.zeros_like(x0, dtype=torch.float64),
            beta=torch.zeros_like(x0),
            count=x0.new_zeros(len(x0), 1),
            gain=x0.new_full((len(x0), 1), self.gain(1)),
        )

    def held(
        self, state: HSMADMMAsynchronousState, clock: int
    ) -> HSMADMMAsynchronousState:
        """The rows stand still, and what they add up to grows."""
        if clock == int(state.k):
            return state
        return replace(
            state, k=torch.tensor(clock), z=self._sum(self.kept(state), clock)
        )

    def kept(self, state: HSMADMMAsynchronousState) -> Kept:
        """The rows, and what they have added up to."""
        return Kept(int(state.k), state.x, state.z)

    def message(self, kept: Kept, clock: int) -> Tensor:
        """U at this clock, in float64."""
        return self._sum(kept, clock) + self._rho(clock + 1) * kept.x

    def step(
        self,
        state: HSMADMMAsynchronousState,
        clock: int,
        heard: Sequence[Heard],
        *,
        problem: Problem,
        neighborhood: Neighborhood,
        send: Callable[[Any], None],
    ) -> HSMADMMAsynchronousState:
        """The next iterate; a bare name is new, ``s.`` is old."""
        s, algorithm = state, self.algorithm
        rho, eta = self._rho(clock), algorithm.inverse_step(clock, neighborhood)

        y = problem.prox(s.x - s.beta / rho, 1 / rho)
        pull = self._pull(s.x, rho, heard)
        x = s.x - (s.v + pull - s.beta + rho * (s.x - y)) / eta
        gain = self.gain(clock)
        z = self._sum(self.kept(s), clock - 1) + gain * rho * x
        send(Kept(clock, x, z))  # travels while the gradients are computed

        g, g_old = grad_pair(problem, x, s.x, problem.sample(clock))
        v = g + (1 - algorithm.a(clock + 1)) * (s.v - g_old)
        return HSMADMMAsynchronousState(
            k=torch.tensor(clock),
            x=x,
            y=y,
            v=v,
            z=z,
            beta=s.beta - rho * (x - y),
            count=s.count + 1,
            gain=torch.full_like(s.gain, gain),
        )

    def _pull(self, x: Tensor, rho: float, heard: Sequence[Heard]) -> Tensor:
        """``sum_j [U_i(t_j) - U_j(t_j) + rho (x_i - x_i(t_j))]``."""
        found = torch.zeros_like(x)
        for one in heard:
            then: Kept = one.then
            apart = one.differences(self.message(then, one.clock))
            found = found + apart.to(x.dtype) + rho * one.count * (x - then.x)
        return found

    def _rho(self, clock: int) -> float:
        return float(self.algorithm.rho(clock))

    def _sum(self, kept: Kept, clock: int) -> Tensor:
        """Z at this clock: gamma rho of the ticks since, times x, on top."""
        if clock == kept.k:
            return kept.z
        since = self._summed(clock) - self._summed(kept.k)
        return kept.z + since * kept.x

    def _summed(self, clock: int) -> float:
        """``sum of gamma(s) rho(s) for s from 1 to the clock``."""
        for tick in range(len(self._sums), clock + 1):
            self._sums.append(self._sums[-1] + self.gain(tick) * self._rho(tick))
        return self._sums[clock]
