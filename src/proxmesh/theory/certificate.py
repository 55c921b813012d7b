"""Will it diverge? The stability of HSM-ADMM on one graph, in closed form.

On a quadratic loss with Hessian H and a prox of slope between 0 and 1, an iteration
with step matrix Q and penalty rho is stable if ``Q > H/2 + 3/4 rho (L + I)`` and
``H + rho L`` is positive definite (docs/theory.md derives it). Both sides are affine in
``t = (k + k0)^(1/3)``, so two eigenvalue problems answer for every k.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final, overload

import networkx as nx
import numpy as np

from proxmesh.algorithms import HSMADMM
from proxmesh.algorithms.hsm_admm_remedy import GRAPH_FREE_RATIO
from proxmesh.checks import require_whole
from proxmesh.errors import InputError
from proxmesh.graphs import Graph, as_graph
from proxmesh.theory.automatic import settled_for
from proxmesh.theory.curvatures import curvatures, rounded_up
from proxmesh.theory.spectra import LINEARIZED, Spectra, Vector
from proxmesh.theory.steps import StepCertificate, Verdict, certify_steps
from proxmesh.types import WithStepBound, has_step_bound

__all__ = ["Certificate", "Verdict", "certify"]

FOREVER = 10**18  # iterations; nobody waits longer for a certificate


@final
@dataclass(frozen=True, slots=True)
class Certificate:
    """What is known about a run before it starts; `str` gives it in one line.

    Attributes
    ----------
    verdict
        ``"stable"``, ``"unstable"`` or ``"not certified"``.
    reason
        Why, in words.
    remedy
        The smallest change that makes it stable; empty if none is needed.
    algorithm
        The method with all its constants, those that were chosen here included.
    graph
        Name of the graph.
    ratio
        ``c_eta / c_rho``.
    threshold
        The ratio above which this graph is stable for every prox, the smoothness of the
        losses aside.
    threshold_smooth
        The same for h = 0: with a lower ratio, runs blow up in the end.
    graph_free
        A ratio that is stable on every graph; None with an `assumed_degree`.
    margin
        Share of the step that is to spare in the iteration where it is least; negative
        where the step is too long.
    worst_k
        That iteration; infinite if it is the limit.
    stable_from
        The iteration from which the steps are short enough; None: never.
    certified_from
        The iteration from which the penalty also makes up for losses that curve down;
        None: never.
    stable_c_eta
        The smallest ``c_eta`` that is stable from k = 1 on.
    contraction
        Factor by which the last iteration shrinks the disagreement between agents if
        f = 0; without `steps`, its limit.
    gain
        Predicted speed of steps with each agent's own degree, divided by that of steps
        with the largest degree for all; L_f aside.
    smoothness
        The largest curvature of an agent's loss.
    curvature
        The lowest.

    Examples
    --------
    >>> import proxmesh as pm
    >>> print(certify(pm.HSMADMM(0.25, 0.5, 1.0), pm.graphs.ring(8)))
    stable: c_eta / c_rho = 2 is above 1.25 on ring(n=8), margin 0.37 at k = 1.
    """

    verdict: Verdict
    reason: str
    remedy: str
    algorithm: HSMADMM
    graph: str
    ratio: float
    threshold: float
    threshold_smooth: float
    graph_free: float | None
    margin: float
    worst_k: float
    stable_from: int | None
    certified_from: int | None
    stable_c_eta: float
    contraction: float
    gain: float
    smoothness: float
    curvature: float

    def __str__(self) -> str:
        return " ".join(filter(None, [f"{self.verdict}: {self.reason}.", self.remedy]))

    @property
    def line(self) -> str:
        """What matters before a run: whether the steps are stable on this graph."""
        sizes = f"c_eta/c_rho {self.ratio:.3g}, this graph needs {self.threshold:.3g}"
        if self.verdict == "unstable":
            return f"unstable steps: {sizes}"
        if self.stable_from == 1:
            return f"stable steps: {sizes}"
        if self.stable_from is None:
            return f"stable steps for this run, but not for a longer one: {sizes}"
        since = f"stable steps from iteration {self.stable_from:,} on: {sizes}"
        return f"{since}. {self.remedy}".rstrip()


@overload
def certify(
    algorithm: HSMADMM,
    graph: "Graph | nx.Graph[Any]",
    smoothness: Any = 0.0,
    *,
    curvature: Any = None,
    steps: int | None = None,
) -> Certificate: ...


@overload
def certify(
    algorithm: WithStepBound[Any],
    graph: "Graph | nx.Graph[Any]",
    smoothness: Any = 0.0,
    *,
    curvature: Any = None,
    steps: int | None = None,
) -> StepCertificate: ...


def certify(
    algorithm: Any,
    graph: "Graph | nx.Graph[Any]",
    smoothness: Any = 0.0,
    *,
    curvature: Any = None,
    steps: int | None = None,
) -> Certificate | StepCertificate:
    """Certify a method's constants on a graph, before a run and without one.

    An iteration with inverse steps ``Q = diag(eta_i)`` is stable if both
    ``Q - H/2 - 3/4 rho (L + I)`` and ``H + rho L`` are positive definite, where H holds
    the curvatures of the losses. Without a split (``split=False``) the I drops out.

    Parameters
    ----------
    algorithm
        HSM-ADMM; constants that were left out are chosen for this graph and smoothness.
        Or a method that declares the bound on its step (docs/relatives.md), for which
        a `StepCertificate` is returned.
    graph
        Who talks to whom.
    smoothness
        Largest curvature of the losses: one number, one per agent, or what
        `estimate_smoothness` found, which includes the lowest curvature.
    curvature
        Lowest curvature of the losses, one number or one per agent, negative where they
        are not convex. None: what `estimate_smoothness` found, otherwise 0.
    steps
        Number of iterations of the run. None: the margin is taken over all k.

    Examples
    --------
    >>> import proxmesh as pm
    >>> found = certify(pm.HSMADMM(0.25, 0.5, 1.0), pm.graphs.ring(8))
    >>> found.verdict, round(found.threshold, 3), round(found.threshold_smooth, 3)
    ('stable', 1.25, 1.0)
    >>> certify(pm.HSMADMM(0.25, 0.2, 1.0), pm.graphs.ring(8)).remedy
    'Raise `c_eta` from 0.2 to 0.3126.'
    """
    if not isinstance(algorithm, HSMADMM) and not has_step_bound(algorithm):
        raise InputError(
            f"certify: `{type(algorithm).__name__}` has no certificate. It knows "
            "HSMADMM and methods with a `step_bound`."
        )
    require_whole("certify", 1, steps=steps)
    graph = as_graph(graph)
    upper, lower = curvatures(smoothness, curvature, graph.n)
    if not isinstance(algorithm, HSMADMM):
        return certify_steps(algorithm, graph, upper, lower, steps)
    algorithm = settled_for(algorithm, graph, upper, lower)
    return _Examined(algorithm, graph, upper, lower).certificate(steps)


@final
class _Examined:
    """One algorithm on one graph under given curvatures."""

    def __init__(
        self, algorithm: HSMADMM, graph: Graph, upper: Vector, lower: Vector
    ) -> None:
        assert algorithm.c_rho is not None
        assert algorithm.c_eta is not None
        assert algorithm.smoothness is not None
        self.algorithm, self.graph = algorithm, graph
        self.upper, self.lower = upper, lower
        self.c_rho, self.c_eta = algorithm.c_rho, algorithm.c_eta
        self.offset = algorithm.smoothness
        self.split = float(algorithm.split)  # a prox on x itself asks for no more
        self.spectra = Spectra(graph)
        self.degrees: Vector = graph.degrees + 1.0
        weight = algorithm.step_weight(graph.degrees, graph.max_degree)
        self.weight: Vector = np.broadcast_to(weight, (graph.n,))

    def certificate(self, steps: int | None) -> Certificate:
        """Everything at once."""
        ratio = self.c_eta / self.c_rho
        smooth = LINEARIZED * self.spectra.largest(self.weight)
        threshold = LINEARIZED * self.spectra.largest(self.weight, own=self.split)
        first = self.margin(1)
        last = 1 - threshold / ratio if steps is None else self.margin(steps)
        since_step = self._first(lambda k: self.margin(k) > 0, ratio > threshold)
        since_hold = self._first(self._is_held, self._can_be_held())
        known = None not in {since_step, since_hold}
        since = max(since_step or 1, since_hold or 1) if known else None
        needed = self.needed(threshold)
        facts = _Facts(ratio, threshold, smooth, first, since_step, since_hold, needed)
        verdict, reason, remedy = self._judged(facts)
        if verdict == "unstable" and steps is not None and min(first, last) > 0:
            verdict = "not certified"
            reason += f" in the end; L_f in the step puts that off beyond k = {steps:,}"
        return Certificate(
            verdict=verdict,
            reason=reason,
            remedy=remedy,
            algorithm=self.algorithm,
            graph=str(self.graph),
            ratio=ratio,
            threshold=threshold,
            threshold_smooth=smooth,
            graph_free=None if self.algorithm.assumed_degree else GRAPH_FREE_RATIO,
            margin=min(first, last),
            worst_k=1 if first <= last else (math.inf if steps is None else steps),
            stable_from=since_step,
            certified_from=since,
            stable_c_eta=needed,
            contraction=self.contraction(steps),
            gain=self.gain(),
            smoothness=float(self.upper.max()),
            curvature=float(self.lower.min()),
        )

    def margin(self, k: int) -> float:
        """``1 - lambda_max(Q^(-1/2) (H/2 + 3/4 rho (L + I)) Q^(-1/2))`` at k."""
        rho, step = self._at(k)
        coupling = LINEARIZED * rho
        own = self.upper / 2 + coupling * self.split
        return 1 - self.spectra.largest(step, coupling, own)

    def _at(self, k: int) -> tuple[float, Vector]:
        """Penalty and inverse steps of iteration k."""
        t = (k + self.algorithm.k0) ** self.algorithm.growth
        return self.c_rho * t, self.c_eta * t * self.weight + self.offset

    def needed(self, threshold: float) -> float:
        """The smallest c_eta that is stable for the worst prox from k = 1 on."""
        t = (1 + self.algorithm.k0) ** self.algorithm.growth
        coupling = LINEARIZED * self.c_rho
        own = coupling * self.split + (self.upper / 2 - self.offset) / t
        at_first = self.spectra.largest(self.weight, coupling, own)
        return max(at_first, threshold * self.c_rho)

    def contraction(self, k: int | None) -> float:
        """Decay of the disagreement at k, or in the limit: the slowest of all modes."""
        rho, step = (self.c_rho, self.c_eta * self.weight) if k is None else self._at(k)
        modes = (self.spectra.slowest(step / rho), self.spectra.largest(step / rho))
        return max(map(_decay, modes))

    def gain(self) -> float:
        """Speed with own degrees over that with the largest degree, each at its limit.

        The mean of the models moves by 1 over the mean of eta_i.
        """
        own = self.spectra.largest(self.degrees)
        alike = self.spectra.largest(np.ones(self.graph.n))
        return alike / (own * float(self.degrees.mean()))

    def _can_be_held(self) -> bool:
        """Whether some penalty makes ``H + rho L`` positive definite."""
        return bool((self.lower >= 0).all() or self.lower.sum() > 0)

    def _is_held(self, k: int) -> bool:
        """Whether the penalty outweighs every loss that curves down, at k."""
        if (self.lower >= 0).all():
            return True
        return self.spectra.smallest(self._at(k)[0], self.lower) > 0

    def _first(self, holds: Callable[[int], bool], ever: bool) -> int | None:
        """The first k of a property that stays once it is there."""
        if not ever:
            return None
        if holds(1):
            return 1
        if self.algorithm.growth == 0:
            return None
        high = 2
        while high < FOREVER and not holds(high):
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    def _judged(self, facts: "_Facts") -> tuple[Verdict, str, str]:
        """Verdict, reason and remedy."""
        f, graph = facts, self.graph
        remedy = f"Raise `c_eta` from {self.c_eta:.4g} to {rounded_up(f.needed):g}."
        steps = f"c_eta / c_rho = {f.ratio:.3g}"
        if f.ratio < f.smooth:
            where = f"{f.smooth:.3g}, where {graph} blows up"
            return "unstable", f"{steps} is below {where}", remedy
        if f.ratio <= f.threshold:
            return (
                "not certified",
                f"{steps} is between {f.smooth:.3g} and {f.threshold:.3g}, where a "
                f"prox can keep {graph} oscillating",
                remedy,
            )
        above = f"{steps} is above {f.threshold:.3g} on {graph}"
        wrong, remedies = [], []
        if f.since_step != 1:
            later = "they stay so"
            if f.since_step is not None:
                later = f"they are short enough from k = {f.since_step:,} on"
            above += (
                f", but the first steps are too long for smoothness "
                f"{self.upper.max():.3g} (margin {f.first:.2g} at k = 1; {later})"
            )
            remedies.append(remedy)
        else:
            above += f", margin {f.first:.2g} at k = 1"
        if f.since_hold is None and self.algorithm.follows and self._can_be_held():
            wrong.append(
                f"the first penalty does not make up for the lowest curvature "
                f"{self.lower.min():.2g}"
            )
        elif f.since_hold is None:
            wrong.append(
                "the losses are not convex and may curve down together (curvature "
                f"{self.lower.mean():.2g}), which no penalty makes up for"
            )
        elif f.since_hold != 1:
            wrong.append(
                f"the penalty makes up for the lowest curvature "
                f"{self.lower.min():.2g} only from k = {f.since_hold:,} on"
            )
            more = rounded_up(self._growth(f.since_hold))
            remedies.append(f"Raise `c_rho` and `c_eta` {more:g} times.")
        if not wrong and f.since_step == 1:
            return "stable", above, ""
        if f.since_step == 1:
            above = f"the steps are stable ({above})"
        return "not certified", "; but ".join([above, *wrong]), " ".join(remedies)

    def _growth(self, k: int) -> float:
        """How much larger the penalty is at k than at 1."""
        k0 = self.algorithm.k0
        return float(((k + k0) / (1 + k0)) ** self.algorithm.growth)


@final
@dataclass(frozen=True, slots=True)
class _Facts:
    """What a verdict rests on."""

    ratio: float
    threshold: float
    smooth: float
    first: float  # margin at k = 1
    since_step: int | None  # k from which the steps are short enough
    since_hold: int | None  # k from which the penalty holds the lowest curvature
    needed: float  # c_eta


def _decay(tau: float) -> float:
    """Largest root of ``z^2 - 2 (1 - tau) z + (1 - tau)``, the mode nu = tau c."""
    return math.sqrt(1 - tau) if tau <= 1 else (tau - 1) + math.sqrt(tau * (tau - 1))
