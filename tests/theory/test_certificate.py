"""The certificate against spectral radii, real runs, and the documented table."""

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from theory_page import (
    GRAPHS,
    critical_scale,
    diverges,
    iteration_matrix,
    random_graphs,
)

import proxmesh as pm
from proxmesh.graphs import CONSTRUCTORS
from proxmesh.theory import certify
from proxmesh.theory.smoothness import Smoothness
from proxmesh.theory.spectra import Spectra

THRESHOLDS = {  # c_eta / c_rho: h = 0, worst prox; and the gain over uniform steps
    "2 agents": (0.750, 1.125, 1.00),
    "path of 8": (0.975, 1.233, None),
    "ring of 8": (1.000, 1.250, 1.00),
    "ladder of 8": (1.080, 1.288, None),
    "random-8": (0.891, 1.004, 0.96),
    "complete of 8": (0.750, 0.844, 1.00),
    "star of 8": (1.031, 1.246, 2.1),
    "star of 32": (1.102, 1.272, 7.4),
    "barabasi-albert of 32": (1.054, 1.203, 2.3),
}


def spectral_radius(
    graph: pm.Graph, algorithm: Any, h: Any, slope: Any, k: int
) -> float:
    """Of the iteration matrix at k, the mean of alpha_sum projected out.

    It is 0 in a run and would show as a second eigenvalue 1.
    """
    n = graph.n
    world = pm.connect(graph, dtype=torch.float64)
    q = algorithm.inverse_step(k, world).numpy()[:, 0]
    matrix = iteration_matrix(graph, q, np.diag(h), slope, algorithm.rho(k))
    mean = np.zeros((3 * n, 1))
    mean[n : 2 * n] = 1 / math.sqrt(n)
    free = np.eye(3 * n) - mean @ mean.T
    return float(np.abs(np.linalg.eigvals(free @ matrix @ free)).max())


@pytest.mark.parametrize("name", THRESHOLDS)
def test_thresholds_and_gain_are_those_of_the_table(name: str) -> None:
    smooth, worst, gain = THRESHOLDS[name]
    found = certify(pm.HSMADMM(1.0, 1.6, 1.0), GRAPHS[name])
    assert found.threshold_smooth == pytest.approx(smooth, abs=6e-4)
    assert found.threshold == pytest.approx(worst, abs=6e-4)
    if gain is not None:
        assert found.gain == pytest.approx(gain, rel=0.025)
    assert found.verdict == "stable"
    assert found.margin == pytest.approx(1 - found.threshold / 1.6)


@pytest.mark.parametrize(
    ("name", "best"), [("star of 8", 0.915), ("star of 32", 0.979), ("random-8", 0.537)]
)
def test_uniform_steps_have_thresholds_and_rates_of_their_own(
    name: str, best: float
) -> None:
    uniform = pm.HSMADMM(1.0, 1.6, 1.0, heterogeneous=False)
    found = certify(uniform, GRAPHS[name])
    assert found.threshold_smooth == pytest.approx(0.75, abs=1e-3)
    rates = [
        certify(pm.HSMADMM(1.0, c, 1.0, heterogeneous=False), GRAPHS[name]).contraction
        for c in np.linspace(0.75, 1.6, 200)
    ]
    assert min(rates) == pytest.approx(best, abs=2e-3)


def test_an_assumed_degree_is_certified_as_it_is() -> None:
    blind = pm.HSMADMM(1.0, 1.6, 1.0, assumed_degree=2)
    assert certify(blind, pm.graphs.ring(8)).verdict == "stable"
    found = certify(blind, pm.graphs.star(8))
    assert found.verdict == "unstable"
    assert found.threshold_smooth == pytest.approx(6.0 / 3, abs=1e-6)


def test_divergence_is_predicted_on_random_graphs_within_two_percent() -> None:
    """Found by running: h = 0, on both sides of the threshold."""
    for graph in random_graphs(30):
        predicted = certify(pm.HSMADMM(1.0, 1.6, 1.0), graph).threshold_smooth
        assert diverges(graph, 0.98 * predicted, steps=250), graph
        assert not diverges(graph, 1.02 * predicted, steps=250), graph


def test_the_formula_is_where_the_spectral_radius_crosses_one() -> None:
    for name in ("ring of 8", "star of 8", "random-8"):
        graph = GRAPHS[name]
        for seed in range(5):
            draw = np.random.default_rng(seed)
            h, slope = draw.uniform(0, 3, graph.n), draw.integers(0, 2, graph.n)
            q = (graph.degrees + 1.0) * draw.uniform(0.8, 1.2, graph.n)
            parts = (graph, q, np.diag(h), slope.astype(float), 0.7)
            scale = critical_scale(*parts)
            for factor, inside in ((0.999, False), (1.001, True)):
                matrix = iteration_matrix(graph, factor * scale * q, *parts[2:])
                found = np.linalg.eigvals(matrix)
                lowest = found[np.abs(found.imag) < 1e-9].real.min()
                assert (lowest > -1) == inside


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(["ring", "star", "path", "barabasi-albert", "erdos-renyi"]),
    n=st.integers(3, 9),
    smoothness=st.floats(0.05, 20),
    ratio=st.floats(0.6, 3),
    c_rho=st.floats(0.01, 2),
    offset=st.sampled_from([0.0, 0.5, 1.0]),
    slopes=st.integers(0, 2**9 - 1),
)
def test_what_is_called_stable_is_stable_at_every_k(
    kind: str,
    n: int,
    smoothness: float,
    ratio: float,
    c_rho: float,
    offset: float,
    slopes: int,
) -> None:
    """For any prox and any convex quadratic within the smoothness."""
    graph = pm.graphs.make(kind, n)
    algorithm = pm.HSMADMM(c_rho, ratio * c_rho, 1.0, offset * smoothness)
    found = certify(algorithm, graph, smoothness)
    slope = np.array([slopes >> i & 1 for i in range(n)], float)
    curved = smoothness * np.random.default_rng(slopes).uniform(0.01, 1, n)
    start = found.certified_from
    for k in () if start is None else (start, start + 7, 100 * start):
        assert spectral_radius(graph, algorithm, curved, slope, k) <= 1 + 1e-7
    # In the end, that is: L_f in the step puts it off. On the limit itself it is 1.
    if found.verdict == "unstable" and found.ratio < 0.999 * found.threshold_smooth:
        flat, k = np.zeros(n), 10**15
        assert spectral_radius(graph, algorithm, flat, np.ones(n), k) > 1 + 1e-9


def test_the_margin_is_least_where_it_is_said_to_be() -> None:
    graph = pm.graphs.star(6)
    for offset in (0.0, 2.0, 8.0):
        algorithm = pm.HSMADMM(0.3, 0.5, 1.0, offset)
        found = certify(algorithm, graph, 4.0, steps=500)
        world = pm.connect(graph, dtype=torch.float64)
        margins = {}
        for k in (1, 2, 5, 20, 100, 300, 500):
            q = algorithm.inverse_step(k, world).numpy()[:, 0]
            rho = algorithm.rho(k)
            bound = 2 * np.eye(6) + 0.75 * rho * (graph.laplacian + np.eye(6))
            scaled = bound / np.sqrt(np.outer(q, q))
            margins[k] = 1 - np.linalg.eigvalsh(scaled)[-1]
        assert found.margin == pytest.approx(min(margins.values()))
        assert margins[int(found.worst_k)] == pytest.approx(found.margin)


@pytest.mark.parametrize(("offset", "k0"), [(0.0, 0), (0.3, 0), (0.3, 7)])
def test_the_smallest_change_is_the_smallest(offset: float, k0: int) -> None:
    graph, smoothness = pm.graphs.barabasi_albert(12), np.linspace(0.5, 6, 12)

    def of(c_eta: float) -> Any:
        algorithm = pm.HSMADMM(0.3, c_eta, 1.0, offset, k0=k0)
        return certify(algorithm, graph, smoothness)

    needed = of(0.2)
    assert needed.verdict == "unstable"
    enough = float(needed.remedy.split(" to ")[1].rstrip("."))
    assert enough == pytest.approx(needed.stable_c_eta, rel=1e-3)
    assert of(enough).verdict == "stable"
    less = of(0.999 * needed.stable_c_eta)
    assert less.verdict == "not certified"
    assert less.certified_from is not None
    assert less.certified_from > 1


def test_verdicts_between_the_thresholds_and_under_sharp_losses() -> None:
    ring = pm.graphs.ring(8)
    between = certify(pm.HSMADMM(1.0, 1.1, 1.0), ring)
    assert between.verdict == "not certified"
    assert "between 1 and 1.25" in between.reason
    assert between.certified_from is None
    sharp = certify(pm.HSMADMM(0.1, 0.2, 1.0), ring, 10.0)
    assert sharp.verdict == "not certified"
    k = sharp.certified_from
    assert k is not None
    slope = np.zeros(8)
    worst = np.full(8, 10.0)
    algorithm = pm.HSMADMM(0.1, 0.2, 1.0)
    assert spectral_radius(ring, algorithm, worst, slope, k) <= 1 + 1e-9
    assert spectral_radius(ring, algorithm, worst, slope, int(0.99 * k)) > 1 + 1e-4
    assert f"from k = {k:,} on" in sharp.reason


def test_negative_curvature_is_held_by_the_neighbors_from_some_k_on() -> None:
    """Counterexample of the page: the rule holds and the spectral radius is 1.22."""
    ring, h = pm.graphs.ring(8), np.array([-1.0, *[2.0] * 7])
    algorithm = pm.HSMADMM(0.1, 0.5, 1.0)
    assert certify(algorithm, ring, 2.0).certified_from is not None
    slope = np.ones(8)
    assert spectral_radius(ring, algorithm, h, slope, 1) == pytest.approx(
        1.22, abs=0.03
    )
    found = certify(algorithm, ring, np.maximum(h, 0), curvature=h)
    assert found.verdict == "not certified"
    k = found.certified_from
    assert k is not None
    assert k > 1
    assert "only from k" in found.reason or "first steps" in found.reason
    assert spectral_radius(ring, algorithm, h, slope, k) < 1
    together = certify(algorithm, ring, 2.0, curvature=-0.5)
    assert together.verdict == "not certified"
    assert together.certified_from is None
    assert "curve down together (curvature -0.5)" in together.reason


def test_sparse_and_dense_eigenvalues_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxmesh.graphs.DENSE_UP_TO", 0)
    monkeypatch.setattr("proxmesh.graphs.DENSE_FROM", 2.0)
    for graph in (pm.graphs.ring(150), pm.graphs.barabasi_albert(120)):
        sparse = pm.Graph(graph.n, graph.edges)  # nothing cached
        assert not isinstance(sparse.laplacian, np.ndarray)
        algorithm = pm.HSMADMM(0.2, 0.3, 1.0)
        smoothness = np.linspace(0.5, 3, graph.n)
        ours = certify(algorithm, sparse, smoothness)
        monkeypatch.setattr("proxmesh.graphs.DENSE_UP_TO", 1000)
        dense = pm.Graph(graph.n, graph.edges)
        theirs = certify(algorithm, dense, smoothness)
        monkeypatch.setattr("proxmesh.graphs.DENSE_UP_TO", 0)
        assert isinstance(dense.laplacian, np.ndarray)
        for name in ("threshold", "threshold_smooth", "margin", "contraction", "gain"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-6)
        assert ours.certified_from == theirs.certified_from


def test_a_large_sparse_graph_takes_moments() -> None:
    found = certify(pm.HSMADMM(), pm.graphs.barabasi_albert(3000), 2.0)
    assert found.verdict == "stable"
    assert found.threshold < 1.5


@pytest.mark.parametrize("kind", sorted(CONSTRUCTORS))
def test_the_graph_free_ratio_is_enough_everywhere(kind: str) -> None:
    found = certify(pm.HSMADMM(1.0, 1.5, 1.0), pm.graphs.make(kind, 8))
    assert found.verdict == "stable"
    assert found.graph_free == 1.5


def test_one_and_a_half_is_the_best_universal_constant() -> None:
    both_sides = nx.complete_bipartite_graph(16, 16)
    assert certify(pm.HSMADMM(1, 1.5, 1), both_sides).threshold == pytest.approx(
        1.456, abs=1e-3
    )


def test_contraction_is_that_of_a_run() -> None:
    graph, algorithm = pm.graphs.path(6), pm.HSMADMM(1.0, 1.6, 1.0)
    slope, flat = np.ones(6), np.zeros(6)
    n = graph.n
    world = pm.connect(graph, dtype=torch.float64)
    q = algorithm.inverse_step(1000, world).numpy()[:, 0]
    rho = float(algorithm.rho(1000))
    matrix = iteration_matrix(graph, q, np.diag(flat), slope, rho)
    sizes = np.sort(np.abs(np.linalg.eigvals(matrix[: 2 * n, : 2 * n])))
    assert sizes[-3] == pytest.approx(certify(algorithm, graph).contraction, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((pm.DSGT(), 1.0), "certify: `DSGT` has no certificate"),
        ((pm.HSMADMM(1, 2, 1), -1.0), "`smoothness` must not be negative, got -1"),
        ((pm.HSMADMM(1, 2, 1), math.inf), "`smoothness` must be finite, got inf"),
        ((pm.HSMADMM(1, 2, 1), [1.0, 2.0]), "has 2 values, but the graph has 8 agents"),
        ((pm.HSMADMM(), 0.0), "follow from the smoothness of the losses, which is 0"),
    ],
)
def test_wrong_questions(arguments: tuple[Any, Any], message: str) -> None:
    with pytest.raises(pm.InputError, match=message):
        certify(arguments[0], pm.graphs.ring(8), arguments[1])


def test_an_estimate_can_be_given_as_it_is() -> None:
    estimate = Smoothness(
        upper=torch.full((8,), 3.0),
        lower=torch.full((8,), -1.0),
        mean_square=torch.full((8,), 3.0),
        noise=torch.zeros(8),
        seconds=0.1,
        products=12,
    )
    found = certify(pm.HSMADMM(0.25, 0.5, 1.0), pm.graphs.ring(8), estimate)
    assert (found.smoothness, found.curvature) == (3.0, -1.0)


def test_the_slowest_mode_of_a_ring_is_known() -> None:
    for n in (8, 200):
        graph = pm.graphs.ring(n)
        exact = (2 - 2 * math.cos(2 * math.pi / n)) / 3
        assert Spectra(graph).slowest(np.full(n, 3.0)) == pytest.approx(exact, rel=1e-6)


def test_smoothness_in_the_step_may_put_divergence_off_beyond_the_run() -> None:
    ring, algorithm = pm.graphs.ring(8), pm.HSMADMM(1e-3, 5e-4, 1.0, 10.0)
    assert certify(algorithm, ring, 10.0).verdict == "unstable"
    found = certify(algorithm, ring, 10.0, steps=3000)
    assert found.verdict == "not certified"
    assert found.margin > 0.4
    assert "puts that off beyond k = 3,000" in found.reason


def test_contraction_is_that_of_the_step_with_smoothness_in_it() -> None:
    ring, algorithm = pm.graphs.ring(8), pm.HSMADMM(0.0306, 0.049, 1.0, 1.0)
    for k, rate in ((1, 0.992), (100, 0.975), (2000, 0.960)):
        found = certify(algorithm, ring, 1.0, steps=k)
        assert found.contraction == pytest.approx(rate, abs=6e-4)
    assert certify(algorithm, ring, 1.0).contraction == pytest.approx(0.937, abs=6e-4)


def test_two_obstacles_are_both_named() -> None:
    found = certify(pm.HSMADMM(0.1, 0.2, 1.0), pm.graphs.ring(8), 10.0, curvature=-1.0)
    assert "the first steps are too long" in found.reason
    assert "curve down together (curvature -1)" in found.reason
    late = certify(pm.HSMADMM(1e-9, 2e-9, 1.0), pm.graphs.ring(8), 10.0)
    assert late.verdict == "not certified"
    assert late.certified_from is not None
    assert late.certified_from > 10**15


def test_an_assumed_degree_has_no_ratio_for_every_graph() -> None:
    found = certify(pm.HSMADMM(1.0, 3.0, 1.0, assumed_degree=2), pm.graphs.star(8))
    assert found.graph_free is None


def test_constants_that_certify_chose_are_in_the_certificate() -> None:
    found = certify(pm.HSMADMM(), pm.graphs.ring(8), 3.0)
    assert not found.algorithm.missing
    given = pm.HSMADMM(c_rho=1.0, c_eta=1.6)
    assert certify(given, pm.graphs.ring(8)).verdict == "stable"  # c_a plays no part


def test_a_graph_by_its_name_alone_is_refused() -> None:
    with pytest.raises(pm.InputError, match="`graph` is a str"):
        certify(pm.HSMADMM(1.0, 2.0, 1.0), "ring")  # type: ignore[call-overload]
