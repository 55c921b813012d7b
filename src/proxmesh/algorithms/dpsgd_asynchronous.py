"""AD-PSGD: D-PSGD for agents that wait for nobody.

An agent averages with the newest model of one neighbor, in turn, and steps along the
minibatch gradient at its own model::

    x_i <- prox of alpha h at (x_i + x_j) / 2 - alpha grad f_i(x_i; xi)

In the paper (Lian, Zhang, Zhang, Liu: Asynchronous Decentralized Parallel Stochastic
Gradient Descent, ICML 2018) both ends of the edge average at the same moment, with a
neighbor drawn at random. Here only the one that steps does, so that nobody waits for an
answer: the mean of all models is not kept, and slow agents count for less.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.algorithms.dpsgd import DPSGD
from proxmesh.schedules import scheduled
from proxmesh.types import Heard, Neighborhood, Problem

__all__ = ["DPSGDAsynchronous", "DPSGDAsynchronousState"]


@final
@dataclass(frozen=True, slots=True)
class DPSGDAsynchronousState:
    """The state of AD-PSGD at a clock."""

    k: Tensor  # the clock, 0-d int64
    x: Tensor  # the models, [n_local, p]
    count: Tensor  # steps that the agent has made itself, [n_local, 1]


@final
class DPSGDAsynchronous:
    """The asynchronous form of a `DPSGD`.

    Parameters
    ----------
    algorithm
        Its step size is a function of the clock.

    Examples
    --------
    >>> DPSGDAsynchronous(DPSGD(alpha=0.1)).state_kind.__name__
    'DPSGDAsynchronousState'
    """

    state_kind = DPSGDAsynchronousState

    def __init__(self, algorithm: DPSGD) -> None:
        self.algorithm = algorithm

    def start(self, x0: Tensor, problem: Problem) -> DPSGDAsynchronousState:
        """The rows; nothing is drawn."""
        del problem
        zeros = x0.new_zeros(len(x0), 1)
        return DPSGDAsynchronousState(torch.tensor(0), x0.clone(), zeros)

    def begin(self, state: DPSGDAsynchronousState) -> None:
        """Nothing: all is in the state."""

    def adapt(self, age: float, after: int) -> None:
        """Nothing: there are no multipliers."""

    def held(self, state: DPSGDAsynchronousState, clock: int) -> DPSGDAsynchronousState:
        """The same rows."""
        return replace(state, k=torch.tensor(clock))

    def kept(self, state: DPSGDAsynchronousState) -> Tensor:
        """The rows."""
        return state.x

    def message(self, kept: Tensor, clock: int) -> Tensor:
        """The rows, at every clock."""
        del clock
        return kept

    def step(
        self,
        state: DPSGDAsynchronousState,
        clock: int,
        heard: Sequence[Heard],
        *,
        problem: Problem,
        neighborhood: Neighborhood,
        send: Callable[[Any], None],
    ) -> DPSGDAsynchronousState:
        """Average with one neighbor, then step."""
        s, alpha = state, scheduled(self.algorithm.alpha)(clock)
        g = problem.grad(s.x, problem.sample(clock))
        edges = torch.cat([one.edges for one in heard], 1)
        rows = torch.cat([one.rows.to(s.x) for one in heard])
        turn = s.count % neighborhood.degree + 1
        chosen = edges * (edges.cumsum(1) == turn)  # one neighbor of each
        x = (s.x + chosen @ rows) / 2 - alpha * g
        x = problem.prox(x, alpha) if self.algorithm.prox else x
        send(x)
        return DPSGDAsynchronousState(torch.tensor(clock), x, s.count + 1)
