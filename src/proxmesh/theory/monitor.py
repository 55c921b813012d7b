"""The quantities of the paper's analysis along a real run, and its inequalities.

Each look makes two further iterations aside, so that three consecutive iterates are at
hand; the run itself is not touched. Names follow arXiv:2603.07682: r is the residual of
the constraints, lambda = (alpha, beta) the multipliers, E the error of the gradient
estimate, ``S = Q - rho A'A``. Without a split (``HSMADMM(split=False)``) there is no y:
A is the incidence matrix alone, lambda = alpha, and h is taken at x.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from proxmesh.algorithms import HSMADMM
from proxmesh.errors import InputError
from proxmesh.graphs import Graph
from proxmesh.metrics import evaluated
from proxmesh.theory.smoothness import estimate_smoothness
from proxmesh.theory.spectra import Spectra
from proxmesh.types import Analyzable, World, advanced, can_be_analyzed

__all__ = ["INEQUALITIES", "Inequality", "Monitor"]

RESAMPLED = 16  # minibatches over which Lemma 2's expectation is taken
STREAM = 1000  # of the sampler: batches that no iteration draws
THETA = 1.0  # the paper's theta, free above 0
C_MU = 1.0  # and its c_mu
C_ERR = 12 * (1 + 1 / THETA)

INEQUALITIES: Mapping[str, tuple[str, str, str]] = {  # left and right column, words
    "lemma 1's step": ("dual_change", "seen_by_A", "|dlambda|^2 <= |A' dlambda|^2"),
    "lemma 1": ("dual_change", "lemma1_right", "|dlambda|^2 <= its bound"),
    "lemma 2": ("lemma2_left", "lemma2_right", "E |E|^2 <= its bound"),
    "lemma 3": ("lemma3_left", "lemma3_right", "E Phi falls as claimed"),
    "descent": ("lyapunov", "lyapunov_before", "the Lyapunov function falls"),
}
"""What is counted as held or violated: ``left <= right`` at every look."""


@final
@dataclass(frozen=True, slots=True)
class Inequality:
    """How often one of the paper's inequalities held along a run.

    Attributes
    ----------
    name
        A key of `INEQUALITIES`.
    meaning
        What it says.
    held, violated
        Number of looks at which it did and did not hold.

    Examples
    --------
    >>> print(Inequality("descent", "the Lyapunov function falls", held=11, violated=9))
    descent: held 11 of 20 times (the Lyapunov function falls)
    """

    name: str
    meaning: str
    held: int
    violated: int

    def __str__(self) -> str:
        looks = self.held + self.violated
        return f"{self.name}: held {self.held} of {looks} times ({self.meaning})"


@final
@dataclass(slots=True)
class Monitor:
    """Adds a row for every look at a state; every process makes the same calls.

    ``pm.solve(..., monitor="theory")`` looks at every evaluation but the first.

    Parameters
    ----------
    algorithm
        HSM-ADMM with all its constants.
    problem
        This process's part of a problem with `full_grad`, `value` and `penalty`.
    world, graph
        The network of the run, and its topology.
    rows
        What the looks found, one mapping each; leave it out to start with none.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> graph = pm.graphs.ring(4)
    >>> shards = [(torch.randn(20, 3), torch.arange(20) % 2) for _ in range(4)]
    >>> problem = pm.LearningProblem(
    ...     nn.Linear(3, 2), nn.functional.cross_entropy, shards
    ... )
    >>> algorithm, world = pm.HSMADMM(0.25, 0.5, 1.0), pm.connect(graph)
    >>> monitor = Monitor(algorithm, problem, world, graph)
    >>> row = monitor.look(algorithm.init(problem.x0(), problem, world))
    >>> row["iteration"], row["lemma2_left"] <= row["lemma2_right"]
    (2.0, True)
    """

    algorithm: HSMADMM
    problem: Analyzable
    world: World
    graph: Graph
    rows: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not isinstance(self.algorithm, HSMADMM):
            raise InputError(
                f"the monitor `theory` knows only HSM-ADMM, got "
                f"`{type(self.algorithm).__name__}`."
            )
        if not can_be_analyzed(self.problem):
            raise InputError(
                "the monitor `theory` needs `full_grad`, `value` and `penalty`, which "
                f"`{type(self.problem).__name__}` does not all have."
            )

    def look(self, state: Any) -> dict[str, float]:
        """Add the row of a state and return it.

        Parameters
        ----------
        state
            Of the run at iteration k; the row is that of iterate k + 2.
        """
        made: list[Any] = [state]
        for _ in range(2):
            made.append(advanced(self.algorithm, made[-1], self.problem, self.world))
        seen = [evaluated(self.problem, s.x) for s in made]
        exact: list[Any] = [found.grad for found in seen]
        losses: list[Any] = [found.loss for found in seen]
        errors = [
            self._sum(s.v - g) for s, g in zip(made, exact, strict=True)
        ]  # |E|^2 at the three iterates
        smooth = estimate_smoothness(self.problem, state.x)
        constant = self.world.reduce(smooth.mean_square, "max").item()
        before, now = (
            _Iterate(
                self,
                made[j],
                made[j + 1],
                loss=losses[j + 1],
                errors=errors[j : j + 2],
                smoothness=constant,
            )
            for j in (0, 1)
        )
        row = {
            "iteration": float(state.k) + 2,
            "error": errors[2],
            "step": now.step,
            "residual": now.residual,
            "dual_change": now.rho**2 * now.residual,
            "seen_by_A": now.rho**2 * self._sum(now.adjoint_residual),
            "lemma1_right": now.lemma1_right(before),
            **self._lemma2(made[1], made[2], exact[2], errors[1], constant),
            **now.lyapunov_terms(),
            "lyapunov": now.lyapunov,
            "lyapunov_before": before.lyapunov,
            "smoothness": constant,
        }
        row["lemma3_right"] = before.lyapunov + now.lemma3_change(
            before, row["gradient_noise"]
        )
        expected = now.gamma * (row["lemma2_left"] - row["error"])
        row["lemma3_left"] = now.lyapunov + expected  # over the same minibatches
        residual = made[2].kkt_residual(self.problem)
        if residual is not None:
            row["kkt"] = self.world.reduce(residual, "sum").item()
        self.rows.append(row)
        return row

    def counts(self) -> list[Inequality]:
        """Each inequality with how often it held so far."""
        found = []
        for name, (left, right, meaning) in INEQUALITIES.items():
            held = sum(row[left] <= row[right] for row in self.rows)
            found.append(Inequality(name, meaning, held, len(self.rows) - held))
        return found

    def _lemma2(
        self, old: Any, new: Any, exact: Tensor, error: float, constant: float
    ) -> dict[str, float]:
        """Both sides of the recursion, averaged over resampled minibatches."""
        a = self.algorithm.a(int(new.k) + 1)
        squares, noises = [], []
        for stream in range(STREAM, STREAM + RESAMPLED):
            batch = self.problem.sample(new.k, stream=stream)
            g, g_old = (self.problem.grad(s.x, batch) for s in (new, old))
            squares.append(self._sum(g + (1 - a) * (old.v - g_old) - exact))
            noises.append(self._sum(g - exact))
        noise = float(np.mean(noises))
        kept = float((1 - a) ** 2)
        moved = 2 * constant**2 * self._sum(new.x - old.x)
        return {
            "lemma2_left": float(np.mean(squares)),
            "lemma2_right": kept * (error + moved) + 2 * float(a) ** 2 * noise,
            "gradient_noise": noise,
        }

    def _sum(self, rows: Tensor) -> float:
        """Squared length over all agents of the network."""
        total: float = self.world.reduce(rows.square().sum(1).double(), "sum").item()
        return total


@final
class _Iterate:
    """Iterate j with the one before it: x_j, y_j, lambda_j, made with rho_j and Q_j."""

    def __init__(
        self,
        monitor: Monitor,
        old: Any,
        new: Any,
        *,
        loss: Tensor,
        errors: list[float],
        smoothness: float,
    ) -> None:
        self.monitor, self.new = monitor, new
        self.error_before, self.error = errors
        self.smoothness = smoothness
        algorithm, world = monitor.algorithm, monitor.world
        self.k = int(new.k)
        self.rho = float(torch.as_tensor(algorithm.penalty(self.k, new)).max())
        self.grown = float(self.k + algorithm.k0) ** algorithm.growth  # of k^(1/3)
        self.later = float(self.k + 1 + algorithm.k0) ** algorithm.growth
        self.c_rho = self.rho / self.grown
        self.eta = algorithm.inverse_step(self.k, world, new)
        self.moved = new.x - old.x
        self.step = monitor._sum(self.moved) ** 0.5
        self.own = 1.0 if algorithm.split else 0.0  # A'A = L + I, or L without y
        self.coupled = new.lx - old.lx + self.own * self.moved  # A'A dx
        self.pulled = self.eta * self.moved - self.rho * self.coupled  # S dx
        self.y = new.y if algorithm.split else new.x
        self.gap = new.x - self.y
        self.adjoint_residual = new.lx + self.gap  # A'r
        edges = world.reduce((new.x * new.lx).sum(1).double(), "sum").item()
        self.residual = edges + monitor._sum(self.gap)
        self.stiffness = self._norm_of_s()  # |S|
        self.lagrangian = self._lagrangian(loss)

    def lemma1_right(self, before: "_Iterate") -> float:
        """The bound of Lemma 1."""
        both = 1 + 1 / THETA
        past = 2 * both * before.stiffness**2 + 4 * both * self.smoothness**2
        noise = 8 * both * (self.error_before + before.error_before)
        now = (1 + THETA) * self.monitor._sum(self.pulled)
        bound: float = now + past * before.step**2 + noise
        return bound

    @property
    def beta(self) -> float:
        """The weight of |dx|^2 in the Lyapunov function, at its lower bound."""
        stiffness = self.stiffness / self.grown  # |C_eta - c_rho A'A|
        found = 6 * stiffness**2 + 12 * self.smoothness**2
        weight: float = (1 + 1 / THETA) * found / self.c_rho * self.later
        return weight

    @property
    def gamma(self) -> float:
        """1 / Gamma: the weight of |E|^2, the least for which C_E is positive."""
        c_a: float = self.monitor.algorithm.a.coefficient
        noise = (12 * (1 + 1 / THETA) + C_ERR) / self.c_rho
        least = (1 / (2 * C_MU) + noise) / (2 * c_a)
        weight: float = least * self.later
        return weight

    def lyapunov_terms(self) -> dict[str, float]:
        """The four terms of the Lyapunov function."""
        return {
            "lagrangian": self.lagrangian,
            "error_term": self.gamma * self.error,
            "past_error_term": C_ERR / self.rho * self.error_before,
            "step_term": self.beta / 2 * self.step**2,
        }

    @property
    def lyapunov(self) -> float:
        """Their sum."""
        return sum(self.lyapunov_terms().values())

    def lemma3_change(self, before: "_Iterate", noise: float) -> float:
        """What Lemma 3 allows the Lyapunov function to change by."""
        monitor, a = self.monitor, float(self.monitor.algorithm.a(self.k + 1))
        mu = C_MU * self.grown
        kept = (1 - a) ** 2 * self.gamma
        own = mu / 2 + self.beta / 2 + self.smoothness / 2
        own += 2 * self.smoothness**2 * kept
        world = monitor.world
        quadratic = (self.moved * (self.eta * self.moved)).sum(1)
        quadratic = quadratic - self.rho / 2 * (self.moved * self.coupled).sum(1)
        curved = world.reduce(quadratic.double(), "sum").item()
        curved -= 3 * (1 + THETA) / (2 * self.rho) * monitor._sum(self.pulled)
        curved -= own * self.step**2
        spared = before.gamma - kept - 1 / (2 * mu)
        spared -= (12 * (1 + 1 / THETA) + C_ERR) / self.rho
        grown = (self.rho - before.rho) / 2 * before.residual
        fall = curved + spared * self.error_before + self.rho / 2 * self.residual
        change: float = grown + 2 * a**2 * noise * self.gamma - fall
        return change

    def _lagrangian(self, loss: Tensor) -> float:
        """The augmented Lagrangian at (x, y, lambda) with this penalty."""
        monitor, new = self.monitor, self.new
        price = (new.alpha_sum * new.x).sum(1)
        if self.monitor.algorithm.split:
            price = price + (new.beta * self.gap).sum(1)
        own = loss + monitor.problem.penalty(self.y) - price
        total: float = monitor.world.reduce(own.double(), "sum").item()
        return total + self.rho / 2 * self.residual

    def _norm_of_s(self) -> float:
        """Spectral norm of ``S`` over the whole network."""
        monitor, world = self.monitor, self.monitor.world
        here = torch.zeros(len(world.agents), world.n, dtype=torch.float64)
        eta = torch.as_tensor(self.eta).double().cpu().reshape(-1)
        here[torch.arange(len(here)), list(world.agents)] = eta  # one, or one each
        whole = world.reduce(here.to(self.moved.device), "sum").cpu().numpy()
        spectra, ones = Spectra(monitor.graph), np.ones(monitor.graph.n)
        own = whole - self.own * self.rho
        highest = spectra.largest(ones, -self.rho, own)
        return max(abs(highest), abs(spectra.smallest(-self.rho, own)))
