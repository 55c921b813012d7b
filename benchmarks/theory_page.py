"""The numbers of docs/theory.md.

    python benchmarks/theory_page.py [--quick]

prints the tables of the page. Everything here is small, exact and fixed by seeds; the
tests hold the page to it. `--quick` prints fewer rows from shorter runs: does it work?
"""

import argparse
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from threadpoolctl import threadpool_limits
from torch import Tensor

from proxmesh import graphs
from proxmesh.algorithms import HSMADMM
from proxmesh.data import datasets
from proxmesh.graphs import Graph
from proxmesh.network import connect
from proxmesh.problems import L1, LearningProblem, models
from proxmesh.report.targets import fitted_slope, running_best
from proxmesh.solver.solving import solve
from proxmesh.theory.certificate import certify
from proxmesh.theory.spectra import LINEARIZED

__all__ = [
    "GRAPHS",
    "agreement",
    "best_condition",
    "condition",
    "critical_scale",
    "diverges",
    "dual_step_violations",
    "fitted_rate",
    "incidence",
    "iteration_matrix",
    "kernel_witness",
    "random_graphs",
    "threshold_by_running",
]

Matrix = NDArray[np.float64]

GRAPHS: Mapping[str, Graph] = {
    "2 agents": graphs.path(2),
    "path of 8": graphs.path(8),
    "ring of 8": graphs.ring(8),
    "ladder of 8": graphs.ladder(8),
    "random-8": graphs.random_8(),
    "complete of 8": graphs.complete(8),
    "star of 8": graphs.star(8),
    "star of 32": graphs.star(32),
    "star of 128": graphs.star(128),
    "barabasi-albert of 32": graphs.barabasi_albert(32, links=2, seed=1),
}
"""The graphs of the page."""

RATES: Mapping[str, HSMADMM] = {
    "automatic constants": HSMADMM(follow=False),
    "c_rho, c_eta, c_a = 0.25, 0.5, 1": HSMADMM(0.25, 0.5, 1.0),
}
"""Constants for which the rate is measured."""
LAST_DECADE = 0.1  # as of `fitted_slope`


# -- T1: Theorem 1 asks for a positive definite C_x ------------------------------------


def condition(
    graph: Graph,
    ratio: float,
    theta: float,
    *,
    norm: str = "spectral",
    beta: bool = True,
) -> float:
    """lambda_min(C_x) / c_rho at smoothness 0, with c_mu and c_gamma at their limit 0.

    Parameters
    ----------
    graph, ratio, theta
        The graph, c_eta / c_rho and the paper's free theta.
    norm
        How the norm in the paper's condition on beta is read: spectral or frobenius.
    beta
        False: with c_beta = 0, which the paper does not allow.
    """
    gram = np.asarray(_dense(graph) + np.eye(graph.n))  # A'A
    step = ratio * np.diag(graph.degrees + 1.0)
    s = step - gram
    size = np.linalg.norm(s, 2) if norm == "spectral" else np.sqrt((s**2).sum())
    c_beta = 6 * (1 + 1 / theta) * size**2 if beta else 0.0
    c_x = step - gram / 2 - 1.5 * (1 + theta) * s @ s - c_beta / 2 * np.eye(graph.n)
    return float(np.linalg.eigvalsh(c_x)[0])


def best_condition(graph: Graph, **options: Any) -> float:
    """The largest value of `condition` over all ratios and all theta."""

    def lost(point: Any) -> float:
        ratio, theta = np.exp(np.clip(point, -12, 12))
        return -condition(graph, ratio, theta, **options)

    return max(
        -float(minimize(lost, start, method="Nelder-Mead").fun)
        for start in ((0.0, 0.0), (0.5, -2.0))
    )


# -- T2: Lemma 1 takes the range of A for the whole space ------------------------------


def incidence(graph: Graph) -> Matrix:
    """``A = [M; I]`` with M the signed incidence matrix: ``A'A = L + I``."""
    m = np.zeros((len(graph.edges), graph.n))
    for row, (i, j) in enumerate(graph.edges):
        m[row, i], m[row, j] = 1, -1
    return np.vstack([m, np.eye(graph.n)])


def kernel_witness(graph: Graph) -> tuple[float, float]:
    """``|A'r|`` and ``|r|`` of ``r = Ax + By`` with ``y = (L + I) x``."""
    a = incidence(graph)
    x = np.arange(graph.n, dtype=float)
    y = a.T @ a @ x
    r = a @ x - np.concatenate([np.zeros(len(graph.edges)), y])
    return float(np.linalg.norm(a.T @ r)), float(np.linalg.norm(r))


def dual_step_violations(
    graph: Graph, problems: int = 20, steps: int = 40
) -> tuple[int, int]:
    """How often |dlambda|^2 > |A' dlambda|^2, of how many steps.

    Lasso with two unknowns: f_i = w_i |x - t_i|^2 / 2 with w_i from 1/2 to 3/2 and t_i
    normal, h = |x|_1 / 10; exact gradients, c_rho = 1, c_eta = 2, from x = 0.
    """
    world = connect(graph, "simulated", dtype=torch.float64)
    algorithm = HSMADMM(c_rho=1.0, c_eta=2.0, c_a=1.0)
    violated = 0
    for seed in range(problems):
        problem = _Lasso.drawn(graph.n, seed)
        zero = torch.zeros(graph.n, 2, dtype=torch.float64)
        state = algorithm.init(zero, problem, world)
        for _ in range(steps):
            state = algorithm.step(state, problem, world)
            gap = state.x - state.y
            whole = (state.x * state.lx).sum() + gap.square().sum()
            seen = (state.lx + gap).square().sum()
            violated += bool(whole > seen)
    return violated, problems * steps


@final
@dataclass(frozen=True, slots=True)
class _Lasso:
    """Weighted distances to targets, with exact gradients."""

    weight: Tensor  # [n, 1]
    target: Tensor  # [n, p]
    l1: float = 0.1

    @staticmethod
    def drawn(n: int, seed: int) -> "_Lasso":
        draw = np.random.default_rng(seed)
        weight, target = draw.uniform(0.5, 1.5, (n, 1)), draw.standard_normal((n, 2))
        return _Lasso(torch.from_numpy(weight), torch.from_numpy(target))

    def sample(self, k: Any, size: int | None = None, stream: int = 0) -> None:
        """Nothing is drawn: gradients are exact."""

    def grad(self, x: Tensor, batch: None) -> Tensor:
        """``w_i (x_i - t_i)``."""
        del batch
        return self.weight * (x - self.target)

    def prox(self, z: Tensor, step: Any) -> Tensor:
        """Soft threshold."""
        shrunk: Tensor = z.sign() * (z.abs() - step * self.l1).clamp_min(0)
        return shrunk


# -- T3: where it is stable ------------------------------------------------------------


def iteration_matrix(
    graph: Graph, q: Matrix, h: Matrix, slope: Matrix, rho: float
) -> Matrix:
    """One iteration on (x, alpha_sum, beta) for f = x'Hx/2 and a prox of this slope."""
    n, laplacian = graph.n, _dense(graph)
    x, p, b = np.split(np.eye(3 * n), 3)
    y = slope[:, None] * (x - b / rho)
    x_new = x - (h @ x - p - b + rho * (laplacian @ x + x - y)) / q[:, None]
    return np.vstack([x_new, p - rho * laplacian @ x_new, b - rho * (x_new - y)])


def critical_scale(
    graph: Graph, q: Matrix, h: Matrix, slope: Matrix, rho: float
) -> float:
    """The scale of q at which it becomes stable, by the formula of the page."""
    own = 1.5 * rho * (1 - slope) / (2 - slope)
    bound = h / 2 + LINEARIZED * rho * _dense(graph) + np.diag(own)
    root = 1 / np.sqrt(q)
    return float(np.linalg.eigvalsh(root[:, None] * bound * root)[-1])


def agreement(names: Iterable[str], cases: int = 20) -> tuple[int, float]:
    """Cases, and the largest relative gap between formula and spectral radius."""
    worst, count = 0.0, 0
    for name in names:
        graph = GRAPHS[name]
        for seed in range(cases):
            draw = np.random.default_rng([seed, graph.n, len(graph.edges)])
            h = np.diag(draw.uniform(0, 3, graph.n))
            slope = draw.integers(0, 2, graph.n).astype(float)
            rho = float(draw.uniform(0.2, 2))
            q = (graph.degrees + 1.0) * draw.uniform(0.8, 1.2, graph.n)
            predicted = critical_scale(graph, q, h, slope, rho)

            def beyond(
                scale: float,
                parts: tuple[Any, ...] = (graph, q, h, slope, rho),
            ) -> float:
                g, base, *rest = parts
                found = np.linalg.eigvals(iteration_matrix(g, scale * base, *rest))
                real = found[np.abs(found.imag) < 1e-7].real
                return float(real.min()) + 1

            crossing = brentq(beyond, 0.5 * predicted, 1.5 * predicted, xtol=1e-13)
            worst = max(worst, abs(crossing / predicted - 1))
            count += 1
    return count, worst


@final
class _Flat:
    """f = 0 and h = 0: nothing but agents that want to agree."""

    def sample(self, k: Any, size: int | None = None, stream: int = 0) -> None:
        """Nothing."""

    def grad(self, x: Tensor, batch: None) -> Tensor:
        """Zero."""
        del batch
        return torch.zeros_like(x)

    def prox(self, z: Tensor, step: Any) -> Tensor:
        """The identity."""
        del step
        return z


def diverges(graph: Graph, ratio: float, steps: int = 400) -> bool:
    """Whether the agents' disagreement grows in a run with h = 0 and f = 0."""
    world = connect(graph, "simulated", dtype=torch.float64)
    algorithm = HSMADMM(c_rho=1.0, c_eta=ratio, c_a=1.0)
    draw = np.random.default_rng(0)
    x = torch.from_numpy(draw.standard_normal((graph.n, 1)))
    problem, first = _Flat(), float((x - x.mean()).norm())
    state = algorithm.init(x, problem, world)
    for _ in range(steps):
        state = algorithm.step(state, problem, world)
        last = float((state.x - state.x.mean()).norm())
        if last > 1e6 * first:
            return True
    return last > first


def threshold_by_running(graph: Graph, steps: int = 400) -> float:
    """c_eta / c_rho below which runs with h = 0 blow up, by bisection to 0.2 %."""
    low, high = 0.3, 2.0
    while high / low > 1.002:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if diverges(graph, middle, steps) else (low, middle)
    return math.sqrt(low * high)


def random_graphs(count: int = 30) -> list[Graph]:
    """Random graphs of three kinds with 6 to 24 agents."""
    found = []
    for seed in range(count):
        n = 6 + (7 * seed) % 19
        kind = seed % 3
        if kind == 0:
            found.append(graphs.erdos_renyi(n, seed=seed))
        elif kind == 1:
            found.append(graphs.barabasi_albert(n, links=1 + seed % 2, seed=seed))
        else:
            found.append(graphs.watts_strogatz(n, seed=seed))
    return found


# -- the rate of Theorem 2, as measured ------------------------------------------------


def fitted_rate(algorithm: HSMADMM, steps: int = 2000) -> float:
    """Slope of the least KKT residual up to k, by least squares over the last decade.

    The MLP on a9a, ring of 8 agents, batch 64, seed 0; looked at 40 times.
    """
    data = datasets.a9a()
    torch.manual_seed(0)
    problem = LearningProblem(
        models.mlp(123, 2),
        torch.nn.functional.cross_entropy,
        data.split(8),
        regularizer=L1(1e-4),
        batch_size=64,
    )
    result = solve(
        problem,
        algorithm,
        GRAPHS["ring of 8"],
        steps,
        eval_every=steps // 40,
        compile=False,
    )
    k = result.history["iteration"].iloc[1:]
    return fitted_slope(k, running_best(result.history, "kkt"), LAST_DECADE)


def _dense(graph: Graph) -> Matrix:
    found = graph.laplacian
    return found if isinstance(found, np.ndarray) else found.toarray()


def main() -> None:
    """Print the tables of the page."""
    parser = argparse.ArgumentParser(description="The tables of docs/theory.md.")
    parser.add_argument("--quick", action="store_true", help="fewer, shorter runs")
    quick = parser.parse_args().quick
    names = list(GRAPHS)[:2] if quick else list(GRAPHS)
    small = [name for name in names if name != "star of 128"]
    print("| graph | spectral norm | Frobenius norm | c_beta = 0 |\n|---|---|---|---|")
    for name in names:
        graph = GRAPHS[name]
        values = [
            best_condition(graph),
            best_condition(graph, norm="frobenius"),
            best_condition(graph, beta=False),
        ]
        print(f"| {name} | " + " | ".join(f"{v:.3g}" for v in values) + " |")
    print("\n| graph | violated | of |\n|---|---|---|")
    for name in small:
        violated, steps = dual_step_violations(GRAPHS[name])
        print(f"| {name} | {violated} | {steps} |")
    cases, worst = agreement(small[:7])
    print(f"\n{cases} random cases, largest gap {worst:.1e}\n")
    print("| graph | h = 0 | worst prox | by running, h = 0 | contraction | gain |")
    print("|---|---|---|---|---|---|")
    for name in small:
        graph = GRAPHS[name]
        found = certify(HSMADMM(1.0, 1.6, 1.0), graph)
        run = threshold_by_running(graph)
        print(
            f"| {name} | {found.threshold_smooth:.3f} | {found.threshold:.3f} "
            f"| {run:.3f} | {found.contraction:.3f} | {found.gain:.2f} |"
        )
    gaps = []
    for graph in random_graphs(2 if quick else 30):
        predicted = certify(HSMADMM(1.0, 1.6, 1.0), graph).threshold_smooth
        gaps.append(abs(threshold_by_running(graph) / predicted - 1))
    print(f"\n{len(gaps)} random graphs, largest gap {max(gaps):.2%}\n")
    for name, algorithm in RATES.items():
        slope = fitted_rate(algorithm, 80 if quick else 2000)
        print(f"slope of the KKT residual, {name}: {slope:.2f}")


if __name__ == "__main__":
    with threadpool_limits(
        1
    ):  # small matrices: more threads would wait for one another
        main()
