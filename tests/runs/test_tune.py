"""Spaces and searches: every method gets the same, and the first trial is its own."""

import json
from pathlib import Path

import pytest
from zoo import method

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS
from proxmesh.runs.build import build, build_algorithm
from proxmesh.runs.config import load_config
from proxmesh.runs.presets import load_parameters
from proxmesh.runs.spaces import Choice, Range, Space, load_spaces
from proxmesh.runs.tune import Budget, searches, trial_table
from proxmesh.runs.tuned_file import write_parameters
from proxmesh.solver.folder import RunFolder

FLAGS = {"data.name": "breast-cancer", "graph.agents": 4, "run.batch": 8}
SMALL = build(load_config(None, FLAGS)).tree()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_has_a_space_with_its_defaults_in_it(name: str) -> None:
    space = load_spaces()[name]
    algorithm = method(name)  # of HSM-ADMM those that used to be its defaults
    point = space.point(algorithm)
    assert point is not None
    options = space.options(point)
    again = build_algorithm(
        load_config(None, {"algorithm.name": name}).model_copy(
            update={
                "algorithm": load_config(
                    None, {f"algorithm.{k}": v for k, v in options.items()}
                ).algorithm.model_copy(update={"name": name})
            }
        )
    )
    assert space.point(again) == pytest.approx(point, rel=1e-2)


def test_a_multiple_follows_what_it_multiplies() -> None:
    space = Space(
        "hsm-admm",
        {
            "c_rho": Range(low=0.1, high=1),
            "c_eta": Range(low=1, high=4, times="c_rho"),
        },
    )
    assert space.options({"c_rho": 0.2, "c_eta": 3.0}) == {"c_rho": 0.2, "c_eta": 0.6}
    assert space.point(pm.HSMADMM(0.2, 0.6, 1.0)) == pytest.approx(
        {"c_rho": 0.2, "c_eta": 3}
    )
    assert space.point(pm.HSMADMM(2.0, 4.0, 1.0)) is None


def test_a_grid_has_as_many_points_as_the_trials_pay_for() -> None:
    space = Space(
        "dsgt",
        {
            "a": Range(low=1, high=100),
            "b": Range(low=0, high=1, log=False),
            "c": Choice(choices=[1, 2]),
        },
    )
    grid = space.grid(18)
    assert len(grid) == 18
    assert sorted({p["a"] for p in grid}) == pytest.approx([1, 10, 100])
    assert sorted({p["b"] for p in grid}) == pytest.approx([0, 0.5, 1])
    assert {p["c"] for p in grid} == {1, 2}
    assert space.grid(2) == [{"a": 10.0, "b": 0.5, "c": c} for c in (1, 2)]
    assert len(space.grid(1)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[hsm-adm]", r"unknown algorithm `hsm-adm` of space .* mean `hsm-admm`"),
        ("[dsgt]\nalpha = 3", r"space of `dsgt`: `alpha` must be \{ low, high \}"),
        ("[dsgt]\nalpha = { low = 2, high = 1 }", r"low below high .*'low': 2"),
        ("[dsgt]\nalpha = { low = 0, high = 1 }", r"positive on a logarithmic scale"),
        ("[dsgt]\nalpha = { low = 1, high = inf }", r"must be .*numbers"),
        ("[dsgt]\nalpha = { low = 'a', high = 1 }", r"must be .*numbers"),
        ("[dsgt]\nalpha = { low = 1, high = 2, log = 'yes' }", r"must be .*`log`"),
        ("[dsgt]\nalpha = { choices = [] }", r"choices = \[...\]"),
        ("[dsgt]\nalpha = { choices = 3 }", r"choices = \[...\]"),
        (
            "[hsm-admm]\nc_eta = { low = 1, high = 2, times = 'c_rho' }",
            r"is a multiple of `c_rho`, which is not listed before it",
        ),
        ("dsgt = 1", r"`dsgt` must be a table, got 1"),
        ("[dsgt", r"not valid TOML"),
    ],
)
def test_spaces_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "space.toml"
    file.write_text(text)
    with pytest.raises(pm.InputError, match=message):
        load_spaces(str(file))


def test_an_empty_space_and_wrong_names(tmp_path: Path) -> None:
    base, budget = SMALL, Budget(2, 1000)
    empty = {"dsgt": Space("dsgt", {})}
    wrong = {"dsgt": Space("dsgt", {"speed": Range(low=1, high=2)})}
    with pytest.raises(pm.InputError, match="the search space of `dsgt` is empty"):
        searches(base, ["dsgt"], empty, budget, shard_size=9, out=tmp_path)
    with pytest.raises(pm.InputError, match="unknown algorithm `dsg`"):
        searches(base, ["dsg"], {}, budget, shard_size=9, out=tmp_path)
    for objective in ("test_accuracy", "kkt", "iteration"):
        with pytest.raises(pm.InputError, match=f"unknown objective `{objective}`"):
            Budget(2, 1000, objective)
    with pytest.raises(pm.InputError, match="unknown sampler `random`"):
        Budget(2, 1000, sampler="random")  # type: ignore[arg-type]
    with pytest.raises(pm.InputError, match="unknown hyperparameter `speed` of DSGT"):
        searches(base, ["dsgt"], wrong, budget, shard_size=9, out=tmp_path)


@pytest.mark.parametrize("sampler", ["tpe", "grid"])
def test_a_search_is_repeatable_equal_in_budget_and_finds_the_best(
    tmp_path: Path, sampler: str
) -> None:
    base = SMALL
    trials = 4 if sampler == "tpe" else 9
    budget = Budget(trials, 6400, "objective", sampler)  # type: ignore[arg-type]

    def search() -> list[list[tuple[object, int]]]:
        made = searches(
            base,
            ["hsm-admm", "d-psgd"],
            load_spaces(),
            budget,
            shard_size=100,
            out=tmp_path,
        )
        tried = []
        for one in made:
            seen: list[tuple[object, int]] = []
            while (run := one.next()) is not None:
                # A known landscape in place of a run: the third trial is the best.
                value = [3.0, 2.0, 1.0][len(seen)] if len(seen) < 3 else float("nan")
                outcome = "finished" if len(seen) < 3 else "diverged"
                one.tell(run, outcome, {"objective": value}, "")
                config = run.config
                searched = ("name", *one.space.dimensions)
                chosen = {
                    key: value
                    for key, value in config["algorithm"].items()
                    if key in searched
                }
                seen.append((chosen, config["run"]["steps"]))
            tried.append(seen)
            assert one.best[1] == 1.0
            assert len(one.trials) <= trials
        write_parameters(tmp_path / "params.toml", made, base, "cmd")
        assert len(trial_table(made)) == sum(map(len, tried))
        assert [one.defaults for one in made] == [3.0, 3.0]
        if sampler == "tpe":
            assert {len(one.trials) for one in made} == {trials}
        return tried

    first, second = search(), search()
    assert first == second
    automatic, two_gradients, one_gradient = (
        first[0][0][1],
        first[0][1][1],
        first[1][0][1],
    )
    assert automatic < two_gradients == (6400 - 8) // 16  # looks are paid for
    assert one_gradient == 6400 // 8
    if sampler == "tpe":
        assert first[0][0][0] == {  # its automatic constants, then its paper's form
            "name": "hsm-admm",
            "k0": 0,
            "split": True,
        }
        assert first[0][1][0] == {
            **first[0][0][0],
            "c_rho": 0.25,
            "c_eta": 0.5,
            "c_a": 1.0,
            "smoothness": 0.0,
        }
    parameters = load_parameters(str(tmp_path / "params.toml"))
    best = parameters.section("hsm-admm")
    assert {**best, "name": "hsm-admm"} == first[0][2][0]
    assert parameters.tuned["trials"] == trials


def test_trials_that_are_in_the_folder_are_not_run_again(tmp_path: Path) -> None:
    base, budget = SMALL, Budget(2, 640, "objective")

    def opened() -> tuple[object, object]:
        one = searches(
            base, ["d-psgd"], load_spaces(), budget, shard_size=9, out=tmp_path
        )[0]
        return one, one.next()

    one, run = opened()
    folder = RunFolder(run.folder).created()  # type: ignore[attr-defined]
    folder.write_config(run.config)  # type: ignore[attr-defined]
    (folder.path / "history.csv").write_text("iteration\n80\n")
    final = {"objective": 0.25, "iteration": 80}
    ended = {"outcome": "finished", "final": final, "message": "80 iterations."}
    (folder.path / "summary.json").write_text(json.dumps(ended))
    one, run = opened()
    assert run.name == "d-psgd trial 1"  # type: ignore[attr-defined]
    assert one.trials[0]["objective"] == 0.25  # type: ignore[attr-defined]
    text = (folder.path / "config.toml").read_text()
    (folder.path / "config.toml").write_text(text.replace("steps = 80", "steps = 81"))
    with pytest.raises(
        pm.InputError, match=r"holds another run: its `run\.steps` is 81"
    ):
        opened()


def test_values_that_a_method_refuses_are_a_failed_trial(tmp_path: Path) -> None:
    space = Space("prox-gt-sr-o", {"large_batch": Choice(choices=[64, 100_000])})
    one = searches(
        SMALL,
        ["prox-gt-sr-o"],
        {"prox-gt-sr-o": space},
        Budget(3, 640, "objective", "grid"),
        shard_size=9,
        out=tmp_path,
    )[0]
    run = one.next()
    assert run is not None
    one.tell(run, "finished", {"objective": 1.0}, "")
    assert one.next() is None  # 100,000 gradients are more than the budget
    assert [trial["outcome"] for trial in one.trials] == ["finished", "failed"]
    assert "does not pay for one step" in one.trials[1]["message"]
    assert one.defaults is None  # 2048 is not in this space


def test_only_failures_are_no_parameters(tmp_path: Path) -> None:
    base, budget = SMALL, Budget(1, 640)
    made = searches(base, ["dsgt"], load_spaces(), budget, shard_size=9, out=tmp_path)
    run = made[0].next()
    assert run is not None
    made[0].tell(run, "diverged", {}, "")
    assert not made[0].found
    with pytest.raises(pm.InputError, match="every trial diverged or failed"):
        write_parameters(tmp_path / "p.toml", made, base, "cmd")
