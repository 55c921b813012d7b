import pytest
import torch
from torch import nn
from zoo import ROUND, GoldenQuadratics, Quadratics

import proxmesh as pm
from proxmesh.algorithms.hsm_admm_state import HSMADMMState
from proxmesh.metrics import COLUMNS, density, measure

EXACT = 1e-12  # float64 rounding


def problem_of(n: int = 4) -> pm.LearningProblem:
    g = torch.Generator().manual_seed(0)
    shards = [
        (torch.randn(m, 3, generator=g), torch.randint(0, 2, (m,), generator=g))
        for m in range(5, 5 + n)
    ]
    test = (torch.randn(9, 3, generator=g), torch.randint(0, 2, (9,), generator=g))
    torch.manual_seed(0)
    return pm.LearningProblem(
        nn.Linear(3, 2),
        nn.functional.cross_entropy,
        shards,
        test=test,
        regularizer=pm.L1(0.05),
        batch_size=2,
    )


def trained(steps: int = 30) -> tuple[pm.LearningProblem, HSMADMMState]:
    problem = problem_of()
    world = pm.connect(pm.graphs.path(4))
    state = ROUND.init(problem.x0("different"), problem, world)
    for _ in range(steps):
        state = ROUND.step(state, problem, world)
    return problem, state


def test_every_number_by_its_definition() -> None:
    problem, state = trained()
    row = measure(state, problem, pm.connect(pm.graphs.path(4)))
    x_mean = state.x.mean(0)
    module = problem.module(x_mean)
    shards = [problem.local_shards.of_agent(i) for i in range(4)]
    losses, hits = [], []
    module.zero_grad()
    for (inputs,), targets in shards:
        outputs = module(inputs)
        loss = nn.functional.cross_entropy(outputs, targets)
        (loss / 4).backward()
        losses.append(loss.item())
        hits.append((outputs.argmax(1) == targets).double().mean().item())
    gradient = torch.cat([w.grad.reshape(-1) for w in module.parameters()])  # type: ignore[union-attr]
    forward = x_mean - gradient
    soft = forward.sign() * (forward.abs() - 0.05).clamp(min=0)
    norm = (x_mean - soft).square().sum().item()
    consensus = sum((x - x_mean).square().sum().item() for x in state.x)

    assert row["norm"] == pytest.approx(norm, abs=EXACT)
    assert row["consensus"] == pytest.approx(consensus, abs=EXACT)
    assert row["stationarity"] == pytest.approx(norm + consensus, abs=EXACT)
    assert row["train_loss"] == pytest.approx(sum(losses) / 4, abs=EXACT)
    assert row["train_accuracy"] == pytest.approx(sum(hits) / 4, abs=EXACT)
    penalty = 0.05 * x_mean.abs().sum().item()
    assert row["objective"] == pytest.approx(row["train_loss"] + penalty, abs=EXACT)
    assert row["density"] == (x_mean.abs() > 1e-6).double().mean().item()
    shares = [(y.abs() > 1e-6).double().mean().item() for y in state.y]
    assert row["density_y"] == pytest.approx(sum(shares) / 4, abs=EXACT)
    test_inputs, test_targets = problem._test.inputs[0], problem._test.targets  # type: ignore[union-attr]
    outputs = module(test_inputs)
    test_loss = nn.functional.cross_entropy(outputs, test_targets).item()
    assert row["test_loss"] == pytest.approx(test_loss, abs=EXACT)
    correct = (outputs.argmax(1) == test_targets).double().mean().item()
    assert row["test_accuracy"] == pytest.approx(correct, abs=EXACT)
    assert set(row) <= set(COLUMNS)


def test_kkt_residual_edge_by_edge() -> None:
    problem, state = trained()
    edges = pm.graphs.path(4).edges
    total = 0.0
    for i in range(4):
        (inputs,), targets = problem.local_shards.of_agent(i)
        module = problem.module(state.x[i])
        loss = nn.functional.cross_entropy(module(inputs), targets)
        loss.backward()
        gradient = torch.cat([w.grad.reshape(-1) for w in module.parameters()])  # type: ignore[union-attr]
        in_x = gradient - state.alpha_sum[i] - state.beta[i]
        total += in_x.square().sum().item()
        for u, y in zip((-state.beta[i]).tolist(), state.y[i].tolist(), strict=True):
            if y == 0:
                total += max(abs(u) - 0.05, 0) ** 2
            else:
                total += (u - (0.05 if y > 0 else -0.05)) ** 2
        total += (state.x[i] - state.y[i]).square().sum().item()
    for i, j in edges:
        total += (state.x[i] - state.x[j]).square().sum().item()
    residual = state.kkt_residual(problem)
    assert residual is not None
    assert residual.sum().item() == pytest.approx(total, rel=1e-10)


def test_kkt_residual_vanishes_at_a_solution() -> None:
    problem = Quadratics.random(4, 3, 0.2, seed=1)
    world = pm.connect(pm.graphs.star(4))
    algorithm = pm.HSMADMM(c_rho=1.0, c_eta=4.0, c_a=1.0)
    state = algorithm.init(torch.zeros(4, 3), problem, world)
    for _ in range(8000):
        state = algorithm.step(state, problem, world)
    assert measure(state, problem, world)["kkt"] < 1e-12
    assert measure(state, problem, world)["stationarity"] < 1e-12


def test_columns_that_a_problem_cannot_give_are_left_out() -> None:
    problem = GoldenQuadratics()
    world = pm.connect(pm.graphs.star(4))
    state = ROUND.init(problem.x0, problem, world)
    assert set(measure(state, problem, world)) == {"consensus", "density", "density_y"}


def test_own_metrics_and_switched_off_kkt() -> None:
    problem, state = trained(3)
    world = pm.connect(pm.graphs.path(4))
    row = measure(
        state,
        problem,
        world,
        own={"largest": lambda s, p: s.x.abs().max() + 0 * p.batch_size},
        kkt=False,
    )
    assert row["largest"] == state.x.abs().max().item()
    assert "kkt" not in row


def test_density_counts_what_is_not_nearly_zero() -> None:
    rows = torch.tensor([[0.0, 1e-7, 2e-6, 1.0], [0.0, 0.0, 0.0, 0.0]])
    assert density(rows).tolist() == [0.5, 0.0]
