"""Which runs a comparison needs, which are there, and how processes end."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import proxmesh as pm
from proxmesh.experiment.assemble import assemble
from proxmesh.experiment.comparing import is_whole, planned, steps_within, task_of
from proxmesh.experiment.config import load_config
from proxmesh.experiment.crew import Crew, Ended, Errand, Progressed
from proxmesh.experiment.ledger import Ledger
from proxmesh.experiment.parameters import (
    DEFAULTS,
    changed,
    load_parameters,
    preset_for,
    presets,
)

SMALL = {
    "data.name": "breast-cancer",
    "graph.agents": 4,
    "run.steps": 12,
    "run.batch": 8,
    "run.eval_every": 4,
}


def made(errands: list[Errand], size: int = 2) -> list[Ended]:
    with Crew(size) as crew:
        for errand in errands:
            crew.submit(errand)
        return [m for m in crew.messages() if isinstance(m, Ended)]


def test_runs_are_made_once_and_half_written_ones_again(tmp_path: Path) -> None:
    base = load_config(None, SMALL)
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
        assert not is_whole(summary.parent)
    summary.unlink()
    plan = planned(base, labels, range(2), DEFAULTS, tmp_path)
    assert [e.name for e in plan.redone] == ["d-psgd seed 1"]
    made(plan.todo)
    assert is_whole(summary.parent)


def test_a_run_in_a_process_is_the_run_of_the_command_line(tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float32)  # the command line's own default
    base = load_config(None, SMALL)
    made(planned(base, ["sppdm"], [3], DEFAULTS, tmp_path).todo)
    flags = {**SMALL, "seed": 3, "algorithm.name": "sppdm", "run.threads": 1}
    assemble(load_config(None, flags)).run(tmp_path / "alone")
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
        ({"run.steps": 13}, DEFAULTS, r"`run.steps` is 12, asked for is 13"),
        ({"graph.name": "star"}, DEFAULTS, r"`graph.name` is 'ring'.* is 'star'"),
        ({}, changed(DEFAULTS, {"d-psgd": {"alpha": 0.3}}), r"`algorithm.alpha`"),
    ],
)
def test_a_folder_of_other_runs_is_refused(
    tmp_path: Path, flags: dict[str, Any], parameters: Any, message: str
) -> None:
    made(planned(load_config(None, SMALL), ["d-psgd"], [0], DEFAULTS, tmp_path).todo)
    other = load_config(None, {**SMALL, **flags})
    with pytest.raises(pm.InputError, match=message):
        planned(other, ["d-psgd"], [0], parameters, tmp_path)


def test_a_failed_run_leaves_the_others_alone_and_its_reason(tmp_path: Path) -> None:
    base = load_config(None, SMALL)
    good = planned(base, ["d-psgd"], [0, 1], DEFAULTS, tmp_path).todo
    bad = Errand("bad", {"data": {"name": "nowhere"}}, tmp_path / "bad" / "seed-0")
    ended = {e.errand.name: e for e in made([bad, *good])}
    assert ended["bad"].outcome == "failed"
    assert "unknown dataset `nowhere`" in ended["bad"].message
    assert ended["d-psgd seed 1"].outcome == "finished"
    assert "nowhere" in (tmp_path / "bad" / "seed-0" / "failed.txt").read_text()


def test_a_killed_process_is_a_failed_run(tmp_path: Path) -> None:
    base = load_config(None, {**SMALL, "run.steps": 1_000_000})
    errand = planned(base, ["d-psgd"], [0], DEFAULTS, tmp_path).todo[0]
    ended = None
    with Crew(1) as crew:
        crew.submit(errand)
        for message in crew.messages():
            if isinstance(message, Progressed):
                for _, process in crew._working.values():
                    process.kill()
            elif isinstance(message, Ended):
                ended = message
    assert ended is not None
    assert ended.outcome == "failed"
    assert ended.message == "its process was ended by SIGKILL (out of memory?)."


def test_leaving_a_crew_stops_what_runs(tmp_path: Path) -> None:
    base = load_config(None, {**SMALL, "run.steps": 1_000_000})
    errand = planned(base, ["d-psgd"], [0], DEFAULTS, tmp_path).todo[0]
    with Crew(1) as crew:
        crew.submit(errand)
        next(crew.messages())
        processes = [process for _, process in crew._working.values()]
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
    ledger = Ledger(algorithm, 64, 1000.0, vector_bytes=0)
    for k in range(steps + 1):
        ledger.add(k)
    assert ledger.gradients <= 10_000
    ledger.add(steps + 1)
    assert ledger.gradients > 10_000
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
        "`graph.name` is 'star' where they were tuned for 'ring'"
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
    ],
)
def test_parameters_that_do_not_fit(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(pm.InputError, match=message):
        load_parameters(str(file))


def test_every_preset_fits_its_methods_and_is_found_by_its_task() -> None:
    found = list(presets())
    for preset in found:
        for key in ("command", "date", "trials", "gradients", "objective"):
            assert preset.tuned[key], f"{preset.source} does not say its {key}"
        tree: dict[str, Any] = {}
        for key, value in preset.task.items():
            section, name = key.split(".")
            tree.setdefault(section, {})[name] = value
        assert preset_for(tree) is not None
    assert preset_for({"graph": {"name": "nothing like it"}}) is None


def test_unknown_parameters_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(pm.InputError, match="unknown preset or file of parameters"):
        load_parameters("a9a-rink")


def test_a_summary_is_written_last(tmp_path: Path) -> None:
    plan = planned(load_config(None, SMALL), ["d-psgd"], [0], DEFAULTS, tmp_path)
    made(plan.todo)
    folder = plan.todo[0].folder
    assert json.loads((folder / "summary.json").read_text())["outcome"] == "finished"
    newest = max(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    assert newest.name == "summary.json"
