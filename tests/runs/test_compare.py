"""Which runs a comparison needs, which are there, and how processes end."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import proxmesh as pm
from proxmesh.runs.build import build
from proxmesh.runs.compare import (
    planned,
    single_threaded,
    steps_within,
)
from proxmesh.runs.config import load_config, task_of
from proxmesh.runs.pool import Ended, PlannedRun, Pool, Progressed
from proxmesh.runs.presets import (
    DEFAULTS,
    changed,
    load_parameters,
    preset_for,
    presets,
)
from proxmesh.solver.costs import Costs
from proxmesh.solver.folder import RunFolder

SMALL = {
    "data.name": "breast-cancer",
    "graph.agents": 4,
    "run.steps": 12,
    "run.batch": 8,
    "run.eval_every": 4,
}


def task(**flags: Any) -> dict[str, Any]:
    config = load_config(None, {**SMALL, **flags})
    return build(single_threaded(config)).tree()


def made(runs: list[PlannedRun], size: int = 2) -> list[Ended]:
    with Pool(size) as pool:
        for run in runs:
            pool.submit(run)
        return [m for m in pool.messages() if isinstance(m, Ended)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison with one run, which its tests leave as it is."""
    folder = tmp_path_factory.mktemp("finished")
    made(planned(task(), ["d-psgd"], [0], DEFAULTS, folder).todo)
    return folder


@pytest.mark.long
def test_runs_are_made_once_and_half_written_ones_again(tmp_path: Path) -> None:
    base = task()
    labels = ["hsm-admm", "d-psgd"]
    plan = planned(base, labels, range(2), DEFAULTS, tmp_path)
    assert len(plan.todo) == 4
    assert {ended.outcome for ended in made(plan.todo)} == {"finished"}
    again = planned(base, labels, range(3), DEFAULTS, tmp_path)
    assert [e.name for e in again.todo] == ["hsm-admm seed 2", "d-psgd seed 2"]
    assert len(again.done) == 4
    summary = tmp_path / "d-psgd" / "seed-1" / "summary.json"
    for broken in ("", '{"outcome": "fin', '{"outcome": "interrupted"}'):
        summary.write_text(broken)
        assert not RunFolder(summary.parent).is_whole()
    summary.unlink()
    plan = planned(base, labels, range(2), DEFAULTS, tmp_path)
    assert [e.name for e in plan.incomplete] == ["d-psgd seed 1"]
    made(plan.todo)
    assert RunFolder(summary.parent).is_whole()


def test_a_run_in_a_process_is_the_run_of_the_command_line(tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float32)  # the command line's own default
    base = task()
    made(planned(base, ["sppdm"], [3], DEFAULTS, tmp_path).todo)
    flags = {**SMALL, "seed": 3, "algorithm.name": "sppdm", "run.threads": 1}
    build(load_config(None, flags)).prepare(tmp_path / "alone").go()
    there, here = (
        (tmp_path / f / "history.csv").read_text().splitlines()
        for f in ("sppdm/seed-3", "alone")
    )
    clock = there[0].split(",").index("seconds")
    assert [_without(row, clock) for row in there] == [
        _without(row, clock) for row in here
    ]


def _without(row: str, place: int) -> list[str]:
    cells = row.split(",")
    return cells[:place] + cells[place + 1 :]


@pytest.mark.parametrize(
    ("flags", "parameters", "message"),
    [
        ({"run.steps": 13}, DEFAULTS, r"`run.steps` is 12, but 13 was"),
        ({"graph.name": "star"}, DEFAULTS, r"`graph.name` is 'ring', but 'star'"),
        ({}, changed(DEFAULTS, {"d-psgd": {"alpha": 0.3}}), r"`algorithm.alpha`"),
    ],
)
def test_a_folder_of_other_runs_is_refused(
    finished: Path, flags: dict[str, Any], parameters: Any, message: str
) -> None:
    other = task(**flags)
    with pytest.raises(pm.InputError, match=message):
        planned(other, ["d-psgd"], [0], parameters, finished)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model.name": "logistic"}, r"`model\..*` is "),
        ({"regularizer.weight": 0.01}, r"`regularizer.weight` is 0.01, .* 0.0001"),
        ({"model.hidden": 5}, r"`model.hidden` is 5, but 64 was"),
        (
            {"data.split": "dirichlet", "data.alpha": 0.5},
            r"`data.alpha` is 0.5, .* None",
        ),
    ],
)
def test_what_was_set_then_and_is_not_now_is_another_task(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    made(planned(task(**given), ["d-psgd"], [0], DEFAULTS, tmp_path).todo)
    with pytest.raises(pm.InputError, match=message):
        planned(task(), ["d-psgd"], [0], DEFAULTS, tmp_path)


def test_runs_on_an_own_file_are_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{i % 7},{i % 3},{i % 2}" for i in range(60))
    Path("mine.csv").write_text(f"a,b,label\n{rows}\n")
    own = task(**{"data.name": "mine.csv"})
    made(planned(own, ["d-psgd"], [0], DEFAULTS, tmp_path).todo)
    assert len(planned(own, ["d-psgd"], [0], DEFAULTS, tmp_path).done) == 1


def test_a_history_that_lost_rows_is_half_written(
    finished: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "seed-0"
    shutil.copytree(finished / "d-psgd" / "seed-0", folder)
    assert RunFolder(folder).is_whole()
    history = folder / "history.csv"
    rows = history.read_text().splitlines()
    history.write_text("\n".join(rows[:-1]) + "\n")
    assert not RunFolder(folder).is_whole()
    history.write_text("\n".join(rows) + "\n")
    for broken in ("[]", "null", "{}", '{"outcome": "finished", "final": {}}'):
        (folder / "summary.json").write_text(broken)
        assert not RunFolder(folder).is_whole()


def test_a_failed_run_leaves_the_others_alone_and_its_reason(tmp_path: Path) -> None:
    base = task()
    good = planned(base, ["d-psgd"], [0, 1], DEFAULTS, tmp_path).todo
    bad = PlannedRun("bad", {"data": {"name": "nowhere"}}, tmp_path / "bad" / "seed-0")
    ended = {e.run.name: e for e in made([bad, *good])}
    assert ended["bad"].outcome == "failed"
    assert "unknown dataset `nowhere`" in ended["bad"].message
    assert ended["d-psgd seed 1"].outcome == "finished"
    assert "nowhere" in (tmp_path / "bad" / "seed-0" / "failed.txt").read_text()


def endless(folder: Path) -> PlannedRun:
    """A run of which only the start is waited for; it would be compiled before that."""
    base = task(**{"run.steps": 1_000_000})
    plan = planned(base, ["d-psgd"], [0], DEFAULTS, folder, compile="off")
    return plan.todo[0]


def test_a_killed_process_is_a_failed_run(tmp_path: Path) -> None:
    run = endless(tmp_path)
    ended = None
    with Pool(1) as pool:
        pool.submit(run)
        for message in pool.messages():
            if isinstance(message, Progressed):
                for _, process in pool._working.values():
                    process.kill()
            elif isinstance(message, Ended):
                ended = message
    assert ended is not None
    assert ended.outcome == "failed"
    assert ended.message == "its process was ended by SIGKILL (out of memory?)."


def test_leaving_a_pool_stops_what_runs(tmp_path: Path) -> None:
    run = endless(tmp_path)
    with Pool(1) as pool:
        pool.submit(run)
        next(pool.messages())
        processes = [process for _, process in pool._working.values()]
    assert [process.is_alive() for process in processes] == [False]


@pytest.mark.parametrize(
    "algorithm",
    [
        pm.HSMADMM(first_batch=100),
        pm.DPSGD(),
        pm.DEEPSTORM(1),
        pm.ProxGT("sr-o", period=4, large_batch=300),
        pm.ProxGT("sr-e", period=3),
    ],
)
def test_a_budget_of_gradients_is_used_and_not_exceeded(algorithm: Any) -> None:
    steps = steps_within(10_000, algorithm, 64, 1000.0)
    costs = Costs(algorithm, 64, 1000.0)
    for k in range(steps + 1):
        costs.add(k)
    assert costs.gradients <= 10_000
    costs.add(steps + 1)
    assert costs.gradients > 10_000
    assert steps_within(640, pm.DPSGD(), 64, 1000.0) == 10  # to the last gradient
    with pytest.raises(pm.InputError, match="does not pay for one step"):
        steps_within(10, algorithm, 64, 1000.0)


def test_the_task_is_what_runs_must_share() -> None:
    config = load_config(None, {**SMALL, "algorithm.name": "dsgt"}).model_dump()
    task = task_of(config)
    assert task["graph.agents"] == 4
    assert task["run.batch"] == 8
    for key in ("seed", "algorithm.name", "run.threads", "run.steps"):
        assert key not in task


def test_parameters_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[task]\n"graph.name" = "ring"\n[methods.dsgt]\nalpha = 0.1\n'
        '[methods.slow]\nalgorithm = "hsm-admm"\nc_rho = 1.0\nc_eta = 2.0\n'
    )
    found = load_parameters(str(file))
    assert found.section("dsgt") == {"name": "dsgt", "alpha": 0.1}
    assert found.section("slow")["name"] == "hsm-admm"
    assert found.section("sppdm") == {"name": "sppdm"}
    assert found.differences({"graph": {"name": "star"}}) == [
        "`graph.name` is 'star', but they were tuned for 'ring'"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[methods.dsgt]\nbeta = 1", r"does not fit `dsgt`: unknown option `beta`"),
        ("[methods.dsgtt]\nalpha = 1", r"unknown algorithm `dsgtt` of .* mean `dsgt`"),
        ("[methods.dsgt]\nalpha = -1", r"does not fit `dsgt`: DSGT: `alpha` must be"),
        ("[method.dsgt]\nalpha = 1", r"unknown section `method` .* mean `methods`"),
        ("x =", r"not valid TOML"),
        ("", r"has no table \[methods.NAME\]"),
        ("methods = 3", r"`methods` must be a table, got 3"),
        ("task = 5\n[methods.dsgt]\nalpha = 1", r"`task` must be a table, got 5"),
        ("[methods]\ndsgt = 3", r"`dsgt` must be a table of values, got 3"),
        ("[methods.x]\nalgorithm = ['dsgt']", r"unknown algorithm `\['dsgt'\]`"),
        ('[methods."a/b"]\nalgorithm = "dsgt"', r"`a/b` cannot name a folder"),
        ('[methods.".."]\nalgorithm = "dsgt"', r"`..` cannot name a folder"),
        ('[methods."[/b]"]\nalgorithm = "dsgt"', r"cannot name a folder"),
    ],
)
def test_parameters_that_do_not_fit(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(pm.InputError, match=message):
        load_parameters(str(file))


PRESETS: dict[str, dict[str, Any]] = {
    "a9a-ring": {},
    "a9a-ring-by-label": {"data.split": "by-label"},
    "a9a-star": {"graph.name": "star"},
    "a9a-star-32": {"graph.name": "star", "graph.agents": 32},
    "a9a-star-128": {"graph.name": "star", "graph.agents": 128},
    "a9a-barabasi-albert-32": {
        "graph.name": "barabasi-albert",
        "graph.agents": 32,
        "graph.seed": 1,
    },
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_found_by_its_task_and_by_no_other(name: str) -> None:
    flags = {"data.name": "a9a", **PRESETS[name]}
    config = build(load_config(None, flags)).tree()
    found = preset_for(config)
    assert found is not None
    assert found.source == f"preset `{name}`"
    for key, value in (("model.hidden", 32), ("run.batch", 32), ("model.init", "x")):
        section, option = key.split(".")
        other = {**config, section: {**config[section], option: value}}
        assert preset_for(other) is None


def test_nobody_has_to_choose_constants_for_hsm_admm() -> None:
    preset = next(p for p in presets() if p.source == "preset `a9a-ring`")
    left = preset.left_automatic()
    assert left.section("hsm-admm") == {"name": "hsm-admm"}
    assert left.section("deepstorm-v2") == preset.section("deepstorm-v2")
    assert "c_rho" in preset.section("hsm-admm")  # by its name, it is as tuned


def test_a_preset_says_where_runs_are_longer_than_its_trials() -> None:
    preset = next(p for p in presets() if p.source == "preset `a9a-ring`")
    trial = preset.tuned["gradients"]
    assert preset.budget_note(trial) == preset.budget_note(2 * trial) == ""
    for other in (trial // 3, 3 * trial):
        assert "type `proxmesh tune` with the same options" in preset.budget_note(other)
    assert DEFAULTS.budget_note(1) == ""


def test_every_preset_says_how_it_was_made() -> None:
    found = {preset.source.split("`")[1]: preset for preset in presets()}
    assert set(found) == {*PRESETS, "mnist-random-8"}
    for preset in found.values():
        for key in ("command", "date", "trials", "gradients", "objective", "seed"):
            assert preset.tuned[key], f"{preset.source} does not say its {key}"
        assert set(preset.tuned["reached"]) == set(preset.methods)


def test_a_part_of_a_schedule_is_set_on_the_rest_of_it() -> None:
    found = changed(DEFAULTS, {"d-psgd": {"alpha": {"coefficient": 0.3}}})
    alpha = found.section("d-psgd")["alpha"]
    assert (alpha["coefficient"], alpha["exponent"]) == (0.3, -0.5)


def test_unknown_parameters_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(pm.InputError, match="unknown preset or file of parameters"):
        load_parameters("a9a-rink")


def test_a_summary_is_written_last(finished: Path) -> None:
    folder = finished / "d-psgd" / "seed-0"
    assert json.loads((folder / "summary.json").read_text())["outcome"] == "finished"
    newest = max(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    assert newest.name == "summary.json"
