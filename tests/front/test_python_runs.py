"""Runs that a program makes: folders like any other, read back, compared, tuned."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import proxmesh as pm
from proxmesh.report.runs import collect, require_one_task
from proxmesh.runs.build import build
from proxmesh.runs.config import load_config
from proxmesh.runs.listing import details_of, listed_runs
from proxmesh.solver.folder import RunFolder

GRAPH = pm.graphs.ring(4)
EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"


@pytest.fixture(autouse=True)
def _figures_stay_blank(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Painting takes longer than a small run; what is not looked at is not painted."""
    if "painted" not in request.fixturenames:
        blank = lambda _, file, **__: Path(file).touch()  # noqa: E731
        monkeypatch.setattr(Figure, "savefig", blank)


@pytest.fixture
def painted() -> None:
    """For tests that look at figures."""


def problem(seed: int = 0, width: int = 3, init: int = 0) -> pm.LearningProblem:
    generator = torch.Generator().manual_seed(5)
    shards = [
        (torch.randn(20, 3, generator=generator), torch.arange(20) % 2)
        for _ in range(4)
    ]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(init)
        model = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2))
    loss = nn.functional.cross_entropy
    return pm.LearningProblem(model, loss, shards, regularizer=pm.L1(1e-3), seed=seed)


@dataclass(frozen=True)
class State:
    k: Tensor
    x: Tensor


@dataclass(frozen=True)
class Own:
    """Decentralized SGD."""

    alpha: float = 0.2
    space: ClassVar[dict[str, Any]] = {"alpha": {"low": 0.01, "high": 1.0}}

    def init(self, x0: Tensor, problem: Any, network: Any) -> State:
        del problem, network
        return State(torch.tensor(0), x0)

    def step(self, state: State, problem: Any, network: Any) -> State:
        k = state.k + 1
        gradient = problem.grad(state.x, problem.sample(k))
        return State(k, network.exchange(state.x - self.alpha * gradient).mix())

    def cost(self, k: int) -> pm.Cost:
        return pm.Cost(vectors=1, rounds=1, gradients=1) if k else pm.Cost(0, 0, 0)


def same(one: nn.Module | None, other: nn.Module | None) -> bool:
    assert one is not None
    assert other is not None
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


# -- folders ---------------------------------------------------------------------------


@pytest.mark.usefixtures("painted")
def test_a_folder_says_what_the_run_was_and_reads_back(tmp_path: Path) -> None:
    place = tmp_path / "run"
    result = pm.solve(problem(3), pm.HSMADMM(), GRAPH, 20, out=place)
    names = {file.name for file in place.iterdir()}
    assert {"config.toml", "history.csv", "summary.json", "curves.png"} <= names
    config = tomllib.loads((place / "config.toml").read_text())
    assert config["seed"] == 3
    assert config["algorithm"]["c_rho"] == result.algorithm.c_rho
    assert config["graph"]["edges"] == "0-1 0-3 1-2 2-3"
    assert config["model"]["layers"] == repr(result.model)
    assert config["regularizer"]["name"] == "L1(weight=0.001)"
    assert config["run"]["steps"] == 20
    assert "LearningProblem(Sequential with" in config["python"]["problem"]

    again = pm.load(place, problem(3))
    pd.testing.assert_frame_equal(again.history, result.history)
    assert (again.outcome, again.message) == (result.outcome, result.message)
    assert again.algorithm == result.algorithm
    assert same(again.model, result.model)
    assert same(again.sparse_model, result.sparse_model)
    bare = pm.load(place)
    assert bare.model is None
    weights = result.model.state_dict() if result.model else {}
    assert all(torch.equal(bare.weights()[name], weights[name]) for name in weights)
    with pytest.raises(pm.InputError, match="holds another model than `Sequential`"):
        _ = pm.load(place, problem(width=5)).model


def test_the_command_line_reads_it_but_cannot_run_it(tmp_path: Path) -> None:
    place = tmp_path / "run"
    pm.solve(problem(), Own(), GRAPH, 10, out=place)
    (listed,) = listed_runs(tmp_path)
    assert (listed.algorithm, listed.outcome) == ("Own", "finished")
    assert listed.task == "Sequential, ring of 4"
    details = details_of(RunFolder(place))
    assert "run again" not in details.commands
    assert details.config["algorithm"] == {"alpha": 0.2, "name": "Own"}
    with pytest.raises(pm.InputError, match="of a run that a program made") as refused:
        load_config(place / "config.toml")
    assert "\n" not in str(refused.value)


def test_runs_of_programs_are_compared_if_their_task_is_the_same(
    tmp_path: Path,
) -> None:
    pm.solve(problem(), Own(), GRAPH, 10, out=tmp_path / "a" / "own")
    pm.solve(problem(), pm.DSGT(), GRAPH, 10, out=tmp_path / "a" / "dsgt")
    runs = collect([tmp_path / "a"])
    assert {run.label for run in runs} == {"Own", "dsgt"}
    require_one_task(runs)
    pm.solve(problem(width=4), pm.DSGT(), GRAPH, 10, out=tmp_path / "b")
    with pytest.raises(pm.InputError, match=r"different tasks: `model.layers`"):
        require_one_task([*runs, *collect([tmp_path / "b"])])


def test_a_state_is_kept_and_gone_on_from(tmp_path: Path) -> None:
    whole = pm.solve(problem(), pm.DSGT(0.1), GRAPH, 20, compile=False)
    half = pm.solve(problem(), pm.DSGT(0.1), GRAPH, 10, compile=False)
    place = half.save(tmp_path / "half")
    loaded = pm.load(place, problem())
    more = pm.solve(problem(), loaded.algorithm, GRAPH, 10, state=loaded)
    assert torch.equal(more.state.x, whole.state.x)
    (tmp_path / "half" / "state.safetensors").unlink()
    with pytest.raises(pm.InputError, match="was loaded without its state"):
        pm.solve(problem(), pm.DSGT(), GRAPH, 10, state=pm.load(place, problem()))


def test_a_checkpoint_holds_the_state_of_a_long_run(tmp_path: Path) -> None:
    place = tmp_path / "run"
    result = pm.solve(
        problem(), pm.HSMADMM(), GRAPH, 20, out=place, checkpoint_every=10
    )
    assert torch.equal(pm.load(place).state.x, result.state.x)
    assert pm.load(place, state=False).state is None
    raised = pm.resume(place, problem(), steps=30)
    assert raised.final["iteration"] == 30
    assert RunFolder(place).config()["run"]["steps"] == 30


def test_torch_loads_a_state_without_trusting_it(tmp_path: Path) -> None:
    result = pm.solve(problem(), pm.HSMADMM(), GRAPH, 5)
    torch.save(result.state, tmp_path / "state.pt")
    again = torch.load(tmp_path / "state.pt", weights_only=True)
    assert type(again) is type(result.state)
    assert torch.equal(again.x, result.state.x)


def test_a_run_of_the_command_line_is_loaded_with_its_problem(tmp_path: Path) -> None:
    flags = {"data.name": "breast-cancer", "graph.agents": 4, "run.steps": 5}
    run = build(load_config(None, flags)).prepare(tmp_path / "run")
    result = run.go()
    again = pm.load(tmp_path / "run")
    assert again.algorithm == result.algorithm
    assert same(again.model, result.model)


def test_reading_a_folder_runs_no_file_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(EXAMPLE.read_text())
    name = f"{file}:AdaptThenCombine"
    flags = {"data.name": "breast-cancer", "graph.agents": 4, "run.steps": 2}
    built = build(load_config(None, {**flags, "algorithm.name": name}))
    result = built.prepare(tmp_path / "run").go()
    file.write_text("raise SystemExit('run')")
    again = pm.load(tmp_path / "run")
    assert again.algorithm is None
    assert same(again.model, result.model)
    given = pm.load(tmp_path / "run", algorithm=result.algorithm)
    assert given.algorithm == result.algorithm


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "holds no run that has ended"),
        ({"summary.json": "{}"}, "`outcome` is not one of"),
    ],
)
def test_what_is_no_run_is_one_line(
    files: dict[str, str], message: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(pm.InputError, match=message):
        pm.load(tmp_path)
    with pytest.raises(pm.InputError, match="is not a folder"):
        pm.load(tmp_path / "nothing")


# -- comparisons -----------------------------------------------------------------------


def test_methods_are_compared_over_seeds_and_paired(tmp_path: Path) -> None:
    methods = {"own": Own(), "dsgt": pm.DSGT()}
    place = tmp_path / "c"
    found = pm.compare(methods, problem(), GRAPH, steps=10, seeds=2, out=place)
    assert list(found.table.index) == ["own", "dsgt"]
    assert {f.name for f in place.iterdir()} >= {"table.md", "curves.png", "runs.csv"}
    first, second = found.results["own"]
    assert first.history["norm"].iloc[0] == second.history["norm"].iloc[0]
    assert first.final["norm"] != second.final["norm"], "other draws"
    alone = pm.solve(problem(1), Own(), GRAPH, 10)
    assert alone.final["norm"] == second.final["norm"], "those of seed 1"
    assert "own" in str(found)
    assert "<b>" in found._repr_html_()
    assert len(found.plot().axes) == 4 * 3  # no test data
    assert RunFolder(place / "own" / "seed-1").config()["seed"] == 1

    written = (place / "own" / "seed-0" / "summary.json").stat().st_mtime_ns
    more = pm.compare(methods, problem(), GRAPH, steps=10, seeds=3, out=place)
    assert (place / "own" / "seed-0" / "summary.json").stat().st_mtime_ns == written
    assert len(more.results["own"]) == 3
    with pytest.raises(pm.InputError, match=r"holds another run: its `algorithm.alpha"):
        pm.compare({"own": Own(0.3)}, problem(), GRAPH, steps=10, out=place)


def test_a_function_of_the_seed_varies_all_there_is() -> None:
    def make(seed: int) -> pm.LearningProblem:
        return problem(seed, init=seed)

    found = pm.compare([pm.DSGT(), pm.DSGT(0.1)], make, GRAPH, gradients=160, seeds=2)
    assert list(found.results) == ["dsgt", "dsgt-2"]
    first, second = found.results["dsgt"]
    assert first.final["gradients"] == 160
    assert first.history["norm"].iloc[0] != second.history["norm"].iloc[0]


class Fixed:
    """A problem that has no seed."""

    def __init__(self) -> None:
        self.inner = problem()
        self.sample, self.grad = self.inner.sample, self.inner.grad
        self.prox, self.x0 = self.inner.prox, self.inner.x0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"problem": Fixed()}, r"`Fixed` has no `reseeded\(seed\)`"),
        ({"problem": 3}, "`problem` is a int. Give a problem, or a function"),
        ({"algorithms": []}, "`algorithms` is empty"),
        ({"algorithms": "dsgt"}, "must be a list of methods"),
        ({"algorithms": [pm.DSGT]}, r"algorithm `DSGT` is a class. Build it"),
        ({"seeds": []}, "`seeds` is empty"),
        ({"steps": None}, "give either `steps` or `gradients`"),
        ({"algorithms": {"a b": Own()}, "out": "c"}, "`a b` cannot name a folder"),
    ],
)
def test_comparisons_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    usual = {"algorithms": [Own()], "problem": problem(), "graph": GRAPH, "steps": 5}
    with pytest.raises(pm.InputError, match=message):
        pm.compare(**{**usual, **arguments})


# -- searches --------------------------------------------------------------------------


def test_a_search_finds_values_and_continues(tmp_path: Path) -> None:
    place = tmp_path / "t"
    tuned = pm.tune(Own(), problem(), GRAPH, steps=10, trials=3, out=place)
    assert tuned.value == tuned.table["stationarity"].min()
    assert tuned.best.alpha == tuned.table["alpha"].iloc[0]
    assert tuned.defaults == tuned.trials["stationarity"].iloc[0]
    assert tuned.trials["alpha"].iloc[0] == 0.2, "its own value comes first"
    assert len(tuned.plot().axes) == 1
    values = tomllib.loads((place / "params.toml").read_text())
    assert values["methods"]["Own"] == {"alpha": tuned.best.alpha}
    steps = RunFolder(place / "Own" / "trial-00").config()["run"]["steps"]
    assert steps == 20, "two gradients a step are counted, and it takes one"
    more = pm.tune(Own(), problem(), GRAPH, steps=10, trials=4, out=place)
    assert more.trials.iloc[:3].equals(tuned.trials)


def test_constants_that_are_found_can_be_the_best() -> None:
    narrow = {"c_rho": (90.0, 100.0), "c_eta": (200.0, 300.0)}
    tuned = pm.tune(
        pm.HSMADMM,
        problem(),
        GRAPH,
        200,
        trials=2,
        space=narrow,
        objective="train_loss",
    )
    assert tuned.automatic
    assert tuned.best == pm.HSMADMM(), "to be found again in every run"


def test_spaces_in_short_and_none_at_all() -> None:
    space = {"alpha": [0.1, 0.2]}
    tuned = pm.tune(pm.DSGT, problem(), GRAPH, 5, trials=2, space=space, sampler="grid")
    assert set(tuned.trials["alpha"]) == {0.1, 0.2}
    with pytest.raises(pm.InputError, match="the search space of `dsgt` is empty"):
        pm.tune(pm.DSGT(), problem(), GRAPH, 5, space={})
    with pytest.raises(pm.InputError, match=r"space of `dsgt`: `alpha` must be"):
        pm.tune(pm.DSGT(), problem(), GRAPH, 5, space={"alpha": (2.0, 1.0)})
