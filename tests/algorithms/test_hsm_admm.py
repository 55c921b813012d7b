from itertools import islice
from typing import Any

import numpy as np
import pytest
import reference
import torch
from conftest import GRAPH_KINDS, small_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from zoo import ROUND, GoldenQuadratics, Quadratics

import proxmesh as pm
from proxmesh.algorithms.hsm_admm_state import HSMADMMState
from proxmesh.network import CountingNetwork

EXACT = 1e-12  # float64 rounding over 50 steps of numbers of size 1
CONVERGED = 1e-8  # what the method reaches on a full-rank lasso with full gradients
PRINTED = 5e-11  # the golden values are given with ten decimals


def iterate(
    algorithm: pm.HSMADMM, problem: object, graph: pm.Graph, x0: Tensor, steps: int
) -> list[Any]:
    world = pm.connect(graph, dtype=x0.dtype)
    states = [algorithm.init(x0, problem, world)]  # type: ignore[arg-type]
    for _ in range(steps):
        states.append(algorithm.step(states[-1], problem, world))  # type: ignore[arg-type]
    return states


def against_reference(
    algorithm: pm.HSMADMM, problem: object, graph: pm.Graph, x0: Tensor, steps: int
) -> float:
    """Largest difference between the shipped step and the edge-by-edge oracle."""
    rows, n = x0.numpy(), graph.n

    def gradient(agent: int, x: np.ndarray, k: int) -> np.ndarray:
        stacked = torch.zeros(n, len(x)).index_copy(
            0, torch.tensor([agent]), torch.from_numpy(x)[None]
        )
        size = algorithm.first_batch if k == 0 else None
        batch = problem.sample(k, size=size)  # type: ignore[attr-defined]
        return problem.grad(stacked, batch)[agent].numpy()  # type: ignore[attr-defined, no-any-return]

    def prox(z: np.ndarray, step: float) -> np.ndarray:
        return problem.prox(torch.from_numpy(z)[None], step)[0].numpy()  # type: ignore[attr-defined, no-any-return]

    c_rho, c_eta, c_a = algorithm.c_rho, algorithm.c_eta, algorithm.c_a
    assert None not in {c_rho, c_eta, c_a}
    oracle = reference.hsm_admm(
        list(graph.edges),
        list(rows),
        gradient,
        prox,
        c_rho=c_rho or 0,
        c_eta=c_eta or 0,
        c_a=c_a or 0,
        smoothness=algorithm.smoothness or 0,
        k0=algorithm.k0,
        uniform=not algorithm.heterogeneous,
        assumed=algorithm.assumed_degree,
        split=algorithm.split,
    )
    states = iterate(algorithm, problem, graph, x0, steps)
    return max(
        float(np.abs(np.stack(expected) - state.x.numpy()).max())
        for expected, state in zip(islice(oracle, steps), states[1:], strict=True)
    )


def learning(graph: pm.Graph, seed: int = 3) -> pm.LearningProblem:
    """A small classifier on shards of unequal size."""
    g = torch.Generator().manual_seed(seed)
    sizes = [3 + (5 * i) % 11 for i in range(graph.n)]
    shards = [
        (torch.randn(m, 4, generator=g), torch.randint(0, 3, (m,), generator=g))
        for m in sizes
    ]
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    return pm.LearningProblem(
        model,
        nn.functional.cross_entropy,
        shards,
        regularizer=pm.L1(0.01),
        batch_size=3,
        seed=seed,
    )


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_step_is_algorithm_1_edge_by_edge(kind: str) -> None:
    graph = small_graph(kind)
    problem = learning(graph)
    algorithm = pm.HSMADMM(c_rho=0.3, c_eta=0.7, c_a=2.5)
    x0 = problem.x0("different")
    assert against_reference(algorithm, problem, graph, x0, steps=50) < EXACT


@pytest.mark.parametrize(
    "algorithm",
    [
        pm.HSMADMM(c_rho=0.3, c_eta=0.7, c_a=2.5, k0=7),
        pm.HSMADMM(c_rho=0.3, c_eta=0.7, c_a=2.5, heterogeneous=False),
        pm.HSMADMM(c_rho=0.3, c_eta=1.7, c_a=2.5, assumed_degree=2),
        pm.HSMADMM(c_rho=0.3, c_eta=0.7, c_a=0.3, first_batch=11),
        pm.HSMADMM(c_rho=0.3, c_eta=0.7, c_a=0.3, split=False),
        pm.HSMADMM(0.3, 0.7, 2.0, 1.5, heterogeneous=False, split=False),
    ],
    ids=["offset", "uniform", "blind", "first batch", "direct", "direct, uniform"],
)
def test_options_are_the_reference_s(algorithm: pm.HSMADMM) -> None:
    graph = pm.graphs.star(6)
    problem = learning(graph)
    x0 = problem.x0("different")
    assert against_reference(algorithm, problem, graph, x0, steps=50) < EXACT


def test_first_batch_is_drawn_with_its_own_size() -> None:
    graph = pm.graphs.star(6)
    problem = learning(graph)
    methods = [pm.HSMADMM(0.25, 0.5, 1.0, first_batch=m) for m in (None, 3, 11)]
    states = [iterate(m, problem, graph, problem.x0(), 0)[0] for m in methods]
    assert torch.equal(states[0].v, states[1].v)
    assert not torch.allclose(states[0].v, states[2].v)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 9),
    p=st.integers(1, 4),
    seed=st.integers(0, 10_000),
    c_rho=st.floats(0.05, 2.0),
    ratio=st.floats(1.5, 4.0),
    c_a=st.floats(0.1, 5.0),
    noise=st.floats(0.0, 0.3),
    regularizer=st.sampled_from(
        [
            pm.NoRegularizer(),
            pm.L1(0.2),
            pm.SquaredL2(0.5),
            pm.ElasticNet(0.1, 0.3),
            pm.Box(-0.5, 1.0),
            pm.NonNegative(),
            pm.LInfBall(0.7),
            pm.Simplex(2.0),
        ]
    ),
)
def test_step_is_algorithm_1_on_random_graphs(
    n: int, p: int, seed: int, c_rho: float, ratio: float, c_a: float, noise: float,
    regularizer: Any,
) -> None:  # fmt: skip
    torch.set_default_dtype(torch.float64)  # hypothesis outlives the fixture
    graph = pm.graphs.erdos_renyi(n, seed=seed)
    problem = Quadratics.random(n, p, 0.1, seed, noise=noise, regularizer=regularizer)
    algorithm = pm.HSMADMM(c_rho=c_rho, c_eta=ratio * c_rho + 1, c_a=c_a)
    x0 = torch.randn(n, p, generator=torch.Generator().manual_seed(seed))
    scale = 1 + float(x0.abs().max())
    error = against_reference(algorithm, problem, graph, x0, steps=15)
    assert error < 10 * EXACT * scale


def test_golden_values() -> None:
    problem = GoldenQuadratics()
    algorithm = pm.HSMADMM(c_rho=1.0, c_eta=2.0, c_a=2.0)
    graph = pm.graphs.star(4)
    states = iterate(algorithm, problem, graph, problem.x0, steps=6_000)
    golden = {
        1: [0.625, -0.625, 0.9375, 1.0],
        2: [0.6849039925, -0.2306594243, 1.0019930633, 1.0302657072],
        3: [0.7341883278, 0.104512895, 0.9724688211, 0.9689682649],
    }
    for k, rows in golden.items():
        assert states[k].x[:, 0].tolist() == pytest.approx(rows, abs=PRINTED)
    assert (states[-1].x - 0.8).abs().max() < 1e-13


@pytest.mark.parametrize("kind", ["ring", "star", "barabasi-albert", "complete"])
def test_multipliers_cancel_over_the_network(kind: str) -> None:
    graph = small_graph(kind)
    problem = learning(graph)
    states = iterate(ROUND, problem, graph, problem.x0("different"), 60)
    for state in states:
        assert state.alpha_sum.sum(0).abs().max() < EXACT


@pytest.mark.long
def test_float32_keeps_the_multipliers_in_balance() -> None:
    # A plain float32 product L @ x drifts here to several times l1 (ALGORITHMS.md, 8).
    l1, graph = 1e-4, pm.graphs.complete(8)
    problem = Quadratics.random(8, 20, l1, seed=1, noise=0.05)
    problem = Quadratics(problem.a.float(), problem.b.float(), l1, noise=0.05)
    torch.set_default_dtype(torch.float32)
    world = pm.connect(graph)
    algorithm = pm.HSMADMM(c_rho=1.0, c_eta=2.0, c_a=1.0)
    state = algorithm.init(torch.ones(8, 20), problem, world)
    for _ in range(10_000):
        state = algorithm.step(state, problem, world)
    assert state.x.dtype == torch.float32
    assert state.alpha_sum.double().sum(0).abs().max() / 8 < 0.05 * l1


@pytest.mark.long
@pytest.mark.parametrize("kind", ["path", "barabasi-albert"])
def test_reaches_the_centralized_lasso(kind: str) -> None:
    graph = small_graph(kind)
    problem = Quadratics.random(graph.n, 6, 0.3, seed=5)
    solution = problem.solution()
    assert 0 < (solution == 0).sum() < len(solution)
    largest = max(torch.linalg.eigvalsh(m.T @ m / len(m))[-1].item() for m in problem.a)
    # Inside the stability region: c_eta >= 1.5 c_rho + L_f / (2 (d_min + 1)).
    algorithm = pm.HSMADMM(c_rho=1.0, c_eta=1.6 + largest / 4, c_a=1.0)
    world = pm.connect(graph)
    state = algorithm.init(torch.zeros(graph.n, 6), problem, world)
    for _ in range(12_000):
        state = algorithm.step(state, problem, world)
    assert (state.x - solution).abs().max() < CONVERGED
    assert (state.y - solution).abs().max() < CONVERGED
    assert ((state.y == 0) == (solution == 0)).all()


def test_once_converged_a_step_changes_nothing() -> None:
    problem = GoldenQuadratics()
    algorithm = pm.HSMADMM(c_rho=1.0, c_eta=2.0, c_a=2.0)
    states = iterate(algorithm, problem, pm.graphs.star(4), problem.x0, 5_001)
    assert (states[-1].x - states[-2].x).abs().max() < EXACT


@settings(max_examples=20, deadline=None)
@given(n=st.integers(3, 8), seed=st.integers(0, 1000))
def test_relabeling_agents_permutes_rows(n: int, seed: int) -> None:
    torch.set_default_dtype(torch.float64)
    graph = pm.graphs.erdos_renyi(n, seed=seed)
    problem = Quadratics.random(n, 3, 0.1, seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    place = torch.argsort(order).tolist()
    moved_graph = pm.graphs.from_edges([(place[i], place[j]) for i, j in graph.edges])
    moved_problem = Quadratics(problem.a[order], problem.b[order], problem.l1)
    algorithm = pm.HSMADMM(c_rho=0.5, c_eta=3.0, c_a=1.0)
    x0 = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed + 1))
    here = iterate(algorithm, problem, graph, x0, 30)[-1]
    there = iterate(algorithm, moved_problem, moved_graph, x0[order], 30)[-1]
    assert (here.x[order] - there.x).abs().max() < 10 * EXACT


@pytest.mark.parametrize("kind", ["ring", "star", "path", "random-8", "complete"])
@pytest.mark.parametrize(("ratio", "stable"), [(1.5, True), (0.6, False)])
def test_stability_limit(kind: str, ratio: float, stable: bool) -> None:
    graph = small_graph(kind)
    problem = Quadratics.random(graph.n, 2, 0.0, seed=2)
    problem = Quadratics(1e-3 * problem.a, 1e-3 * problem.b, 0.0)
    x0 = torch.randn(graph.n, 2, generator=torch.Generator().manual_seed(0))
    algorithm = pm.HSMADMM(c_rho=1.0, c_eta=ratio, c_a=1.0)
    spread = iterate(algorithm, problem, graph, x0, 400)[-1].x.std(0).max()
    assert (spread < 1e-2) if stable else (spread > 1e3)


def test_momentum_one_is_plain_stochastic_gradients() -> None:
    problem = Quadratics.random(4, 3, 0.1, seed=1, noise=0.2)
    algorithm = pm.HSMADMM(c_rho=0.5, c_eta=3.0, c_a=1e9)
    graph = pm.graphs.ring(4)
    states = iterate(algorithm, problem, graph, torch.zeros(4, 3), 5)
    for state in states[1:]:
        assert torch.equal(state.v, problem.grad(state.x, problem.sample(state.k)))


def test_contract_of_a_step() -> None:
    graph = pm.graphs.star(5)
    problem = learning(graph)
    world = pm.connect(graph)
    state = ROUND.init(problem.x0("different"), problem, world)
    before = {name: getattr(state, name).clone() for name in HSMADMMState.__slots__}
    after = ROUND.step(state, problem, world)
    again = ROUND.step(state, problem, world)
    for name, value in before.items():
        assert torch.equal(getattr(state, name), value), f"`{name}` was changed"
        assert getattr(after, name).shape == value.shape
        assert getattr(after, name).dtype == value.dtype
        assert torch.equal(getattr(after, name), getattr(again, name))
    assert int(after.k) == 1


def test_declared_cost_is_what_is_sent_and_computed() -> None:
    graph = pm.graphs.star(5)
    problem = Quadratics.random(5, 3, 0.1, seed=0)
    network = CountingNetwork(pm.connect(graph))
    algorithm = pm.HSMADMM(0.25, 0.5, 1.0, first_batch=9)
    state = algorithm.init(torch.zeros(5, 3), problem, network)
    for k in range(4):
        cost = algorithm.cost(k)
        assert network.traffic.vectors == cost.vectors
        assert network.traffic.exchanges == cost.rounds
        assert len(problem.calls) == cost.gradients
        network.traffic.vectors = network.traffic.exchanges = 0
        problem.calls.clear()
        state = algorithm.step(state, problem, network)
    assert algorithm.cost(0).batch == 9
    assert algorithm.cost(1).batch is None


def test_step_survives_torch_compile_in_one_graph() -> None:
    graph = pm.graphs.star(5)
    problem = learning(graph)
    world = pm.connect(graph)
    algorithm = ROUND
    torch.compiler.reset()
    graphs_made: list[object] = []

    def backend(module: torch.fx.GraphModule, inputs: object) -> object:
        del inputs
        graphs_made.append(module)
        return module.forward

    def step(state: Any) -> Any:
        return algorithm.step(state, problem, world)

    compiled = torch.compile(step, backend=backend, fullgraph=True, dynamic=False)
    eager = state = algorithm.init(problem.x0("different"), problem, world)
    for _ in range(6):
        state, eager = compiled(state), step(eager)
    assert len(graphs_made) == 1
    assert (state.x - eager.x).abs().max() < EXACT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"c_rho": -0.1}, "HSMADMM: `c_rho` must be positive and finite, got -0.1."),
        ({"c_eta": 0.0}, "HSMADMM: `c_eta` must be positive and finite, got 0.0."),
        ({"c_a": float("nan")}, "HSMADMM: `c_a` must be positive and finite, got nan."),
        ({"c_a": float("inf")}, "HSMADMM: `c_a` must be positive and finite, got inf."),
        (
            {"k0": -1},
            "HSMADMM: `k0` must be a whole number of at least 0, got -1.",
        ),
        (
            {"first_batch": 0},
            "HSMADMM: `first_batch` must be a whole number of at least 1, got 0.",
        ),
    ],
)
def test_bad_constants(options: dict[str, float], message: str) -> None:
    with pytest.raises(pm.InputError) as caught:
        pm.HSMADMM(**options)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_rows_that_do_not_belong_to_the_network() -> None:
    world = pm.connect(pm.graphs.ring(8))
    problem = Quadratics.random(8, 3, 0.1, 0)
    with pytest.raises(pm.InputError, match=r"shape \(4, 3\) but .* holds 8 agents"):
        ROUND.init(torch.zeros(4, 3), problem, world)
    with pytest.raises(pm.InputError, match=r"float32 on cpu but the network is"):
        ROUND.init(torch.zeros(8, 3, dtype=torch.float32), problem, world)
