"""A run is prepared once, from one list of settings, and can be looked at first."""

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from zoo import ROUND, classifier

import proxmesh as pm
from proxmesh.cli import main
from proxmesh.runs.config import RunSection
from proxmesh.solver import preparation
from proxmesh.solver.settings import LOCAL, Hooks
from proxmesh.solver.stopwatch import Stopwatch
from proxmesh.theory import automatic

PARTS = {"problem", "algorithm", "graph"}


def test_the_signature_is_the_list_of_settings_and_hooks() -> None:
    listed = {name: field.default for name, field in pm.Settings.model_fields.items()}
    listed |= {field.name: field.default for field in dataclasses.fields(Hooks)}
    shown = inspect.signature(pm.prepare).parameters
    assert set(shown) - PARTS == set(listed)
    for name, parameter in shown.items():
        if name in PARTS:
            assert parameter.default is parameter.empty
        elif parameter.default is not None:  # None: an empty mapping in the list
            assert parameter.default == listed[name], name
    assert list(inspect.signature(pm.solve).parameters) == list(shown)


def test_a_config_can_say_every_setting() -> None:
    assert issubclass(RunSection, pm.Settings)
    assert {"eval", "steps", "compile", "batch"} <= set(RunSection.keys())
    assert set(pm.Settings.model_fields) > LOCAL


def test_a_run_is_looked_at_before_it_goes(tmp_path: Path) -> None:
    run = pm.prepare(
        classifier(), pm.HSMADMM(), pm.graphs.ring(4), steps=20, out=tmp_path / "run"
    )
    assert repr(run) == "Run(HSMADMM on ring(n=4), 20 steps, engine simulated)"
    assert run.settled.automatic == ("c_rho", "c_eta", "smoothness", "follow")
    certificate = run.certificate()
    assert certificate is not None
    assert certificate.line.startswith("stable steps: c_eta/c_rho 1.3")
    assert not (tmp_path / "run").exists(), "nothing is written before it goes"
    expected = run.cost().row()
    result = run.go()
    assert {name: result.final[name] for name in expected} == expected
    assert result.algorithm == run.algorithm
    with pytest.raises(pm.InputError, match="was made already"):
        run.go()


def test_preparing_and_going_is_solving() -> None:
    arguments: dict[str, Any] = {"steps": 30, "eval_every": 10}
    run = pm.prepare(classifier(), ROUND, pm.graphs.star(4), **arguments)
    run.measure()  # a look changes nothing
    whole = pm.solve(classifier(), ROUND, pm.graphs.star(4), **arguments)
    assert torch.equal(run.go().state.x, whole.state.x)


def test_the_command_line_prepares_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_default_dtype(torch.float32)
    counted: list[str] = []

    def counting(owner: Any, name: str) -> None:
        before = getattr(owner, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            counted.append(name)
            return before(*args, **kwargs)

        monkeypatch.setattr(owner, name, noted)

    counting(pm.LearningProblem, "x0")
    counting(automatic, "estimate_smoothness")
    counting(preparation, "pays_off")
    words = "run --dataset breast-cancer --steps 3 --compile off --agents 4"
    with pytest.raises(SystemExit) as ended:
        main([*words.split(), "--out", str(tmp_path / "run")])
    assert ended.value.code == 0
    assert sorted(counted) == ["estimate_smoothness", "x0"]


def test_the_clock_waits_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    for device in ("cpu", "cuda:1"):
        watch = Stopwatch(torch.device(device))
        watch.start()
        watch.stop()
    assert waited == [torch.device("cuda:1")]
