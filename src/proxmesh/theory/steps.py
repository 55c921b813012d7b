"""Are the steps short enough? For methods that declare the bound on their step.

Each declares ``Q > H/2 + edges L + mixing (I - W) + own I`` (docs/relatives.md): one
eigenvalue problem answers for a graph and the curvatures of the losses.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np

from proxmesh.graphs import Graph
from proxmesh.theory.curvatures import rounded_down, rounded_up
from proxmesh.theory.spectra import Spectra, Vector, smallest_eigenvalue
from proxmesh.types import StepBound, WithStepBound

__all__ = ["StepCertificate", "Verdict", "certify_steps"]

Verdict: TypeAlias = Literal["stable", "unstable", "not certified"]


@final
@dataclass(frozen=True, slots=True)
class StepCertificate:
    """What is known about the steps of a run before it starts; `str` gives one line.

    Attributes
    ----------
    verdict
        ``"stable"``, ``"unstable"`` or ``"not certified"``.
    reason
        Why, in words.
    remedy
        The smallest change that makes the steps short enough; empty if none is needed.
    algorithm
        The method.
    graph
        Name of the graph.
    margin
        Share of the inverse step that is to spare for every prox, in the iteration
        where it is least; negative where the step is too long.
    parameter, value
        The field of the method that decides, and what it is in that iteration.
    limit
        Of that field, for every prox: a step size must be below, anything else above.
    limit_smooth
        The same for h = 0.
    smoothness
        The largest curvature of an agent's loss.
    curvature
        The lowest.

    Examples
    --------
    >>> import proxmesh as pm
    >>> print(pm.theory.certify(pm.ProxED(0.5), pm.graphs.ring(8), 3.0))
    stable: alpha = 0.5 is below 0.6667 on ring(n=8), margin 0.25.
    """

    verdict: Verdict
    reason: str
    remedy: str
    algorithm: Any
    graph: str
    margin: float
    parameter: str
    value: float
    limit: float
    limit_smooth: float
    smoothness: float
    curvature: float

    def __str__(self) -> str:
        return " ".join(filter(None, [f"{self.verdict}: {self.reason}.", self.remedy]))

    @property
    def line(self) -> str:
        """What matters before a run: whether the steps are short enough."""
        sizes = f"{self.parameter} {self.value:.3g}, the limit is {self.limit:.3g}"
        if self.verdict == "unstable":
            return f"unstable steps: {sizes}"
        return f"stable steps: {sizes}" if self.margin > 0 else f"long steps: {sizes}"


def certify_steps(
    algorithm: WithStepBound[Any],
    graph: Graph,
    upper: Vector,
    lower: Vector,
    steps: int | None,
) -> StepCertificate:
    """Certify the steps of a method that declares a bound, at both ends of a run."""
    found = [
        _Examined(algorithm.step_bound(k, graph.degrees), graph, upper)
        for k in (1, steps or 1)
    ]
    worst = min(found, key=lambda one: one.margin(prox=True))
    best = max(found, key=lambda one: one.margin(prox=False))
    bound, limit = worst.bound, worst.limit(prox=True)
    verdict, reason = worst.judged(best.margin(prox=False) < 0, len(set(upper)) == 1)
    remedy = ""
    if worst.margin(prox=True) <= 0:
        remedy = worst.remedy(limit)
    elif not worst.held(lower):
        verdict = "not certified"
        reason = (
            f"the steps are short enough ({reason}), but losses curve down (lowest "
            f"curvature {lower.min():.2g}) by more than neighbors hold"
        )
    return StepCertificate(
        verdict=verdict,
        reason=reason,
        remedy=remedy,
        algorithm=algorithm,
        graph=str(graph),
        margin=worst.margin(prox=True),
        parameter=bound.parameter,
        value=bound.value,
        limit=limit,
        limit_smooth=worst.limit(prox=False),
        smoothness=float(upper.max()),
        curvature=float(lower.min()),
    )


@final
class _Examined:
    """One bound on one graph under given curvatures."""

    def __init__(self, bound: StepBound, graph: Graph, upper: Vector) -> None:
        self.bound, self.graph, self.upper = bound, graph, upper
        self.spectra = Spectra(graph)
        q = np.asarray(bound.inverse_step, float).reshape(-1)
        self.q: Vector = np.broadcast_to(q, (graph.n,))

    def limit(self, prox: bool) -> float:
        """Of the parameter that decides, for the worst prox or for none."""
        bound = self.bound
        own = self.upper / 2 + (bound.own if prox else 0.0)
        if bound.per_unit == 0:
            free = 1 - bound.mixing * bound.value * self._unmixed()
            largest = float(own.max())
            return free / largest if largest > 0 else np.inf
        lacking = self.spectra.largest(np.ones(self.graph.n), bound.edges, own - self.q)
        return bound.value + lacking / bound.per_unit

    def margin(self, prox: bool) -> float:
        """Share of the inverse step that is to spare."""
        bound = self.bound
        if bound.per_unit == 0:
            return 1 - bound.value / self.limit(prox)
        own = self.upper / 2 + (bound.own if prox else 0.0)
        return 1 - self.spectra.largest(self.q, bound.edges, own)

    def held(self, lower: Vector) -> bool:
        """Whether neighbors hold every agent whose loss curves down."""
        if (lower >= 0).all():
            return True
        penalty = self.bound.penalty
        return penalty > 0 and self.spectra.smallest(penalty, lower) > 0

    def judged(self, everywhere: bool, alike: bool) -> tuple[Verdict, str]:
        """Verdict and reason, curvatures that are negative aside."""
        bound, where = self.bound, f" on {self.graph}"
        needs = "below" if bound.per_unit == 0 else "above"
        given = f"{bound.parameter} = {bound.value:.4g}"
        limit, smooth = self.limit(prox=True), self.limit(prox=False)
        margin = self.margin(prox=True)
        if margin > 0:
            return (
                "stable",
                f"{given} is {needs} {limit:.4g}{where}, margin {margin:.2g}",
            )
        if self.margin(prox=False) > 0:
            return "not certified", (
                f"{given} is between {smooth:.4g} and {limit:.4g}, where a prox can "
                f"keep {self.graph} oscillating"
            )
        wrong = f"{given} is not {needs} {smooth:.4g}{where}"
        if not bound.sharp:
            return "not certified", f"{wrong}, which is known to suffice"
        if not everywhere:
            return "not certified", f"{wrong} in some iterations, though not in all"
        if self._network_alone() > 0 and not alike:
            smoothness = f"smoothness {self.upper.max():.3g}"
            return (
                "not certified",
                f"{wrong}: it may be too long a step for {smoothness}",
            )
        return "unstable", f"{wrong}, where losses that curve alike blow up"

    def remedy(self, limit: float) -> str:
        """The smallest change of the parameter that is enough."""
        bound = self.bound
        if bound.per_unit == 0:
            return f"Lower `{bound.parameter}` to {rounded_down(limit):g}."
        return f"Raise `{bound.parameter}` to {rounded_up(limit):g}."

    def _network_alone(self) -> float:
        """The margin if f = 0 and h = 0."""
        bound = self.bound
        if bound.per_unit == 0:
            return 1 - bound.mixing * bound.value * self._unmixed()
        return 1 - self.spectra.largest(self.q, bound.edges)

    def _unmixed(self) -> float:
        """The largest eigenvalue of I - W."""
        if self.bound.mixing == 0:
            return 0.0
        return 1 - smallest_eigenvalue(self.graph.mixing)
