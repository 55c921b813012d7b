"""Which c_rho, c_eta, c_a? Constants from the curvature of the losses and the graph.

With nothing given they are the first values of a rule that follows the losses along the
path (`following`). With ``follow=False``, or beside constants that are given, they are
found once: the step is ``eta_i = c_eta (d_i + 1) k^(1/3) + L_f``, L_f the smoothness of
the losses: stable on every graph from the first iteration on (docs/theory.md), and
long, since L_f does not grow. The penalty is as small as holds the agents together.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from proxmesh.algorithms import HSMADMM
from proxmesh.algorithms.hsm_admm import LOOK, USUAL_MOMENTUM
from proxmesh.errors import InputError
from proxmesh.graphs import Graph
from proxmesh.theory.following import (
    SHARE_AT_FIRST,
    SHARE_OF_SMOOTHNESS,
    asked_of_penalty,
    ratio_for,
    sharpness,
    slowness,
)
from proxmesh.theory.smoothness import (
    STREAM,
    Smoothness,
    estimate_smoothness,
    is_large,
    require_finite,
)
from proxmesh.theory.spectra import Spectra, Vector
from proxmesh.types import Algorithm, Problem, World, facts_of, has_step_bound

__all__ = ["Settled", "settled", "settled_for"]

RATIO = 1.6  # c_eta / c_rho: stable on every graph, with a little to spare
SHARE_OF_UPPER = 0.05  # of the largest curvature that the penalty takes
SHARE_OF_LOWER = 0.2  # of the negative curvature
SHARE_APART = 0.25  # of the negative curvature, where agents pull apart
HELD_BY_NEIGHBORS = 0.07  # of the same, by the connectivity of the graph
STIFFEST = 4.0  # penalty over curvature, on networks with few connections
SLOW_MODE = 0.3  # a slower network gets a stiffer penalty
PAPERS_RULE = 1.6  # without L_f in the step; trains, but is not certified at first
MOMENTUM_OF_NOISE = 0.04
MOST_MOMENTUM = 10.0
SAMPLES = 256  # of an agent, for its first gradient


@final
@dataclass(frozen=True, slots=True)
class Settled:
    """An algorithm with all its constants, and what was measured to find them.

    Parameters
    ----------
    algorithm
        With nothing missing.
    automatic
        Names of the options that were found, not given.
    smoothness
        Curvature of the local agents' losses; None if nothing was measured.
    upper, lower
        Largest and lowest curvature over the whole network.

    Examples
    --------
    >>> import proxmesh as pm
    >>> Settled(pm.DSGT()).automatic
    ()
    """

    algorithm: Any
    automatic: tuple[str, ...] = ()
    smoothness: Smoothness | None = None
    upper: float = 0.0
    lower: float = 0.0

    @property
    def constants(self) -> dict[str, float]:
        """The constants that were found, by name."""
        known = self.algorithm.constants if self.automatic else {}
        return {name: known[name] for name in self.automatic if name in known}

    def __str__(self) -> str:
        if self.smoothness is None:
            return str(self.algorithm)
        found = ", ".join(f"{n} {value:.3g}" for n, value in self.constants.items())
        again = "; found again along the path" if "follow" in self.automatic else ""
        return (
            f"{found + ' from ' if found else ''}largest curvature {self.upper:.3g}, "
            f"lowest {self.lower:.2g} ({self.smoothness.products} Hessian-vector "
            f"products per agent, {self.smoothness.seconds:.2g} s){again}"
        )


def settled(
    algorithm: Algorithm[Any],
    problem: Problem,
    world: World,
    graph: Graph,
    x: Tensor,
    *,
    always: bool = False,
) -> Settled:
    """Find the constants that were left out; given ones stay as they are.

    Every agent looks at its own loss at its own row of x. What is global are reductions
    before the run, of the mean gradient and of four numbers: c_rho must be the same at
    both ends of every edge.

    Parameters
    ----------
    algorithm, problem, world, graph, x
        Of the run, before its first iteration.
    always
        Measure the curvature even if no constant is missing.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(4))
    >>> graph, x = pm.graphs.ring(4), problem.x0()
    >>> world = pm.connect(graph, dtype=x.dtype)
    >>> settled(pm.HSMADMM(), problem, world, graph, x).automatic
    ('c_rho', 'c_eta', 'smoothness', 'follow')
    >>> settled(pm.HSMADMM(c_rho=1.0), problem, world, graph, x).automatic
    ('c_eta', 'c_a', 'smoothness')
    """
    if always and has_step_bound(algorithm):
        return _looked_at(algorithm, problem, world, x)
    if not isinstance(algorithm, HSMADMM) or not (always or algorithm.missing):
        return Settled(algorithm)
    weight = algorithm.step_weight(world.degree[:, 0], world.max_degree)
    if algorithm.follows and algorithm.missing:
        _first_gradient(problem, x, facts_of(problem).batch_size or SAMPLES)
        found = estimate_smoothness(problem, x, **dataclasses.asdict(LOOK))
        return _first_look(algorithm, found, world, graph, weight)
    found = estimate_smoothness(problem, x)
    pull = _pull(problem, world, x) if algorithm.missing else 0.0
    numbers = torch.stack([found.upper, -found.lower, found.noise / weight], dim=1)
    upper, down, noise = world.reduce(numbers.to(x.device), "max").tolist()
    asked = _demand(found.upper, found.lower, pull) / weight
    demand = world.reduce(asked.to(x.device), "mean").item()
    if demand == 0:  # flat at the start: no scale to go by
        upper, demand = 1.0, SHARE_OF_UPPER / world.max_degree
    known = _Known(upper, max(down, 0.0), demand, noise, pull)
    filled = _filled(algorithm, known, graph)
    return Settled(filled, algorithm.missing, found, upper, -down)


def _first_look(
    algorithm: HSMADMM, found: Smoothness, world: World, graph: Graph, weight: Any
) -> Settled:
    """What a run begins with whose penalty and smoothness follow the losses."""
    sharp, lower = sharpness(found), found.lower.double()
    asked = asked_of_penalty(SHARE_AT_FIRST, sharp, lower) / weight
    device = world.degree.device
    mean = world.reduce(asked[:, None].to(device), "mean").item()
    numbers = torch.stack([found.upper.double(), -lower, sharp], dim=1)
    upper, down, sharpest = world.reduce(numbers.to(device), "max").tolist()
    filled = _begun(algorithm, graph, mean, sharpest)
    automatic = (*algorithm.missing, "follow")
    return Settled(filled, automatic, found, upper, -down)


def _begun(algorithm: HSMADMM, graph: Graph, asked: float, sharpest: float) -> HSMADMM:
    """The first values of a penalty and smoothness that follow the losses."""
    if asked == 0:  # flat at the start: no scale to go by
        asked, sharpest = SHARE_AT_FIRST / (graph.max_degree + 1), 1.0
    weight = algorithm.step_weight(graph.degrees, graph.max_degree)
    c_rho, c_eta = algorithm.c_rho, algorithm.c_eta
    ratio = ratio_for(algorithm, graph)
    if c_rho is None:
        penalty = asked * slowness(graph, weight)
        c_rho = penalty if c_eta is None else c_eta / ratio
    values = {
        "c_rho": c_rho,
        "c_eta": ratio * c_rho if c_eta is None else c_eta,
        "smoothness": SHARE_OF_SMOOTHNESS * sharpest,
    }
    _require_usable(values, sharpest)
    found: Any = {name: _rounded(values[name]) for name in algorithm.missing}
    return dataclasses.replace(algorithm, **found, follow=True)


def _require_usable(values: Mapping[str, float], upper: float) -> None:
    """Refuse numbers that no step can be made with."""
    steps = (values["c_rho"], values["c_eta"])
    if not all(map(math.isfinite, values.values())) or not min(steps) > 0:
        raise _out_of_scale(f"largest curvature {upper:.3g}")


def _out_of_scale(what: str) -> InputError:
    return InputError(
        "HSMADMM: no constants can be found from the losses at the initial model "
        f"({what}): the numbers are too large or too small. Scale the features "
        "(`--set data.standardize=true`), or give `c_rho`, `c_eta` and `c_a`."
    )


def _looked_at(
    algorithm: Algorithm[Any], problem: Problem, world: World, x: Tensor
) -> Settled:
    """The method as it is, with the curvature of the losses for its certificate."""
    found = estimate_smoothness(problem, x)
    numbers = torch.stack([found.upper, -found.lower], dim=1)
    upper, down = world.reduce(numbers.to(x.device), "max").tolist()
    return Settled(algorithm, (), found, upper, -down)


def settled_for(
    algorithm: HSMADMM, graph: Graph, upper: Vector, lower: Vector
) -> HSMADMM:
    """Fill in what is missing for given curvatures of every agent, data alike."""
    if not algorithm.missing:
        return algorithm
    known_c_rho = algorithm.c_rho is not None or algorithm.c_eta is not None
    if not (upper > 0).any() and not known_c_rho:
        raise InputError(
            "certify: the constants of `HSMADMM()` follow from the smoothness of the "
            "losses, which is 0. Give `smoothness`, or c_rho."
        )
    weight = algorithm.step_weight(graph.degrees, graph.max_degree)
    if algorithm.follows:
        sharp = torch.from_numpy(np.asarray(upper, float))
        down = torch.from_numpy(np.asarray(lower, float))
        asked = asked_of_penalty(SHARE_AT_FIRST, sharp, down)
        mean = float((asked.numpy() / weight).mean())
        return _begun(algorithm, graph, mean, float(upper.max()))
    demand = float((_demand(upper, lower, 0.0) / weight).mean())
    negative = float(np.maximum(-lower, 0).max())
    known = _Known(float(upper.max()), negative, demand, 0.0, 0.0)
    return _filled(algorithm, known, graph)


@final
@dataclass(frozen=True, slots=True)
class _Known:
    """What the whole network knows."""

    upper: float  # largest curvature
    negative: float  # how far a loss curves down
    demand: float  # what agents ask of the penalty, by their degree + 1, on average
    noise: float  # of the curvature on a minibatch, by the degree + 1, at most
    pull: float  # share of the gradients in which the agents disagree


def _filled(algorithm: HSMADMM, known: _Known, graph: Graph) -> HSMADMM:
    """The rule, for every constant that is missing."""
    c_rho, c_eta, smoothness = algorithm.c_rho, algorithm.c_eta, algorithm.smoothness
    if smoothness is None:
        smoothness = known.upper
    if c_rho is None and c_eta is not None:
        c_rho = c_eta / RATIO
    if c_rho is None:
        weight = algorithm.step_weight(graph.degrees, graph.max_degree)
        c_rho = _penalty(known, graph, weight)
        c_rho *= PAPERS_RULE if smoothness == 0 else 1.0
    if c_eta is None:
        c_eta = RATIO * c_rho
    c_a = MOMENTUM_OF_NOISE * (known.noise / c_eta) ** 2
    c_a = min(max(c_a, USUAL_MOMENTUM), MOST_MOMENTUM)
    values = {"c_rho": c_rho, "c_eta": c_eta, "c_a": c_a, "smoothness": smoothness}
    _require_usable(values, known.upper)
    found: Any = {name: _rounded(values[name]) for name in algorithm.missing}
    return dataclasses.replace(algorithm, **found)


def _penalty(known: _Known, graph: Graph, weight: Any) -> float:
    """c_rho: enough for the step, for the network's slowest mode, for pulling apart."""
    slowest = Spectra(graph).slowest(np.broadcast_to(weight, (graph.n,)))
    stiff = known.demand * max(1.0, SLOW_MODE / slowest) ** 0.5
    apart = known.pull * known.negative / graph.algebraic_connectivity
    held = HELD_BY_NEIGHBORS * apart
    ceiling = STIFFEST * (known.upper + known.negative)  # or steps hardly move
    penalty: float = min(max(stiff, held), max(ceiling, known.demand))
    return penalty


def _demand(upper: Any, lower: Any, pull: float) -> Any:
    """What the curvature of a loss asks of the penalty."""
    share = SHARE_OF_LOWER + SHARE_APART * pull
    return SHARE_OF_UPPER * upper + share * (abs(lower) - lower) / 2


def _pull(problem: Problem, world: World, x: Tensor) -> float:
    """Share of the first gradients, squared, in which the agents disagree."""
    size = None if is_large(problem, x) else SAMPLES
    gradient = _first_gradient(problem, x, size)
    mean = world.reduce(gradient, "mean")
    apart = float(world.reduce((gradient - mean).square_().sum(1), "mean"))
    total = apart + mean.square().sum().item()
    return apart / total if total > 0 else 0.0


def _first_gradient(problem: Problem, x: Tensor, size: int | None) -> Tensor:
    """The gradient at the start, refused if its length is not finite."""
    gradient = problem.grad(x, problem.sample(0, size=size, stream=STREAM))
    lengths = torch.linalg.vector_norm(gradient, dim=1, dtype=torch.float64)
    require_finite(problem, lengths)
    if lengths.square().max() > torch.finfo(x.dtype).max:
        raise _out_of_scale(f"largest gradient {float(lengths.max()):.3g}")
    return gradient


def _rounded(value: float) -> float:
    """Four digits: what is written down is what is run with."""
    return float(f"{value:.4g}")
