"""Penalty and smoothness that follow the losses along the path of a run.

Before the run and after iterations 8, 16, 32, ... every agent looks at the curvature of
its own loss at its own model, and at how far it is from its neighbors. Its smoothness
is its own; the penalty is one number for all, the mean of what the agents ask for.
docs/theory.md says why, and what is certified.
"""

import dataclasses
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from proxmesh.algorithms.hsm_admm import HSMADMM, LOOK
from proxmesh.graphs import Graph
from proxmesh.theory.smoothness import (
    NotFiniteError,
    Smoothness,
    estimate_smoothness,
)
from proxmesh.theory.spectra import LINEARIZED, Spectra
from proxmesh.types import Problem, World

__all__ = [
    "Looks",
    "asked_of_penalty",
    "ratio_for",
    "rounded",
    "sharpness",
    "slowness",
]

SHARE_OF_SMOOTHNESS = 0.6  # of the sharpness in the step: stable from 1/2 on
SHARE_AT_FIRST = 0.2  # of the sharpness in the first penalty, by degree + 1
LEAST_SHARE, LARGEST_SHARE = 0.04, 1.5  # along the path
SHARE_OF_LOWER = 3.7  # of the negative curvature, which neighbors must hold back
TO_SPARE = 1.05  # of c_eta / c_rho, above what this graph needs
SLOW_MODE = 0.3  # a network with a slower mode gets a stiffer penalty
BALANCE = 0.2  # n times the disagreement with neighbors, over an agent's own residual
SLOWEST_FALL, FASTEST_RISE = 0.5, 2.0  # from one look to the next
DIGITS = 4  # more would be rounding, which differs between engines


def rounded(values: Tensor) -> Tensor:
    """Four digits: every engine then goes on with the same numbers."""
    scale = 10 ** (values.abs().log10().floor() - DIGITS + 1)
    return torch.where(values == 0, 0, (values / scale).round() * scale)


def sharpness(found: Smoothness) -> Tensor:
    """``E |H_xi u|^2 / |H u|`` in the sharpest direction u, ``[n_local]``, in float64.

    A STORM estimate is multiplied by ``I - H_xi / eta`` in each step; half of this is
    what eta must exceed for its mean square to shrink.
    """
    upper = found.upper.double()
    noisy = found.mean_square.double().square() / upper
    return torch.where(upper > 0, torch.maximum(upper, noisy), 0)


def asked_of_penalty(share: float, sharp: Tensor, lower: Tensor) -> Tensor:
    """What an agent's curvatures ask of the penalty, by its degree + 1."""
    negative = (-lower).clamp_min(0)
    return torch.maximum(share * sharp, SHARE_OF_LOWER * negative)


def ratio_for(algorithm: HSMADMM, graph: Graph) -> float:
    """c_eta / c_rho: as small as the steps are stable on this graph, for any prox."""
    weight = algorithm.step_weight(graph.degrees, graph.max_degree)
    own = float(algorithm.split)
    weights = np.broadcast_to(weight, (graph.n,))
    return TO_SPARE * LINEARIZED * Spectra(graph).largest(weights, own=own)


def slowness(graph: Graph, weight: Any) -> float:
    """How much stiffer the penalty must be for the network's slowest mode."""
    slowest = Spectra(graph).slowest(np.broadcast_to(weight, (graph.n,)))
    factor: float = max(1.0, SLOW_MODE / slowest) ** 0.5
    return factor


@final
@dataclass(frozen=True, slots=True)
class Looks:
    """Looks at the losses again along the path; every process makes the same calls.

    `proxmesh.solve` does it by itself. In a loop of your own, call ``looks(state)``
    before every step.

    Parameters
    ----------
    algorithm
        HSM-ADMM with its first values, as `settled` returns it.
    problem
        This process's part.
    world, graph
        The network of the run, and its topology.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(4))
    >>> graph, x = pm.graphs.ring(4), problem.x0()
    >>> world = pm.connect(graph, dtype=x.dtype)
    >>> algorithm = pm.theory.settled(pm.HSMADMM(), problem, world, graph, x).algorithm
    >>> looks = Looks(algorithm, problem, world, graph)
    >>> state = algorithm.init(x, problem, world)
    >>> for _ in range(20):
    ...     state = algorithm.step(looks(state), problem, world)
    >>> len(state.rho.unique()), len(state.smoothness)  # one for all; each its own
    (1, 4)
    """

    algorithm: HSMADMM
    problem: Problem
    world: World
    graph: Graph

    def __call__(self, state: Any) -> Any:
        """The state with what a look found, if one is due before its next iteration.

        Parameters
        ----------
        state
            Of the run.
        """
        if not self.algorithm.looks_after(int(state.k)):
            return state
        asked, smoothness = state.rho.double(), state.smoothness
        # A run that has blown up ends at its next evaluation, on all ranks at once.
        with suppress(NotFiniteError):
            look = dataclasses.asdict(LOOK)
            found = estimate_smoothness(self.problem, state.x, **look)
            sharp = sharpness(found)
            asked = self._asked(state, sharp, found.lower.double())
            own = rounded(SHARE_OF_SMOOTHNESS * sharp)[:, None].to(smoothness)
            smoothness = torch.maximum(own, SLOWEST_FALL * smoothness)
        rho = rounded(self.world.reduce(asked, "mean")).to(state.rho)
        return dataclasses.replace(
            state,
            rho=rho.expand_as(state.rho).contiguous(),
            smoothness=smoothness,
        )

    def _asked(self, state: Any, sharp: Tensor, lower: Tensor) -> Tensor:
        """The penalty that each local agent asks for, ``[n_local, 1]``.

        Larger while it is far from its neighbors, compared with its own residual, and
        within what the curvature of its loss allows.
        """
        world, algorithm, graph = self.world, self.algorithm, self.graph
        residual = state.v - state.alpha_sum
        if algorithm.split:
            residual = residual - state.beta
        apart = world.n * _squares(state.lx / world.degree)
        change = (apart / (BALANCE * _squares(residual))).sqrt().nan_to_num(1.0)
        change = change.clamp(SLOWEST_FALL, FASTEST_RISE)
        weights = algorithm.step_weight(graph.degrees, graph.max_degree)
        weight = algorithm.step_weight(world.degree, world.max_degree)
        stiffer = slowness(graph, weights) / weight
        least, largest = (
            stiffer * asked_of_penalty(share, sharp, lower)[:, None].to(state.x.device)
            for share in (LEAST_SHARE, LARGEST_SHARE)
        )
        asked = (change * state.rho.double()).clamp(least, largest)
        return torch.where(asked > 0, asked, state.rho.double())  # flat: as it is


def _squares(rows: Tensor) -> Tensor:
    """Squared length of each row, ``[n_local, 1]``, in float64."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return lengths.square()[:, None]
