"""Constants that nobody gave: found, kept, and good enough to train with."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from zoo import ROUND, Quadratics

import proxmesh as pm
from proxmesh.runs.build import build
from proxmesh.runs.config import load_config
from proxmesh.theory import certify, estimate_smoothness, settled
from proxmesh.theory.smoothness import STREAM

CONSTANTS = ("c_rho", "c_eta", "c_a", "smoothness")
FOLLOWED = ("c_rho", "c_eta", "smoothness", "follow")
ONCE = pm.HSMADMM(follow=False)


def cancer(agents: int = 6, split: str = "contiguous", **options: Any) -> Any:
    torch.manual_seed(0)
    data = pm.datasets.breast_cancer()
    return pm.LearningProblem(
        pm.models.mlp(30, 2, hidden=8).double(),
        nn.functional.cross_entropy,
        [(x.double(), y) for x, y in data.split(agents, split)],
        regularizer=pm.L1(1e-3),
        **{"batch_size": 8, **options},
    )


def found_for(algorithm: pm.HSMADMM, problem: Any, graph: pm.Graph, x: Any) -> Any:
    world = pm.connect(graph, dtype=x.dtype)
    return settled(algorithm, problem, world, graph, x)


def test_a_given_constant_is_never_overridden() -> None:
    problem, graph = cancer(), pm.graphs.star(6)
    x = problem.x0()
    free = found_for(ONCE, problem, graph, x)
    assert free.automatic == CONSTANTS
    assert free.algorithm.c_eta == pytest.approx(1.6 * free.algorithm.c_rho, rel=1e-3)
    assert free.algorithm.smoothness == pytest.approx(free.upper, rel=1e-3)
    for given in (
        {"c_rho": 0.123456},
        {"c_a": 3.123456},
        {"c_rho": 0.123456, "c_a": 2.0},
        {"smoothness": 0.0},
        {"smoothness": 1.23456, "c_rho": 0.2},
        {"c_a": 3.123456, "follow": False},
    ):
        found = found_for(pm.HSMADMM(**given), problem, graph, x).algorithm  # type: ignore[arg-type]
        assert {name: getattr(found, name) for name in given} == given
        assert not found.missing
    whole = found_for(ROUND, problem, graph, x)
    assert whole.algorithm is ROUND
    assert whole.smoothness is None  # nothing was measured


@pytest.mark.parametrize("kind", ["star", "path", "complete", "barabasi-albert"])
@pytest.mark.parametrize("split", ["shuffled", "by-label"])
def test_the_rule_is_that_of_the_page(kind: str, split: str) -> None:
    problem, graph = cancer(6, split), pm.graphs.make(kind, 6)
    x = problem.x0()
    found = found_for(ONCE, problem, graph, x)
    measured = estimate_smoothness(problem, x)
    degrees = graph.degrees + 1.0
    g = problem.grad(x, problem.sample(0, size=256, stream=STREAM))
    apart = (g - g.mean(0)).square().sum(1).mean()
    pull = float(apart / (apart + g.mean(0).square().sum()))
    assert (pull > 0.3) == (split == "by-label")
    upper, down = measured.upper.numpy(), np.maximum(-measured.lower.numpy(), 0)
    c_rho = ((0.05 * upper + (0.2 + 0.25 * pull) * down) / degrees).mean()
    laplacian = np.asarray(graph.laplacian)
    scaled = laplacian / np.sqrt(np.outer(degrees, degrees))
    c_rho *= max(1, 0.3 / np.linalg.eigvalsh(scaled)[1]) ** 0.5
    connectivity = np.linalg.eigvalsh(laplacian)[1]
    c_rho = max(c_rho, 0.07 * pull * down.max() / connectivity)
    noise = (measured.noise.numpy() / degrees).max()
    expected = {
        "c_rho": c_rho,
        "c_eta": 1.6 * c_rho,
        "c_a": max(0.5, 0.04 * (noise / (1.6 * c_rho)) ** 2),
        "smoothness": upper.max(),
    }
    for name, value in expected.items():
        assert getattr(found.algorithm, name) == pytest.approx(value, rel=2e-3), name


def test_a_given_step_is_the_papers() -> None:
    assert pm.HSMADMM(c_eta=0.4).smoothness == 0
    assert pm.HSMADMM(c_rho=0.4).smoothness is None
    problem = cancer()
    found = found_for(pm.HSMADMM(c_eta=0.4), problem, pm.graphs.ring(6), problem.x0())
    assert found.algorithm.smoothness == 0
    assert found.algorithm.c_rho == pytest.approx(0.25)
    assert found.automatic == ("c_rho", "c_a")


@pytest.mark.parametrize("algorithm", [pm.HSMADMM(), ONCE], ids=["follow", "once"])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_constants_scale_with_the_loss(scale: float, algorithm: pm.HSMADMM) -> None:
    """Ten times the loss, ten times the penalty: the same path of models."""
    base = Quadratics.random(5, 4, 0.0, seed=1)
    graph, x = pm.graphs.barabasi_albert(5), torch.zeros(5, 4)
    one = found_for(algorithm, base, graph, x).algorithm
    larger = Quadratics(scale**0.5 * base.a, scale**0.5 * base.b, 0.0)
    other = found_for(algorithm, larger, graph, x).algorithm
    for name in ("c_rho", "c_eta", "smoothness"):
        ratio = getattr(other, name) / getattr(one, name)
        assert ratio == pytest.approx(scale, rel=2e-3)
    assert other.c_a == one.c_a


def test_a_squared_loss_that_made_fixed_constants_diverge_trains() -> None:
    base = Quadratics.random(6, 8, 0.01, seed=4)
    sharp = Quadratics(4 * base.a, 4 * base.b, 0.01)
    graph, x0 = pm.graphs.ring(6), torch.zeros(6, 8)
    with pytest.warns(pm.Notice, match="diverged"):
        fixed = pm.solve(
            sharp, pm.HSMADMM(0.02, 0.04, 1.0), graph, 400, x0=x0, compile=False
        )
    assert fixed.outcome == "diverged"
    free = pm.solve(sharp, pm.HSMADMM(), graph, 3000, x0=x0, compile=False)
    assert free.outcome == "finished"
    assert (free.state.x - sharp.solution()).abs().max() < 1e-3


@pytest.mark.parametrize(
    "kind", ["ring", "star", "complete", "path", "barabasi-albert"]
)
def test_the_steps_are_certified_from_the_first_on(kind: str) -> None:
    problem, graph = cancer(), pm.graphs.make(kind, 6)
    found = found_for(pm.HSMADMM(), problem, graph, problem.x0())
    certificate = certify(found.algorithm, graph, found.upper)
    assert certificate.verdict == "stable"
    assert certificate.margin > 0.02
    # Given the same numbers instead of a problem, `certify` chooses them too.
    alone = certify(pm.HSMADMM(), graph, found.upper, curvature=found.lower)
    assert alone.ratio == pytest.approx(1.05 * alone.threshold, rel=1e-3)


def test_agents_that_pull_apart_on_a_long_ring_get_a_stiffer_penalty() -> None:
    graph = pm.graphs.ring(24)
    mixed, sorted_ = (cancer(24, split) for split in ("shuffled", "by-label"))
    even = found_for(ONCE, mixed, graph, mixed.x0()).algorithm
    apart = found_for(ONCE, sorted_, graph, sorted_.x0()).algorithm
    assert apart.c_rho > 2 * even.c_rho
    small = found_for(ONCE, cancer(6), pm.graphs.ring(6), cancer(6).x0())
    assert even.c_rho > 1.5 * small.algorithm.c_rho  # a slower network


def test_noise_of_the_curvature_and_long_steps_raise_the_momentum() -> None:
    """c_a grows with the square of the step."""
    noisy = Quadratics.random(6, 8, 0.0, seed=4, noise=9.0)  # it depends on x
    graph, x = pm.graphs.ring(6), torch.zeros(6, 8)
    momenta = [
        found_for(pm.HSMADMM(c_rho=c_rho), noisy, graph, x).algorithm.c_a
        for c_rho in (9.0, 0.5, 0.25)
    ]
    assert momenta[0] == 0.5
    assert momenta[2] == pytest.approx(4 * momenta[1], rel=1e-3)
    exact = Quadratics.random(6, 8, 0.0, seed=4)
    assert found_for(pm.HSMADMM(c_rho=0.25), exact, graph, x).algorithm.c_a == 0.5


def test_data_that_overflow_are_named() -> None:
    problem = cancer(4)
    inputs, targets = problem.local_shards.of_agent(2)
    shards = [problem.local_shards.of_agent(i) for i in range(4)]
    shards[2] = (tuple(x * 1e200 for x in inputs), targets)
    sick = pm.LearningProblem(
        nn.Linear(30, 2).double(), nn.functional.cross_entropy, shards, batch_size=8
    )
    with pytest.raises(pm.InputError, match="curvature of agent 2's loss"):
        found_for(pm.HSMADMM(), sick, pm.graphs.ring(4), sick.x0())


def test_a_flat_start_is_not_a_dead_end() -> None:
    flat = Quadratics(torch.zeros(4, 3, 2), torch.zeros(4, 3), 0.0)
    graph, x = pm.graphs.ring(4), torch.zeros(4, 2)
    found = found_for(pm.HSMADMM(), flat, graph, x).algorithm
    assert found.c_rho is not None
    assert found.c_rho > 0
    assert found.smoothness == 0.6
    assert found_for(ONCE, flat, graph, x).algorithm.smoothness == 1


@pytest.mark.parametrize("name", sorted(pm.graphs.CONSTRUCTORS))
@pytest.mark.parametrize("split", ["contiguous", "by-label"])
def test_it_trains_untouched_on_every_graph(name: str, split: str) -> None:
    problem, graph = cancer(8, split), pm.graphs.make(name, 8)
    result = pm.solve(problem, pm.HSMADMM(), graph, 200, compile=False, eval_every=100)
    assert result.outcome == "finished"
    assert result.final["train_accuracy"] > 0.95
    assert result.final["stationarity"] < 0.02


def test_going_on_keeps_what_was_found() -> None:
    problem, graph = cancer(4), pm.graphs.path(4)
    whole = pm.solve(problem, pm.HSMADMM(), graph, 40, compile=False)
    first = pm.solve(problem, pm.HSMADMM(), graph, 20, compile=False)
    rest = pm.solve(problem, pm.HSMADMM(), graph, 20, state=first, compile=False)
    assert rest.algorithm == first.algorithm == whole.algorithm
    assert torch.equal(rest.state.x, whole.state.x)
    by_hand = pm.solve(
        problem, first.algorithm, graph, 20, state=first.state, compile=False
    )
    assert torch.equal(by_hand.state.x, whole.state.x)
    changed = pm.solve(
        problem, pm.HSMADMM(c_rho=1.0), graph, 1, state=first, compile=False
    )
    ratio = first.algorithm.c_eta / first.algorithm.c_rho
    assert changed.algorithm.c_eta == pytest.approx(ratio)  # never a ratio by accident
    with pytest.raises(pm.InputError, match=r"give `result\.algorithm`"):
        pm.solve(problem, pm.HSMADMM(), graph, 20, state=first.state)


def test_the_run_folder_holds_the_values_and_reruns_them(tmp_path: Path) -> None:
    flags = {
        "data.name": "breast-cancer", "graph.name": "star", "graph.agents": 4,
        "run.steps": 30, "run.batch": 8, "run.compile": "off",
    }  # fmt: skip
    result = build(load_config(None, flags)).prepare(tmp_path / "run").go()
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["run"]["automatic"] == list(FOLLOWED)
    kept = {name: config["algorithm"][name] for name in FOLLOWED}
    assert kept == {name: getattr(result.algorithm, name) for name in FOLLOWED}
    file = tmp_path / "run" / "config.toml"
    again = build(load_config(file))
    assert again.tree()["run"]["automatic"] == list(FOLLOWED)
    longer = build(load_config(file, {"run.steps": 9, "data.dir": "elsewhere"}))
    assert longer.algorithm == again.algorithm
    given: Any = build(load_config(file, {"algorithm.c_rho": 0.5})).algorithm
    assert given.c_rho == 0.5
    assert given.missing == ("c_eta", "c_a", "smoothness")  # never a ratio by accident
    for other in ({"graph.name": "ring"}, {"seed": 1}, {"run.batch": 4}):
        free: Any = build(load_config(file, other)).algorithm
        assert free.follow is None
        assert free.missing == FOLLOWED[:3]  # to be found again
    assert again.algorithm == result.algorithm
    rerun = again.prepare(tmp_path / "again").go()
    assert torch.equal(rerun.state.x, result.state.x)


def test_in_a_loop_of_ones_own_it_says_what_to_do() -> None:
    problem, graph = cancer(4), pm.graphs.ring(4)
    world, x = pm.connect(graph, dtype=torch.float64), problem.x0()
    algorithm = pm.HSMADMM()
    with pytest.raises(
        pm.InputError, match=r"`c_rho` was left out.*pm\.theory\.settled"
    ):
        algorithm.init(x, problem, world)
    ready = pm.theory.settled(algorithm, problem, world, graph, x).algorithm
    ready.step(ready.init(x, problem, world), problem, world)


def test_other_methods_are_left_alone() -> None:
    problem, graph = cancer(4), pm.graphs.ring(4)
    method = pm.DEEPSTORM()
    found = found_for(method, problem, graph, problem.x0())  # type: ignore[arg-type]
    assert found.algorithm is method
