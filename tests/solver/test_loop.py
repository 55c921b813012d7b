import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, load_model
from torch import nn
from zoo import ROUND, GoldenQuadratics, Quadratics, classifier

import proxmesh as pm
from proxmesh.metrics import COLUMNS
from proxmesh.solver import last_good, loop

UNTIMED = [name for name in COLUMNS if name != "seconds"]


def same(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    columns = [c for c in UNTIMED if c in a]
    return bool(a[columns].equals(b[columns]))


def test_history_counts_what_the_algorithm_declares() -> None:
    graph = pm.graphs.star(4)
    result = pm.solve(classifier(), ROUND, graph, steps=20, eval_every=5)
    history = result.history
    p = result.state.x.shape[1]
    assert list(history) == [name for name in COLUMNS if name in history]
    assert history["iteration"].tolist() == [0, 5, 10, 15, 20]
    assert history["gradients"].tolist() == [8 + 16 * k for k in (0, 5, 10, 15, 20)]
    assert history["vectors_sent"].tolist() == [1, 6, 11, 16, 21]
    directed_edges, float64 = 6, 8
    expected = [v * p * float64 * directed_edges for v in (1, 6, 11, 16, 21)]
    assert history["bytes_sent"].tolist() == expected
    assert history["seconds"].is_monotonic_increasing
    assert result.outcome is pm.Outcome.FINISHED
    assert result.message == "20 iterations."


def test_training_works_and_gives_models() -> None:
    result = pm.solve(classifier(), ROUND, pm.graphs.ring(4), steps=300)
    assert result.final["test_accuracy"] > 0.93
    assert result.final["stationarity"] < 0.05 * result.history["stationarity"][0]
    held_out = pm.datasets.breast_cancer().test
    assert held_out is not None
    inputs, targets = held_out[0].double(), held_out[1]
    assert result.model is not None
    assert result.sparse_model is not None
    share = (result.model(inputs).argmax(1) == targets).double().mean().item()
    assert share == pytest.approx(result.final["test_accuracy"])
    sparse = torch.cat([w.reshape(-1) for w in result.sparse_model.parameters()])
    torch.testing.assert_close(sparse.detach(), result.state.y.mean(0))


def test_same_seed_same_history_bit_for_bit_and_another_seed_another() -> None:
    graph = pm.graphs.ring(4)
    runs = [pm.solve(classifier(seed), ROUND, graph, steps=60) for seed in (5, 5, 6)]
    assert same(runs[0].history, runs[1].history)
    assert not same(runs[0].history, runs[2].history)


def test_going_on_from_a_result_equals_one_run() -> None:
    graph, problem = pm.graphs.ring(4), classifier()
    whole = pm.solve(problem, ROUND, graph, steps=40, eval_every=10)
    first = pm.solve(problem, ROUND, graph, steps=20, eval_every=10)
    second = pm.solve(problem, ROUND, graph, steps=20, eval_every=10, state=first)
    with pytest.raises(pm.InputError, match="both given"):
        pm.solve(
            problem,
            ROUND,
            graph,
            1,
            state=first.state,
            x0=first.state.x,
        )
    assert same(second.history, whole.history.iloc[2:].reset_index(drop=True))
    assert torch.equal(second.state.x, whole.state.x)


def test_target_stops_at_the_first_evaluation_that_reaches_it() -> None:
    graph = pm.graphs.ring(4)
    result = pm.solve(
        classifier(),
        ROUND,
        graph,
        steps=500,
        eval_every=10,
        target={"test_accuracy": 0.9},
    )
    assert result.outcome is pm.Outcome.TARGET_REACHED
    assert "test_accuracy" in result.message
    reached = result.history["test_accuracy"] >= 0.9
    assert reached.tolist() == [False] * (len(reached) - 1) + [True]


def test_callbacks_see_rows_and_may_stop() -> None:
    seen: list[int] = []

    def third(row: Mapping[str, float], state: Any) -> bool:
        assert int(state.k) == row["iteration"]
        seen.append(int(row["iteration"]))
        return len(seen) == 3

    result = pm.solve(
        classifier(),
        ROUND,
        pm.graphs.ring(4),
        steps=100,
        eval_every=7,
        callbacks=[third],
        metrics={"twice k": lambda state, _: 2 * float(state.k)},
    )
    assert seen == [7, 14, 21]
    assert result.history["twice k"].tolist() == [0, 14, 28, 42]
    assert result.outcome is pm.Outcome.STOPPED_EARLY
    assert result.message == "by `third` at iteration 21."


def test_divergence_names_iteration_agent_and_remedy() -> None:
    problem = Quadratics.random(6, 3, 0.0, seed=0)
    algorithm = pm.HSMADMM(c_rho=1.0, c_eta=0.6, c_a=1.0)
    graph = pm.graphs.ring(6)
    x0 = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    with pytest.warns(pm.Notice, match="the run diverged at iteration"):
        result = pm.solve(problem, algorithm, graph, steps=2000, eval_every=500, x0=x0)
    assert result.outcome is pm.Outcome.DIVERGED
    assert result.history["iteration"].tolist() == [0]
    assert "raise `c_eta` to 1.5 or more" in result.message
    # The state at which it happened, by stepping by hand.
    world = pm.connect(graph)
    state = algorithm.init(x0, problem, world)
    size = x0.square().sum(1).max()
    limit = 1e10 * max(1.0, float(size))
    while size <= limit:
        state = algorithm.step(state, problem, world)
        size = state.x.square().sum(1).max()
    assert f"at iteration {int(state.k)}, first at agent" in result.message
    assert torch.isfinite(result.state.x).all()


@pytest.mark.filterwarnings("ignore:the run diverged")
def test_divergence_of_one_agent_is_blamed_on_it() -> None:
    class Exploding(Quadratics):
        poison = 0.0  # the first number of the batch whose gradient is spoiled

        def grad(self, x: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
            gradient = super().grad(x, batch)
            if float(batch[0, 0, 0]) == self.poison:
                gradient[2] = float("nan")
            return gradient

    base = Quadratics.random(5, 2, 0.1, seed=0, noise=0.01)
    problem = Exploding(base.a, base.b, base.l1, noise=0.01)
    problem.poison = float(problem.sample(13)[0, 0, 0])
    result = pm.solve(
        problem,
        pm.HSMADMM(c_rho=0.5, c_eta=3.0, c_a=1.0),
        pm.graphs.ring(5),
        steps=40,
        eval_every=10,
        x0=torch.zeros(5, 2),
    )
    assert result.outcome is pm.Outcome.DIVERGED
    assert result.message.startswith("at iteration 13, first at agent 2. ")
    assert result.history["iteration"].tolist() == [0, 10]


def test_interruption_keeps_what_was_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_GLANCES", -1.0)  # look at every step

    class Interrupting:
        def on_prepare(self, what: str) -> None:
            """Nothing to see here."""

        def on_compile(self, seconds: float) -> None:
            del seconds

        def on_step(self, k: int, seconds: float) -> None:
            assert seconds > 0
            if k == 25:
                raise KeyboardInterrupt

        def on_row(self, row: Mapping[str, float]) -> None:
            del row

    result = pm.solve(
        classifier(),
        ROUND,
        pm.graphs.ring(4),
        steps=100,
        eval_every=10,
        observer=Interrupting(),
        out=tmp_path / "run",
    )
    assert result.outcome is pm.Outcome.INTERRUPTED
    assert result.message == "after iteration 25 of 100."
    assert int(result.state.k) == 25
    stored = pd.read_csv(tmp_path / "run" / "history.csv")
    assert stored["iteration"].tolist() == [0, 10, 20, 25]


def test_run_folder_round_trips(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    result = pm.solve(
        classifier(),
        ROUND,
        pm.graphs.ring(4),
        steps=10,
        out=folder,
    )
    stored = pd.read_csv(folder / "history.csv")
    pd.testing.assert_frame_equal(stored, result.history, rtol=1e-15)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["outcome"] == "finished"
    assert summary["final"]["iteration"] == 10
    assert {"python", "torch", "numpy", "proxmesh"} == set(summary["versions"])
    assert result.model is not None
    for name, value in load_file(folder / "model.safetensors").items():
        assert torch.equal(value, result.model.state_dict()[name])
    with pytest.raises(pm.InputError, match="already holds a run"):
        result.save(folder)
    assert result.save(tmp_path / "copy") == tmp_path / "copy"
    again = pd.read_csv(tmp_path / "copy" / "history.csv")
    pd.testing.assert_frame_equal(again, stored)


def test_a_taken_folder_is_left_untouched_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "history.csv").write_text("precious\n")
    problem, graph = classifier(), pm.graphs.ring(4)
    with pytest.raises(pm.InputError, match="--force"):
        pm.solve(problem, ROUND, graph, steps=1, out=tmp_path)
    assert (tmp_path / "history.csv").read_text() == "precious\n"
    pm.solve(problem, ROUND, graph, steps=1, out=tmp_path, force=True)
    assert len(pd.read_csv(tmp_path / "history.csv")) == 2


def test_an_unwritable_folder_is_found_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    problem = classifier()
    with pytest.raises(pm.InputError, match="cannot be written"):
        pm.solve(
            problem,
            ROUND,
            pm.graphs.ring(4),
            steps=1,
            out=tmp_path / "file/run",
        )


def test_any_networkx_graph_and_any_problem_will_do() -> None:
    result = pm.solve(
        GoldenQuadratics(),
        pm.HSMADMM(c_rho=1.0, c_eta=2.0, c_a=2.0),
        nx.star_graph(3),
        steps=3000,
        x0=GoldenQuadratics().x0,
    )
    assert (result.state.x - 0.8).abs().max() < 1e-10
    assert result.model is None
    assert "stationarity" not in result.history


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "`steps` must be a whole number of at least 1, got 0."),
        ({"steps": 2.5}, "`steps` must be a whole number of at least 1, got 2.5."),
        ({"eval_every": -1}, "`eval_every` must be a whole number of at least 1"),
        ({"target": {"stationary": 1}}, "Did you mean `stationarity`?"),
        ({"target": {"norm": float("nan")}}, "must be a number, got nan"),
        (
            {"problem": object()},
            "`object` is no problem: it has no `sample`, `grad`, `prox`.",
        ),
        ({"problem": GoldenQuadratics()}, "has no method `x0`; give initial rows"),
        ({"graph": pm.graphs.ring(5)}, "holds 4 agents but the network has 5. Split"),
        ({"graph": pm.graphs.ring(3)}, "Split the data into 3, or change the graph"),
        ({"target": {"norm": "small"}}, "must be a number, got small"),
        ({"eval_every": 0}, "`eval_every` must be a whole number of at least 1"),
        ({"metrics": {"norm": len}}, "`norm` is a column already"),
        ({"algorithm": pm.HSMADMM}, "is a class. Build it: `HSMADMM(...)`."),
        ({"graph": "ring"}, "`graph` is a str. Use `pm.graphs.ring(8)`"),
        ({"x0": torch.zeros(4, 3)}, "`x0` has 3 columns but the model has 134"),
        ({"x0": torch.full((4, 134), torch.nan)}, "`x0` is not finite in row 0"),
        ({"x0": torch.zeros(5, 134)}, "but this process holds 4 agents"),
        ({"steps": "10"}, "`steps` must be a whole number of at least 1, got '10'."),
        ({"target": ["norm"]}, "`target` must map columns to values"),
        ({"metrics": {"a": 3}}, "`metrics` must map names to functions"),
        ({"callbacks": print}, "`callbacks` must be a list of functions"),
        ({"state": 3}, "`state` is a int. Give the `state` of a result."),
        ({"init": "random"}, "unknown init `random`"),
        ({"engine": "mpy"}, "unknown engine `mpy`"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "problem": classifier(),
        "algorithm": ROUND,
        "graph": pm.graphs.ring(4),
        "steps": 3,
    }
    with pytest.raises(pm.InputError) as caught:
        pm.solve(**arguments | change)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_target_that_this_problem_cannot_reach() -> None:
    with pytest.raises(pm.InputError, match="which this problem and algorithm do not"):
        pm.solve(
            GoldenQuadratics(),
            ROUND,
            pm.graphs.star(4),
            steps=3,
            x0=GoldenQuadratics().x0,
            target={"test_accuracy": 1.0},
        )


@pytest.mark.filterwarnings("ignore:the run diverged")
def test_a_replay_from_a_file_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Quadratics.random(6, 3, 0.0, seed=0)
    x0 = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))

    def ending() -> tuple[str, torch.Tensor]:
        result = pm.solve(
            problem,
            pm.HSMADMM(c_rho=1.0, c_eta=0.6, c_a=1.0),
            pm.graphs.ring(6),
            steps=300,
            eval_every=10,
            x0=x0,
        )
        assert result.outcome is pm.Outcome.DIVERGED
        return result.message, result.state.x

    in_memory = ending()
    monkeypatch.setattr(last_good, "IN_MEMORY_UP_TO", 0)
    in_a_file = ending()
    assert in_memory[0] == in_a_file[0]
    assert torch.equal(in_memory[1], in_a_file[1])


@pytest.mark.filterwarnings("ignore:the run diverged")
def test_a_run_whose_estimator_breaks_at_the_end_has_not_finished() -> None:
    class Broken(Quadratics):
        def grad(self, x: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
            spoiled = torch.equal(batch, self.sample(10))
            return super().grad(x, batch) / (0.0 if spoiled else 1.0)

    base = Quadratics.random(4, 2, 0.1, seed=0, noise=0.01)
    result = pm.solve(
        Broken(base.a, base.b, base.l1, noise=0.01),
        pm.HSMADMM(c_rho=0.5, c_eta=3.0, c_a=1.0),
        pm.graphs.ring(4),
        steps=10,
        eval_every=5,
        x0=torch.zeros(4, 2),
    )
    assert result.outcome is pm.Outcome.DIVERGED
    assert result.message.startswith("at iteration 10, first at agent 0 and 3 more.")
    assert int(result.state.k) == 5


@pytest.mark.filterwarnings("ignore:the run diverged")
def test_a_first_gradient_that_is_not_finite() -> None:
    problem = Quadratics.random(4, 2, 0.1, seed=0)
    problem.b[1] = torch.inf
    result = pm.solve(
        problem,
        ROUND,
        pm.graphs.ring(4),
        steps=3,
        x0=torch.zeros(4, 2),
    )
    assert result.outcome is pm.Outcome.DIVERGED
    assert result.message.startswith("at iteration 0, first at agent 1.")
    assert len(result.history) == 0
    assert result.final == {}


def test_metrics_leave_the_problem_s_tensors_alone() -> None:
    class Linear(Quadratics):
        stored = torch.ones(4, 2, dtype=torch.float64)

        def full_grad(self, x: torch.Tensor) -> torch.Tensor:
            del x
            return self.stored

    base = Quadratics.random(4, 2, 0.1, seed=0)
    problem = Linear(base.a, base.b, base.l1)
    pm.solve(
        problem,
        ROUND,
        pm.graphs.ring(4),
        steps=3,
        x0=torch.zeros(4, 2),
    )
    assert torch.equal(problem.stored, torch.ones(4, 2))


def test_late_bad_input_overwrites_nothing(tmp_path: Path) -> None:
    for name in ("history.csv", "summary.json", "model.safetensors"):
        (tmp_path / name).write_text("precious\n")
    with pytest.raises(pm.InputError, match="do not provide"):
        pm.solve(
            classifier(),
            ROUND,
            pm.graphs.ring(4),
            steps=3,
            kkt=False,
            target={"kkt": 1.0},
            out=tmp_path,
            force=True,
        )
    for name in ("history.csv", "summary.json", "model.safetensors"):
        assert (tmp_path / name).read_text() == "precious\n"


def test_constraints_leave_the_objective_blank_and_the_summary_valid(
    tmp_path: Path,
) -> None:
    data = pm.datasets.breast_cancer()
    problem = pm.LearningProblem(
        pm.models.logistic(30, 2),
        nn.functional.cross_entropy,
        data.split(4),
        regularizer=pm.Box(-0.1, 0.1),
    )
    result = pm.solve(
        problem,
        ROUND,
        pm.graphs.ring(4),
        steps=40,
        out=tmp_path / "run",
    )
    assert result.outcome is pm.Outcome.FINISHED
    assert (result.state.y.abs() <= 0.1).all()
    summary = json.loads(
        (tmp_path / "run/summary.json").read_text(), parse_constant=pytest.fail
    )
    assert summary["final"]["kkt"] > 0


def test_tied_weights_are_trained_and_saved(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(30, 30), nn.Linear(30, 30)
            self.b.weight = self.a.weight
            self.out = nn.Linear(30, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.out(torch.tanh(self.b(self.a(x))))
            return scores

    data = pm.datasets.breast_cancer()
    problem = pm.LearningProblem(
        Tied(), nn.functional.cross_entropy, data.split(4), regularizer=pm.L1(1e-3)
    )
    assert problem.p == 30 * 30 + 30 + 30 + 62
    result = pm.solve(
        problem,
        ROUND,
        pm.graphs.ring(4),
        steps=5,
        out=tmp_path / "run",
    )
    model, twin = result.model, Tied()
    assert isinstance(model, Tied)
    assert model.a.weight is model.b.weight
    load_model(twin, str(tmp_path / "run/model.safetensors"))
    assert torch.equal(twin.b.weight, model.a.weight)


def test_a_step_that_does_not_count_is_found() -> None:
    @dataclass(frozen=True)
    class Stuck:
        def init(self, x0: torch.Tensor, problem: Any, network: Any) -> Any:
            return pm.DPSGD().init(x0, problem, network)

        def step(self, state: Any, problem: Any, network: Any) -> Any:
            del problem, network
            return state

        def cost(self, k: int) -> pm.Cost:
            del k
            return pm.Cost(0, 0, 0)

    with pytest.raises(pm.InputError, match="must return a state with k"):
        pm.solve(classifier(), Stuck(), pm.graphs.ring(4), steps=5)


def test_what_is_shown_is_short() -> None:
    problem = classifier()
    result = pm.solve(problem, ROUND, pm.graphs.ring(4), steps=5)
    assert repr(result).startswith("Result(finished: 5 iterations. iteration=5, ")
    assert "134 parameters, 4 agents" in repr(problem)
    assert repr(pm.datasets.digits()) == (
        "Dataset(digits: 1,347 training samples of 64 features, 10 classes)"
    )
