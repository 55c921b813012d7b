import json
import os
import time
from pathlib import Path

import pytest
import torch

import proxmesh as pm
from proxmesh.bench import decent, memory, tasks
from proxmesh.bench.jax_step import jax_run
from proxmesh.bench.plain_loop import PlainLoop
from proxmesh.bench.report import Measurement, Ratio, measured_with, write
from proxmesh.bench.timing import Effort, Spread, in_turns, on_one_core, seconds_of
from proxmesh.cli import bench as cli
from proxmesh.cli import main
from proxmesh.solver import compile_step


@pytest.fixture(autouse=True)
def _single_precision() -> None:
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def task() -> tasks.Task:
    torch.set_default_dtype(torch.float32)
    return tasks.mlp(agents=4, batch=8)


def test_turns_tell_slow_from_fast_and_how_sure_that_is() -> None:
    order: list[str] = []

    def waiting(name: str, seconds: float) -> None:
        order.append(name)
        time.sleep(seconds)

    times = in_turns(
        {
            "slow": seconds_of(lambda: waiting("slow", 0.02)),
            "fast": seconds_of(lambda: waiting("fast", 0.005)),
        },
        Effort(rounds=3),
        turn=0.02,
    )
    assert times["slow"].low >= 20
    assert 5 <= times["fast"].low <= times["fast"].median <= times["fast"].high
    assert times["fast"].low < times["slow"].low
    changes = zip(order, ["", *order], strict=False)
    turns = [name for name, before in changes if name != before]
    assert turns[-6:] == ["slow", "fast"] * 3, "interleaved"


def test_one_core_is_given_back() -> None:
    before = torch.get_num_threads(), os.sched_getaffinity(0)
    with on_one_core():
        assert torch.get_num_threads() == 1
        assert len(os.sched_getaffinity(0)) == 1
    assert (torch.get_num_threads(), os.sched_getaffinity(0)) == before


def test_ratios_know_their_limits(tmp_path: Path) -> None:
    assert Ratio("a", 1.1, at_most=1.15).holds is True
    assert Ratio("a", 1.2, at_most=1.15).holds is False
    assert Ratio("a", 9.0, at_least=10.0).holds is False
    assert Ratio("a", 9.0).holds is None
    assert Ratio("a", 9.0, at_least=10.0).limit == "at least 10"
    found = Measurement(
        "step", "A step", measured={"x": Spread(2, 1, 3)}, ratios=[Ratio("a", 2.0, 1.0)]
    )
    tree = json.loads(write(found, tmp_path / "new", measured_with()).read_text())
    assert tree["measured"]["x"] == {"median": 2, "low": 1, "high": 3}
    assert tree["ratios"][0]["holds"] is False
    assert {"proxmesh", "torch", "python"} <= set(tree["machine"]["versions"])


@pytest.mark.parametrize("flat", [True, False])
def test_the_plain_loop_is_the_same_method(task: tasks.Task, flat: bool) -> None:
    loop, state = PlainLoop(task, flat=flat), task.state
    for _ in range(3):
        loop.step()
        state = task.step(state)
    torch.testing.assert_close(loop.rows(), state.x, rtol=1e-4, atol=1e-5)


def test_the_jax_step_is_the_same_method(task: tasks.Task) -> None:
    run, state = jax_run(task), task.state
    for _ in range(3):
        state = task.step(state)
    found = run(3)
    assert int(found["k"]) == int(state.k)
    for name in ("x", "y", "v", "lx", "alpha_sum", "beta"):
        torch.testing.assert_close(
            torch.from_numpy(found[name].copy()),
            getattr(state, name),
            rtol=1e-3,
            atol=1e-5,
        )


def test_decent_bench_answers_where_it_is_installed() -> None:
    python = decent._python()
    if python is None:
        pytest.skip(f"{decent.VARIABLE} is not set; `make bench` sets it")
    with decent._child(python, agents=4) as asked:
        assert 1e-5 < asked("ATC_Tracking")(3) < 1
        assert 1e-5 < asked("DLM")(3) < 1


def test_without_decent_bench_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(decent.VARIABLE, raising=False)
    assert decent._python() is None
    assert "Python >= 3.13" in decent._missing()
    monkeypatch.setenv(decent.VARIABLE, "nowhere/python")
    with pytest.raises(pm.InputError, match="`nowhere/python`, which is not a program"):
        decent._python()


def test_the_state_that_memory_is_held_to_is_the_methods(task: tasks.Task) -> None:
    fields = type(task.state).__dataclass_fields__
    rows = [name for name in fields if name != "k"]
    assert len(rows) == memory.STATE_TENSORS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "stp"], "unknown measurement `stp`. Did you mean `step`?"),
        (["--only", ","], "`--only ,` names no measurement."),
        (["--rounds", "0"], "`--rounds` must be at least 1, got 0."),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.long
def test_bench_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "--only", "startup", "--rounds", "1", "--out", str(tmp_path)])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "seconds beyond `import torch`" in printed
    assert "at most 1.5" in printed
    assert "written to" in printed
    found = json.loads((tmp_path / "startup.json").read_text())
    assert found["measured"]["first iteration"]["median"] > 500


def test_a_quick_run_prints_and_writes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_parts", lambda: {"easy": easy})
    assert exit_code("--quick") == 0
    printed = capsys.readouterr().out
    assert "1 round" in printed
    assert "written" not in printed
    assert "at most" not in printed, "limits are meant for whole sizes"
    assert not list(tmp_path.iterdir())


def test_what_fails_keeps_nothing_else_from_being_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(effort: Effort) -> Measurement:
        raise KeyError(effort)

    def without_disk(effort: Effort) -> Measurement:
        raise OSError(f"no room for {effort}")

    parts = {"broken": broken, "full": without_disk, "easy": easy}
    monkeypatch.setattr(cli, "_parts", lambda: parts)
    assert exit_code() == 1
    printed = capsys.readouterr()
    assert "An easy one, 15 rounds" in printed.out
    assert "Traceback" in printed.err
    assert "`full` could not be measured: no room" in printed.err
    assert printed.err.endswith("error: not measured, see above: broken, full.\n")


def test_without_a_compiler_it_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compiling(effort: Effort) -> Measurement:
        del effort
        raise compile_step.NotCompiledError("no C++ compiler was found.")

    monkeypatch.setattr(cli, "_parts", lambda: {"compiling": compiling})
    assert exit_code() == 1, "there is one: the compiling itself failed"
    monkeypatch.setattr(compile_step, "why_no_compiler", lambda: "no C++ compiler")
    assert exit_code() == 0
    assert "Left out: no C++ compiler" in capsys.readouterr().out


def easy(effort: Effort) -> Measurement:
    title = f"An easy one, {effort.rounds} round{'s' * (effort.rounds > 1)}"
    return Measurement("easy", title, ratios=[Ratio("a", 2.0, at_most=1.0)])


def exit_code(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", *arguments])
    return stopped.value.code
