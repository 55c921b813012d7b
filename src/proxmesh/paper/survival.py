"""Which method survives which links: quadratics with a known solution.

The losses are exact and the solution is known, so what is wrong at the end is due to
the method and the links alone. Constants suit perfect links and are the same on all.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias, final

import pandas as pd
import torch
from torch import Tensor

from proxmesh import graphs
from proxmesh.algorithms import ALGORITHMS
from proxmesh.errors import InputError
from proxmesh.network.connecting import connect
from proxmesh.network.links import Plan, named
from proxmesh.problems.regularizers import L1
from proxmesh.schedules import power
from proxmesh.solver.suiting import require_suited, suited_to
from proxmesh.types import advanced, started

__all__ = [
    "CONDITIONS",
    "GROWING",
    "METHODS",
    "STEPS",
    "Lasso",
    "Verdict",
    "suits",
    "survived",
    "verdict_of",
]

Verdict: TypeAlias = Literal["exact", "falling", "floor", "biased", "diverges", "-"]

CONDITIONS: Mapping[str, Mapping[str, float]] = {
    "perfect": {},
    "outages-0.5": {"outages": 0.5},
    "loss-0.3": {"loss": 0.3},
    "silent-0.1": {"silent-loss": 0.1},
    "silent-0.3": {"silent-loss": 0.3},
    "silent-0.5": {"silent-loss": 0.5},
    "delay-1": {"delay": 1},
    "delay-2": {"delay": 2},
    "delay-5": {"delay": 5},
    "awake-0.5": {"participation": 0.5},
    "bits-8": {"bits": 8},
    "bits-4": {"bits": 4},
    "top-0.1": {"top-k": 0.1},
    "every-4": {"every": 4},
}
"""What is wrong with the links, as a config says it, by a short name."""

STEPS = {"small": 100, "standard": 500, "full": 5000}
EXACT = 1e-6  # of an error whose size at the start is about 1
HUGE = 1e3
FALLING = 0.7  # of the error before: then it is still on its way
STEADY = 1 / 3  # of the error: then the mean over time is nearer than the iterates
SEED = 7

GROWING = "hsm-admm-growing"
METHODS: Mapping[str, Mapping[str, Any]] = {
    "hsm-admm": {"c_rho": 1.0, "c_eta": 2.0, "smoothness": 2.0, "follow": True},
    GROWING: {
        "algorithm": "hsm-admm",
        "c_rho": 0.3,
        "c_eta": 0.6,
        "c_a": 1.0,
        "smoothness": 2.0,
    },
    "hsm-admm-direct": {"c_rho": 1.0, "c_eta": 2.0, "smoothness": 2.0, "follow": True},
    "linearized-admm": {"rho": 1.0, "c_eta": 2.0, "smoothness": 2.0},
    "dlm": {"rho": 1.0, "smoothness": 2.0},
    "dpga": {"rho": 0.3, "smoothness": 2.0},
    "sdpga": {"rho": 1.0, "smoothness": 2.0},
    "perturbed-admm": {"rho": 0.4, "beta": 0.1, "smoothness": 2.0},
    "penalty-admm": {"tau": 30.0, "rho": 1.0, "smoothness": 2.0},
    "sppdm": {"gamma": 2.0, "c": 2.0, "alpha": 0.4},
    "deepstorm-v1": {"alpha": 1.0},
    "deepstorm-v2": {"alpha": 1.0},
    "prox-gt-sa": {"alpha": 0.1},
    "prox-gt-sr-o": {"alpha": 0.1},
    "prox-gt-sr-e": {"alpha": 0.1},
    "prox-dasa": {"gamma": 0.3, "alpha": 0.1},
    "prox-dasa-gt": {"gamma": 0.6, "alpha": 0.3},
    "prox-ed": {"alpha": 0.4},
    "pg-extra": {"alpha": 0.2},
    "depositum": {"alpha": 0.2, "momentum": 0.0},
    "cdprox-sgt": {"alpha": 0.1, "gain_x": 0.8, "gain_y": 0.8},
    "dsgt": {"alpha": 0.02},
    "d-psgd": {"alpha": power(1.0, -0.5)},
}
"""Constants for the quadratics, found on perfect links; a label may rename a method.

On a ring the two ablations of HSM-ADMM's step are HSM-ADMM itself, and are left out.
"""


@final
@dataclass(frozen=True)
class Lasso:
    """``f_i(x) = (x - t_i)' A_i (x - t_i) / 2`` with eigenvalues from 0.1 to 2, and l1.

    Parameters
    ----------
    a, t
        One matrix and one target per agent.
    weight
        Of the l1 norm.
    """

    a: Tensor
    t: Tensor
    weight: float = 0.1

    @staticmethod
    def drawn(n: int = 8, p: int = 10) -> "Lasso":
        """Turned and shifted at random for each agent, in float64."""
        draw = torch.Generator().manual_seed(SEED)
        mixed = torch.randn(n, p, p, generator=draw, dtype=torch.float64)
        turned, _ = torch.linalg.qr(mixed)
        sizes = torch.linspace(0.1, 2, p, dtype=torch.float64)
        target = torch.randn(n, p, generator=draw, dtype=torch.float64)
        return Lasso(turned @ (sizes[:, None] * turned.mT), target)

    def sample(self, k: Any, size: int | None = None, stream: int = 0) -> None:
        """Nothing is drawn: gradients are exact."""
        del k, size, stream

    def grad(self, x: Tensor, batch: None) -> Tensor:
        """Row i: the gradient of f_i at x_i."""
        del batch
        found: Tensor = (self.a @ (x - self.t)[..., None])[..., 0]
        return found

    def full_grad(self, x: Tensor) -> Tensor:
        """The same."""
        return self.grad(x, None)

    def prox(self, z: Tensor, step: Any) -> Tensor:
        """Of the l1 norm."""
        return L1(self.weight).prox(z, step)

    def subgrad(self, x: Tensor) -> Tensor:
        """Of the l1 norm."""
        return L1(self.weight).subgrad(x)

    def solution(self) -> Tensor:
        """Proximal gradients of the sum, until nothing moves."""
        a, at = self.a.mean(0), (self.a @ self.t[..., None])[..., 0].mean(0)
        step = 1 / float(torch.linalg.eigvalsh(a)[-1])
        x = torch.zeros_like(at)
        for _ in range(20_000):
            new = self.prox((x - step * (a @ x - at))[None], step)[0]
            if (new - x).abs().max() < 1e-16:
                break
            x = new
        return x


def suits(label: str, links: Mapping[str, Any], p: int = 1000) -> bool:
    """Whether a method is not refused on these links.

    Parameters
    ----------
    label
        Of a method.
    links
        What is wrong, by name.
    p
        Entries of a vector.

    Examples
    --------
    >>> suits("cdprox-sgt", {"bits": 4}), suits("cdprox-sgt", {"loss": 0.3})
    (False, True)
    """
    plan = Plan(named(links))
    try:
        if links:
            require_suited(suited_to(_algorithm(label), plan, p), plan, p)
    except InputError:
        return False
    return True


def survived(label: str, condition: str, steps: int) -> tuple[Verdict, float]:
    """What becomes of a method on some links, and its error at the end.

    Parameters
    ----------
    label
        Of a method.
    condition
        What is wrong with the links.
    steps
        Iterations.
    """
    problem, solution = _solved()
    links = CONDITIONS[condition]
    if not suits(label, links, problem.t.shape[1]):
        return "-", math.nan
    return verdict_of(*_run(problem, solution, _algorithm(label), links, steps))


@cache
def _solved() -> tuple[Lasso, Tensor]:
    problem = Lasso.drawn()
    return problem, problem.solution()


def _algorithm(label: str) -> Any:
    options = dict(METHODS[label])
    method = ALGORITHMS[options.pop("algorithm", label)]
    return method.kind(**{**method.fixed, **options})


def _run(
    problem: Lasso, solution: Tensor, algorithm: Any, links: Any, steps: int
) -> tuple[list[float], float]:
    """Largest errors after each iteration, and that of the mean over the last fifth."""
    models = named(links)
    suited = suited_to(algorithm, Plan(models), len(solution))
    graph = graphs.ring(len(problem.t))
    world: Any = connect(graph, "simulated", dtype=torch.float64, links=models)
    state = started(suited, torch.zeros_like(problem.t), problem, world)
    errors, total, late = [], torch.zeros_like(problem.t), steps - steps // 5
    for k in range(1, steps + 1):
        state = advanced(suited, state, problem, world)
        errors.append(float((state.x - solution).abs().max()))
        if not errors[-1] < HUGE:
            return errors, math.inf
        if k > late:
            total = total + state.x
    mean = total / (steps - late)
    return errors, float((mean - solution).abs().max())


def verdict_of(errors: list[float], settled: float) -> tuple[Verdict, float]:
    """What became of a run, and its error: the median over the last tenth.

    Parameters
    ----------
    errors
        After each iteration.
    settled
        Error of the mean over the last fifth of the iterates.

    Examples
    --------
    >>> verdict_of([1.0] + [0.1] * 99, settled=0.1)
    ('biased', 0.1)
    >>> verdict_of([1.0] + [0.1] * 99, settled=0.001)
    ('floor', 0.1)
    """
    if not math.isfinite(settled):
        return "diverges", math.inf
    tenth = max(1, len(errors) // 10)
    last = float(pd.Series(errors[-tenth:]).median())
    before = float(pd.Series(errors[-3 * tenth : -2 * tenth]).median())
    if last < EXACT:
        return "exact", last
    if last > 2 * errors[0]:
        return "diverges", last
    if last < FALLING * before:
        return "falling", last
    return ("floor" if settled < STEADY * last else "biased"), last
