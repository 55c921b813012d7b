"""HSM-ADMM with nothing given: penalty and smoothness follow the losses."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from zoo import Quadratics

import proxmesh as pm
from proxmesh.algorithms.hsm_admm import LOOK
from proxmesh.theory import Looks, certify, estimate_smoothness, settled
from proxmesh.theory.following import rounded

LOOKS = (8, 16, 32, 64, 128)


def cancer(agents: int = 6, split: str = "contiguous") -> Any:
    torch.manual_seed(0)
    data = pm.datasets.breast_cancer()
    return pm.LearningProblem(
        pm.models.mlp(30, 2, hidden=8).double(),
        nn.functional.cross_entropy,
        [(x.double(), y) for x, y in data.split(agents, split)],
        regularizer=pm.L1(1e-3),
        batch_size=8,
    )


def sharpness(found: Any) -> Any:
    upper, square = found.upper.numpy(), found.mean_square.numpy() ** 2
    return np.maximum(upper, square / upper)


def stiffer(graph: pm.Graph) -> float:
    degrees = graph.degrees + 1.0
    scaled = np.asarray(graph.laplacian) / np.sqrt(np.outer(degrees, degrees))
    return float(max(1, 0.3 / np.linalg.eigvalsh(scaled)[1]) ** 0.5)


@pytest.mark.parametrize("kind", ["star", "path", "complete"])
@pytest.mark.parametrize("split", [True, False])
def test_the_first_look_is_that_of_the_page(kind: str, split: bool) -> None:
    problem, graph = cancer(6, "by-label"), pm.graphs.make(kind, 6)
    x = problem.x0()
    world = pm.connect(graph, dtype=x.dtype)
    algorithm = settled(pm.HSMADMM(split=split), problem, world, graph, x).algorithm
    measured = estimate_smoothness(problem, x, **dataclasses.asdict(LOOK))
    sharp, down = sharpness(measured), np.maximum(-measured.lower.numpy(), 0)
    degrees = graph.degrees + 1.0
    c_rho = stiffer(graph) * (np.maximum(0.2 * sharp, 3.7 * down) / degrees).mean()
    inner = np.asarray(graph.laplacian) + split * np.eye(6)
    scaled = inner / np.sqrt(np.outer(degrees, degrees))
    ratio = 1.05 * 0.75 * np.linalg.eigvalsh(scaled)[-1]
    expected = {"c_rho": c_rho, "c_eta": ratio * c_rho, "smoothness": 0.6 * sharp.max()}
    for name, value in expected.items():
        assert getattr(algorithm, name) == pytest.approx(value, rel=1e-3), name
    assert algorithm.follow
    assert [algorithm.a(k + 1) for k in (1, 3, 9)] == [1 / 2, 1 / 4, 1 / 10]


@pytest.mark.parametrize("kind", ["star", "ring"])
@pytest.mark.parametrize("split", [True, False])
def test_a_later_look_is_that_of_the_page(kind: str, split: bool) -> None:
    """The literal rule, agent by agent, on the rows of a real run."""
    problem, graph = cancer(6, "by-label"), pm.graphs.make(kind, 6)
    method = pm.HSMADMM(split=split)
    s: Any = pm.solve(problem, method, graph, 16, compile=False).state
    world = pm.connect(graph, dtype=s.x.dtype)
    algorithm = settled(method, problem, world, graph, problem.x0()).algorithm
    new = Looks(algorithm, problem, world, graph)(s)
    measured = estimate_smoothness(problem, s.x, **dataclasses.asdict(LOOK))
    sharp, down = sharpness(measured), np.maximum(-measured.lower.numpy(), 0)
    asked = []
    for i in range(6):
        neighbors = [j for j in range(6) if graph.laplacian[i, j] == -1]
        apart = s.x[i] - s.x[neighbors].mean(0)
        residual = s.v[i] - s.alpha_sum[i] - (s.beta[i] if split else 0)
        change = np.sqrt(6 * float(apart @ apart) / (0.2 * float(residual @ residual)))
        weight = stiffer(graph) / (len(neighbors) + 1)
        least, largest = (
            weight * max(share * sharp[i], 3.7 * down[i]) for share in (0.04, 1.5)
        )
        own = float(s.rho[i]) * min(max(change, 0.5), 2.0)
        asked.append(min(max(own, least), largest))
    assert torch.allclose(
        new.rho, torch.full_like(new.rho, np.mean(asked)), rtol=1e-3, atol=0
    )
    fall = 0.5 * s.smoothness[:, 0].numpy()
    expected = np.maximum(0.6 * sharp, fall)
    assert new.smoothness[:, 0].numpy() == pytest.approx(expected, rel=1e-3)
    for name in ("x", "v", "lx", "alpha_sum"):
        assert getattr(new, name) is getattr(s, name)


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("c_a", [None, 2.0])
def test_a_step_is_that_of_the_page(split: bool, c_a: float | None) -> None:
    """Between looks: momentum, noise, error and the sharpest met, agent by agent."""
    problem, graph = cancer(6, "by-label"), pm.graphs.star(6)
    method = pm.HSMADMM(split=split, c_a=c_a)
    run = pm.prepare(problem, method, graph, 12, compile=False)
    algorithm: Any = run.algorithm
    looks = Looks(algorithm, problem, run.world, graph)
    s = run.state
    rules = set()
    for k in range(1, 13):
        s = looks(s)
        new = algorithm.step(s, problem, run.world)
        batch = problem.sample(k)
        g, old = problem.grad(new.x, batch), problem.grad(s.x, batch)
        for i in range(6):
            change = float((g[i] - old[i]).square().sum())
            moved = float((new.x[i] - s.x[i]).square().sum())
            error = float((old[i] - s.v[i]).square().sum())
            share = max(1 / (k + 1), 0.05)
            noise = (1 - share) * float(s.noise[i]) + share * error
            before = (noise if k == 1 else float(s.error[i])) + 0.1 * change
            gain = before / (before + noise)
            a = max(1 / (k + 1), gain, change / (change + noise))
            rules.add(a == gain)
            if c_a is not None:
                a = min(1.0, c_a * (k + 1) ** (-2 / 3))
            met = max(0.99 * float(s.met[i]), np.sqrt(change / moved))
            expected = g[i] + (1 - a) * (s.v[i] - old[i])
            assert torch.allclose(new.v[i], expected, rtol=1e-10, atol=1e-14)
            assert float(new.noise[i]) == pytest.approx(noise, rel=1e-10)
            assert float(new.error[i]) == pytest.approx((1 - gain) * before, rel=1e-10)
            assert float(new.met[i]) == pytest.approx(met, rel=1e-10)
            degree = len([j for j in range(6) if graph.laplacian[i, j] == -1])
            eta = algorithm.c_eta / algorithm.c_rho * float(s.rho[i]) * (degree + 1)
            eta += max(float(s.smoothness[i]), float(s.met[i]))
            used = algorithm.inverse_step(k, run.world, s)
            assert float(used[i]) == pytest.approx(eta, rel=1e-10)
        assert torch.equal(new.smoothness, s.smoothness)
        s = new
    assert rules == {True, False}  # both sides of the rule were met


def test_it_looks_at_doubling_iterations() -> None:
    method = pm.HSMADMM()
    assert tuple(k for k in range(200) if method.looks_after(k)) == LOOKS
    assert not any(pm.HSMADMM(0.25, 0.5, 1.0).looks_after(k) for k in range(200))
    assert not any(pm.HSMADMM(follow=False).looks_after(k) for k in range(200))


def test_between_looks_nothing_changes_and_all_agents_agree_on_the_penalty() -> None:
    seen: dict[int, Any] = {}

    def note(row: Any, state: Any) -> None:
        seen[int(row["iteration"])] = state

    pm.solve(
        cancer(), pm.HSMADMM(), pm.graphs.ring(6), 40, eval_every=1, callbacks=[note],
        compile=False,
    )  # fmt: skip
    for k in range(1, 40):
        before, after = seen[k], seen[k + 1]
        same = torch.equal(before.rho, after.rho)
        assert same == (k not in LOOKS)  # made with what the look after k found
        assert len(after.rho.unique()) == 1
        assert k in LOOKS or torch.equal(after.smoothness, before.smoothness)
    assert len(seen[40].smoothness.unique()) == 6


@pytest.mark.parametrize(
    ("cut", "compiled"),
    [
        (7, False),
        (8, False),
        (9, False),
        (16, False),
        pytest.param(8, True, marks=pytest.mark.long),
    ],
)
def test_a_run_cut_off_near_a_look_goes_on_bit_for_bit(
    tmp_path: Path, cut: int, compiled: bool
) -> None:
    def stop(row: Any, _state: Any) -> None:
        if row["iteration"] == cut:
            raise KeyboardInterrupt

    options: Any = {"eval_every": 1, "compile": compiled}
    graph = pm.graphs.star(6)
    whole = pm.solve(cancer(), pm.HSMADMM(), graph, 40, **options)
    pm.solve(
        cancer(), pm.HSMADMM(), graph, 40, out=tmp_path / "run", callbacks=[stop],
        checkpoint_every=1000, **options,
    )  # fmt: skip
    again = pm.resume(tmp_path / "run", cancer())
    for name in ("x", "v", "beta", "rho", "smoothness", "met", "noise", "error"):
        assert torch.equal(getattr(again.state, name), getattr(whole.state, name)), name
    columns = ["iteration", "stationarity", "gradients"]
    assert again.history[columns].equals(whole.history[columns])


def test_one_compiled_graph_serves_the_whole_run() -> None:
    from proxmesh.solver.compile_step import CompiledStep

    problem, graph = cancer(), pm.graphs.ring(6)
    run = pm.prepare(problem, pm.HSMADMM(), graph, 40, compile=True)
    step = CompiledStep(run.algorithm, run.problem, run.world, run.state)
    looks = Looks(run.algorithm, run.problem, run.world, graph)  # type: ignore[arg-type]
    state = run.state
    for _ in range(40):
        state = step(looks(state))
    assert step.num_graphs == 1
    plain: Any = pm.solve(problem, pm.HSMADMM(), graph, 40, compile=False).state
    assert torch.allclose(state.x, plain.x, rtol=1e-9, atol=1e-12)
    assert torch.equal(state.rho, plain.rho)  # rounded, so that engines agree


def test_looks_cost_at_most_a_twentieth_of_the_gradients_and_are_counted() -> None:
    algorithm = pm.HSMADMM()
    batch, steps = 64, 3000
    costs = [algorithm.cost(k) for k in range(steps + 1)]

    def paid(cost: Any, size: int) -> int:
        look = cost.look
        extra = look.gradients * size + look.sample_gradients if look else 0
        return int(cost.gradients * size + extra)

    total = sum(paid(cost, batch) for cost in costs)
    bare = (2 * steps + 1) * batch
    assert 1.0 < total / bare < 1.05
    products = LOOK.products * LOOK.samples + LOOK.batches * batch
    assert total - bare == 10 * 2 * products  # a product costs two gradients
    result = pm.solve(cancer(), algorithm, pm.graphs.ring(6), 16, compile=False)
    expected = sum(paid(cost, 8) for cost in costs[:17])
    assert result.final["gradients"] == expected
    larger = pm.solve(
        cancer(), pm.HSMADMM(first_batch=40), pm.graphs.ring(6), 16, compile=False
    )
    assert larger.final["gradients"] == expected + 40 - 8  # of the very first alone


def test_given_constants_leave_nothing_automatic() -> None:
    problem, graph = cancer(), pm.graphs.ring(6)
    given = pm.solve(problem, pm.HSMADMM(0.5, 1.0, 1.0), graph, 20, compile=False)
    assert not given.algorithm.follows
    assert given.algorithm.smoothness == 0
    assert not hasattr(given.state, "rho")
    only_momentum = pm.HSMADMM(c_a=2.0)
    assert only_momentum.follows
    assert only_momentum.a(7) == pytest.approx(min(1.0, 2.0 * 7 ** (-2 / 3)))


def test_losses_that_sharpen_and_flatten_are_followed() -> None:
    """A quadratic keeps its curvature: the smoothness comes to each agent's own."""
    base = Quadratics.random(6, 8, 0.0, seed=4)
    graph, x0 = pm.graphs.ring(6), torch.zeros(6, 8)
    result: Any = pm.solve(base, pm.HSMADMM(), graph, 200, x0=x0, compile=False)
    own = torch.stack([torch.linalg.eigvalsh(a.T @ a)[-1] for a in base.a.double()])
    found = result.state.smoothness[:, 0].double() / 0.6
    scale = found / own  # the losses' own scaling, the same for all
    assert scale.max() / scale.min() < 1.1
    assert result.algorithm.smoothness == pytest.approx(
        0.6 * float(found.max()), rel=0.1
    )


def test_the_steps_stay_in_the_certified_region() -> None:
    """The certificate of what is in force after the last look."""
    problem, graph = cancer(6, "by-label"), pm.graphs.barabasi_albert(6)
    result: Any = pm.solve(problem, pm.HSMADMM(), graph, 129, compile=False)
    s, algorithm = result.state, result.algorithm
    found = estimate_smoothness(problem, s.x)
    in_force = dataclasses.replace(
        algorithm,
        c_rho=float(s.rho[0]),
        c_eta=float(s.rho[0]) * algorithm.c_eta / algorithm.c_rho,
        smoothness=float(s.smoothness.max()),
    )
    certificate = certify(in_force, graph, found.upper)
    assert certificate.stable_from == 1
    assert certificate.ratio > certificate.threshold


def test_rows_that_have_blown_up_are_not_the_users_wrong_input() -> None:
    """A look leaves them alone, and the run says that it diverged when it evaluates."""
    problem, graph = cancer(), pm.graphs.ring(6)
    run = pm.prepare(problem, pm.HSMADMM(), graph, 20, compile=False)
    algorithm: Any = run.algorithm
    wild = dataclasses.replace(
        run.state, k=torch.tensor(8), x=torch.full_like(run.state.x, torch.nan)
    )
    new = Looks(algorithm, problem, run.world, graph)(wild)
    assert torch.equal(new.rho, wild.rho)
    assert torch.equal(new.smoothness, wild.smoothness)


def test_numbers_are_rounded_to_four_digits() -> None:
    values = torch.tensor([0.0, 1.23456, 0.000123456, 98765.4], dtype=torch.float64)
    assert rounded(values).tolist() == pytest.approx([0, 1.235, 0.0001235, 98770])
    assert torch.equal(rounded(values * (1 + 1e-12)), rounded(values))
