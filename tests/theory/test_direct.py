"""HSM-ADMM with the prox on x itself: residual, certificate, constants, monitor."""

from typing import Any

import numpy as np
import pytest
import torch
from theory_page import GRAPHS
from zoo import Quadratics, classifier

import proxmesh as pm
from proxmesh.algorithms import HSMADMMDirectState
from proxmesh.theory import Monitor, certify

RHO = 0.7
DIRECT = pm.HSMADMM(0.25, 0.5, 1.0, split=False)


def test_the_residual_vanishes_at_the_solution() -> None:
    problem, world = Quadratics.random(5, 4, 0.3, seed=5), pm.connect(pm.graphs.star(5))
    algorithm = pm.HSMADMM(1.0, 4.0, 1.0, split=False)
    state = algorithm.init(torch.zeros(5, 4), problem, world)
    assert isinstance(state, HSMADMMDirectState)
    first = state.kkt_residual(problem)
    for _ in range(1200):
        state = algorithm.step(state, problem, world)
    last = state.kkt_residual(problem)
    assert first is not None
    assert last is not None
    assert first.sum() > 1
    assert last.sum() < 1e-10
    assert (state.x == 0).any()  # the model itself is sparse
    torch.testing.assert_close(
        state.x, problem.solution().expand(5, -1), atol=1e-4, rtol=0
    )


@pytest.mark.parametrize("name", ["ring of 8", "star of 8", "random-8"])
def test_no_prox_asks_for_shorter_steps(name: str) -> None:
    graph = GRAPHS[name]
    split, direct = (
        certify(pm.HSMADMM(1.0, 1.6, 1.0, split=s), graph) for s in (True, False)
    )
    assert direct.threshold == direct.threshold_smooth == split.threshold_smooth
    between = (split.threshold + split.threshold_smooth) / 2
    assert certify(pm.HSMADMM(1.0, between, 1.0), graph).verdict == "not certified"
    better = pm.HSMADMM(1.0, between, 1.0, split=False)
    assert certify(better, graph).verdict == "stable"
    assert certify(better, graph).stable_c_eta == pytest.approx(direct.threshold)


def test_the_bound_is_where_the_spectral_radius_crosses_one() -> None:
    """``Q > H/2 + 3/4 rho L``, for every slope of the prox; without one it is sharp."""
    for seed, name in enumerate(("ring of 8", "star of 8", "random-8")):
        graph, draw = GRAPHS[name], np.random.default_rng(seed)
        n, laplacian = graph.n, np.asarray(graph.laplacian, float)
        h = np.diag(draw.uniform(0.1, 3, n))
        q = (graph.degrees + 1.0) * draw.uniform(0.8, 1.2, n)
        bound = h / 2 + 0.75 * RHO * laplacian
        scale = np.linalg.eigvalsh(bound / np.sqrt(np.outer(q, q)))[-1]

        def radius(factor: float, slope: Any, parts: Any = (n, laplacian, h, q)) -> Any:
            agents, edges, curved, base = parts
            x, p = np.split(np.eye(2 * agents), 2)
            moved = curved @ x - p + RHO * edges @ x
            new = slope[:, None] * (x - moved / (factor * base)[:, None])
            matrix = np.vstack([new, p - RHO * edges @ new])
            mean = np.zeros((2 * agents, 1))
            mean[agents:] = agents**-0.5  # 1'p = 0 in a run
            free = np.eye(2 * agents) - mean @ mean.T
            return np.abs(np.linalg.eigvals(free @ matrix @ free)).max()

        assert radius(0.999 * scale, np.ones(n)) > 1
        for _ in range(20):
            slope = draw.integers(0, 2, n) * draw.uniform(0.5, 1, n)
            assert radius(1.001 * scale, slope) < 1 + 1e-9  # a slope 0 keeps p
        assert radius(1.001 * scale, np.ones(n)) < 1


def test_constants_are_found_and_certified() -> None:
    problem, graph = classifier(), pm.graphs.star(4)
    run = pm.prepare(problem, pm.HSMADMM(split=False), graph, 200, compile=False)
    assert run.settled.automatic == ("c_rho", "c_eta", "smoothness", "follow")
    certificate = run.certificate()
    assert certificate is not None
    assert certificate.margin > 0
    result = run.go()
    assert result.final["train_accuracy"] > 0.9
    assert result.final["kkt"] > 0


def test_the_monitor_knows_both_forms() -> None:
    problem, graph = classifier(), pm.graphs.star(4)
    world = pm.connect(graph)
    monitor = Monitor(DIRECT, problem, world, graph)
    state = DIRECT.init(problem.x0(), problem, world)
    for _ in range(5):
        state = DIRECT.step(state, problem, world)
    row = monitor.look(state)
    after = state
    for _ in range(2):
        before, after = after, DIRECT.step(after, problem, world)
    edges = float((after.x * after.lx).sum())
    assert row["residual"] == pytest.approx(edges, rel=1e-4)
    rho = float(DIRECT.rho(7))
    assert row["seen_by_A"] == pytest.approx(rho**2 * float(after.lx.square().sum()))
    assert row["step"] == pytest.approx(float((after.x - before.x).norm()), rel=1e-4)
    expected = problem.value(after.x) + problem.penalty(after.x)
    price = float((after.alpha_sum * after.x).sum())
    total = float(expected.sum()) - price + rho / 2 * edges
    assert row["lagrangian"] == pytest.approx(total, rel=1e-4)
    assert row["lemma2_left"] <= row["lemma2_right"]
    assert len(monitor.counts()) == 5
