"""The monitor against the definitions written out with A, and its counts."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from theory_page import incidence
from torch import nn
from zoo import ROUND, Quadratics

import proxmesh as pm
from proxmesh.theory import Monitor
from proxmesh.theory.monitor import (
    C_ERR,
    C_MU,
    INEQUALITIES,
    RESAMPLED,
    STREAM,
    THETA,
)

ALGORITHM = pm.HSMADMM(0.5, 1.5, 2.0, 0.7)
GRAPH = pm.graphs.barabasi_albert(6)
COLUMNS = {
    column for left, right, _ in INEQUALITIES.values() for column in (left, right)
}


def watched(problem: Any, steps: int, algorithm: pm.HSMADMM = ALGORITHM) -> Any:
    """A monitor's row after some steps, and the three states it looked at."""
    world = pm.connect(GRAPH, dtype=torch.float64)
    x0 = torch.randn(6, problem.a.shape[2], generator=torch.Generator().manual_seed(0))
    made = [algorithm.init(x0, problem, world)]
    for _ in range(steps + 2):
        made.append(algorithm.step(made[-1], problem, world))
    row = Monitor(algorithm, problem, world, GRAPH).look(made[steps])
    return row, made[steps:]


def test_rows_are_what_the_paper_defines() -> None:  # noqa: PLR0915 - formula by formula
    problem = Quadratics.random(6, 3, 0.2, seed=1, noise=0.3)
    row, (zero, one, two) = watched(problem, 5)
    a = incidence(GRAPH)
    m, n = len(GRAPH.edges), GRAPH.n
    gram = a.T @ a
    degrees = GRAPH.degrees + 1.0
    errors = [
        float((s.v - problem.full_grad(s.x)).square().sum()) for s in (zero, one, two)
    ]
    smooth = row["smoothness"]
    assert row["iteration"] == 7
    assert row["error"] == pytest.approx(errors[2])

    def parts(old: Any, new: Any) -> dict[str, Any]:
        k = int(new.k)
        rho = float(ALGORITHM.rho(k))
        q = np.diag(1.5 * degrees * k ** (1 / 3) + 0.7)
        s = q - rho * gram
        dx = (new.x - old.x).numpy()
        x, y = new.x.numpy(), new.y.numpy()
        r = np.vstack([a[:m] @ x, x - y])
        return {"k": k, "rho": rho, "q": q, "s": s, "dx": dx, "r": r, "new": new}

    before, now = parts(zero, one), parts(one, two)
    change = -now["rho"] * now["r"]
    assert row["dual_change"] == pytest.approx((change**2).sum())
    assert row["seen_by_A"] == pytest.approx(((a.T @ change) ** 2).sum())
    assert row["step"] == pytest.approx(np.linalg.norm(now["dx"]))
    assert row["residual"] == pytest.approx((now["r"] ** 2).sum())

    both = 1 + 1 / THETA
    bound = (1 + THETA) * ((now["s"] @ now["dx"]) ** 2).sum()
    norm = np.linalg.norm(before["s"], 2)
    past = (before["dx"] ** 2).sum()
    bound += (2 * both * norm**2 + 4 * both * smooth**2) * past
    bound += 8 * both * (errors[1] + errors[0])
    assert row["lemma1_right"] == pytest.approx(bound)

    def phi(p: dict[str, Any], error: float, error_before: float) -> float:
        new, k = p["new"], p["k"]
        later = (k + 1) ** (1 / 3)
        c = np.linalg.norm(p["s"], 2) / k ** (1 / 3)  # |C_eta - c_rho A'A|, L included
        beta = (6 * both * c**2 + 12 * both * smooth**2) / 0.5 * later
        gamma = (1 / (2 * C_MU) + (12 * both + C_ERR) / 0.5) / (2 * 2.0) * later
        p["beta"], p["gamma"] = beta, gamma
        # A' lambda is known, so the price of r is <M' alpha, x> + <beta, x - y>.
        price = (new.alpha_sum * new.x).sum() + (new.beta * (new.x - new.y)).sum()
        value = problem.value(new.x).sum() + problem.penalty(new.y).sum() - price
        value = float(value) + p["rho"] / 2 * (p["r"] ** 2).sum()
        value += gamma * error + C_ERR / p["rho"] * error_before
        return float(value + beta / 2 * (p["dx"] ** 2).sum())

    first, second = phi(before, errors[1], errors[0]), phi(now, errors[2], errors[1])
    assert row["lyapunov_before"] == pytest.approx(first)
    assert row["lyapunov"] == pytest.approx(second)
    terms = ("lagrangian", "error_term", "past_error_term", "step_term")
    assert sum(row[t] for t in terms) == pytest.approx(second)

    momentum = float(ALGORITHM.a(now["k"] + 1))
    mu = C_MU * now["k"] ** (1 / 3)
    scalar = mu / 2 + now["beta"] / 2 + smooth / 2
    scalar += 2 * smooth**2 * (1 - momentum) ** 2 * now["gamma"]
    c_x = now["q"] - now["rho"] / 2 * gram
    c_x = c_x - 3 * (1 + THETA) / (2 * now["rho"]) * now["s"].T @ now["s"]
    c_x = c_x - scalar * np.eye(n)
    c_e = before["gamma"] - (1 - momentum) ** 2 * now["gamma"] - 1 / (2 * mu)
    c_e -= (12 * both + C_ERR) / now["rho"]
    allowed = -np.trace(now["dx"].T @ c_x @ now["dx"]) - c_e * errors[1]
    allowed -= now["rho"] / 2 * (now["r"] ** 2).sum()
    allowed += (now["rho"] - before["rho"]) / 2 * (before["r"] ** 2).sum()
    allowed += 2 * momentum**2 * row["gradient_noise"] * now["gamma"]
    assert row["lemma3_right"] == pytest.approx(first + allowed)
    expected = second + now["gamma"] * (row["lemma2_left"] - errors[2])
    assert row["lemma3_left"] == pytest.approx(expected)


def test_lemma2_is_written_out() -> None:
    problem = Quadratics.random(6, 3, 0.2, seed=1, noise=0.3)
    row, (_, one, two) = watched(problem, 5)
    a = min(1.0, 2.0 * (int(two.k) + 1) ** (-2 / 3))
    lefts, noises = [], []
    for stream in range(STREAM, STREAM + RESAMPLED):
        batch = problem.sample(two.k, stream=stream)
        v = problem.grad(two.x, batch) + (1 - a) * (one.v - problem.grad(one.x, batch))
        lefts.append(float((v - problem.full_grad(two.x)).square().sum()))
        drawn = problem.grad(two.x, batch) - problem.full_grad(two.x)
        noises.append(float(drawn.square().sum()))
    assert row["lemma2_left"] == pytest.approx(np.mean(lefts))
    assert row["gradient_noise"] == pytest.approx(np.mean(noises))
    error = float((one.v - problem.full_grad(one.x)).square().sum())
    moved = float((two.x - one.x).square().sum())
    right = (1 - a) ** 2 * (error + 2 * row["smoothness"] ** 2 * moved)
    assert row["lemma2_right"] == pytest.approx(right + 2 * a**2 * np.mean(noises))


def test_lemma2_is_the_mean_over_resampled_batches() -> None:
    """Without noise E stays 0; with it the recursion holds on average."""
    exact, _ = watched(Quadratics.random(6, 3, 0.2, seed=1), 4)
    assert exact["lemma2_left"] == pytest.approx(0, abs=1e-20)
    assert exact["gradient_noise"] == pytest.approx(0, abs=1e-20)
    for steps in (1, 5, 20):
        row, (_, one, two) = watched(
            Quadratics.random(6, 3, 0.2, seed=1, noise=0.3), steps
        )
        kept = (1 - float(ALGORITHM.a(int(two.k) + 1))) ** 2
        assert row["lemma2_left"] < row["lemma2_right"]
        before = Quadratics.random(6, 3, 0.2, seed=1).full_grad(one.x)
        error = float((one.v - before).square().sum())
        assert row["lemma2_left"] > 0.5 * kept * error
        assert row["lemma2_right"] > kept * error


def test_counts_and_columns_of_a_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    data = pm.datasets.breast_cancer()
    problem = pm.LearningProblem(
        pm.models.mlp(30, 2, hidden=4).double(),
        nn.functional.cross_entropy,
        [(x.double(), y) for x, y in data.split(6)],
        regularizer=pm.L1(1e-3),
        batch_size=8,
    )
    options: Any = {"eval_every": 5, "compile": False, "out": tmp_path}
    run = pm.solve(problem, ROUND, GRAPH, 40, monitor="theory", **options)
    assert run.monitor is not None
    assert len(run.monitor.rows) == 8
    for inequality in run.monitor.counts():
        assert inequality.held + inequality.violated == 8
        assert inequality.name in INEQUALITIES
        assert f"held {inequality.held} of 8 times" in str(inequality)
    plain = pm.solve(problem, ROUND, GRAPH, 40, eval_every=5, compile=False)
    assert torch.equal(plain.state.x, run.state.x)  # watching changes nothing
    seen = pd.read_csv(tmp_path / "theory.csv")
    assert list(seen["iteration"]) == [k + 2 for k in range(5, 41, 5)]
    world = pm.connect(GRAPH, dtype=torch.float64)
    state = plain.state
    for _ in range(2):
        state = ROUND.step(state, problem, world)
    residual = state.kkt_residual(problem)
    assert residual is not None
    assert seen["kkt"].iloc[-1] == pytest.approx(float(residual.sum()))


def test_counts_are_of_the_rows() -> None:
    """The page's lasso on a ring: Lemma 1's step is violated in most looks."""
    monitor = Monitor(ROUND, Quadratics.random(6, 3, 0.2, seed=1), None, GRAPH)  # type: ignore[arg-type]
    low, high = dict.fromkeys(COLUMNS, 1.0), dict.fromkeys(COLUMNS, 1.0)
    low["dual_change"], high["dual_change"] = 0.5, 2.0
    monitor.rows = [low, high, high]
    counts = {c.name: (c.held, c.violated) for c in monitor.counts()}
    assert counts["lemma 1's step"] == (1, 2)
    assert counts["lemma 2"] == (3, 0)


@pytest.mark.parametrize(
    "variant", [{"heterogeneous": False}, {"assumed_degree": 3}], ids=str
)
def test_steps_that_all_agents_share(variant: Any) -> None:
    problem = Quadratics.random(6, 3, 0.2, seed=1, noise=0.3)
    row, _ = watched(problem, 3, pm.HSMADMM(0.5, 1.5, 2.0, **variant))
    assert all(np.isfinite(value) for value in row.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"algorithm": pm.DSGT()},
            "the monitor `theory` knows only HSM-ADMM, got `DSGT`",
        ),
        ({"monitor": "practice"}, "unknown monitor `practice`"),
        ({"evaluation": "local"}, "sums over all agents, but `evaluation` is `local`"),
    ],
)
def test_what_it_cannot_watch(arguments: dict[str, Any], message: str) -> None:
    problem = Quadratics.random(6, 3, 0.1, seed=0)
    given: Any = {"algorithm": ROUND, "monitor": "theory", **arguments}
    with pytest.raises(pm.InputError, match=message):
        pm.solve(
            problem, given.pop("algorithm"), GRAPH, 3, x0=torch.zeros(6, 3), **given
        )


def test_a_problem_without_full_gradients_is_refused() -> None:
    problem = Quadratics.random(6, 3, 0.1, seed=0)

    class Blind:
        sample, grad, prox = problem.sample, problem.grad, problem.prox

    with pytest.raises(pm.InputError, match="which `Blind` does not all have"):
        pm.solve(Blind(), ROUND, GRAPH, 3, x0=torch.zeros(6, 3), monitor="theory")


def test_a_run_that_ends_before_a_look_leaves_no_file(tmp_path: Path) -> None:
    base = Quadratics.random(6, 3, 0.1, seed=0)
    steep = Quadratics(1e3 * base.a, base.b, 0.1)
    with pytest.warns(pm.Notice, match="diverged"):
        result = pm.solve(
            steep, ROUND, GRAPH, 20, x0=torch.ones(6, 3), monitor="theory", out=tmp_path
        )
    assert result.monitor is not None
    assert not result.monitor.rows
    assert not (tmp_path / "theory.csv").exists()
