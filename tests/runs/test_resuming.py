"""`proxmesh resume`, `run --resume` and comparisons that go on."""

import os
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

from proxmesh.cli import main
from proxmesh.solver.checkpoint import checkpoints_in
from proxmesh.solver.loop import Loop

STOPPING = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
TASK = ["--dataset", "breast-cancer", "--model", "logistic", "--agents", "3"]
TASK += ["--steps", "20", "--eval-every", "5", "--quiet"]


@pytest.fixture(autouse=True)
def _as_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)
    blank = lambda _, file, **__: Path(file).touch()  # noqa: E731
    monkeypatch.setattr(Figure, "savefig", blank)  # nobody looks at the pictures


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert isinstance(end.value.code, int)
    return end.value.code


def numbers(folder: str) -> pd.DataFrame:
    return pd.read_csv(Path(folder) / "history.csv").drop(columns="seconds")


def signal_at(iteration: int, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send this process a signal, once."""
    look = Loop._reason_to_stop
    sent: list[int] = []

    def looked(self: Any, state: Any) -> Any:
        if int(state.k) >= iteration and not sent:
            sent.append(number)
            os.kill(os.getpid(), number)
        return look(self, state)

    monkeypatch.setattr(Loop, "_reason_to_stop", looked)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
)
def test_a_signal_leaves_a_checkpoint_to_go_on_from(
    number: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {n: signal.getsignal(n) for n in STOPPING}
    signal_at(10, number, monkeypatch)
    try:
        assert call("run", *TASK, "--out", "run") == code
    finally:
        for changed, handler in before.items():
            signal.signal(changed, handler)
    assert [int(p.name) for p in checkpoints_in(Path("run/checkpoint"))] == [10]
    assert call("resume", "run", "--quiet") == 0
    assert call("run", *TASK, "--out", "whole") == 0
    assert numbers("run").equals(numbers("whole"))


def test_a_finished_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", *TASK, "--out", "run") == 0
    assert call("resume", "run") == 0
    assert "has ended: finished, 20 iterations. Nothing" in capsys.readouterr().out
    assert call("resume", "run", "--steps", "30") == 2
    assert "too short for a checkpoint" in capsys.readouterr().err
    assert call("resume", "run", "--steps", "5") == 2
    assert "raised but not lowered, got 5" in capsys.readouterr().err


def test_steps_may_be_raised() -> None:
    assert call("run", *TASK, "--out", "run", "--checkpoint-every", "8") == 0
    assert call("resume", "run", "--steps", "30", "--quiet") == 0
    longer = ["30" if word == "20" else word for word in TASK]
    assert call("run", *longer, "--out", "whole") == 0
    assert numbers("run").equals(numbers("whole"))


def test_killed_before_its_first_checkpoint_it_starts_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("run", *TASK, "--out", "run") == 0
    whole = numbers("run")
    Path("run/summary.json").unlink()
    Path("run/history.csv").write_text("iteration\n")
    assert call("resume", "run", "--quiet") == 0
    assert "left no checkpoint to go on from: it starts over" in capsys.readouterr().err
    assert numbers("run").equals(whole)


def test_resume_auto_starts_goes_on_and_refuses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    again = [*TASK, "--out", "run", "--checkpoint-every", "5", "--resume", "auto"]
    assert call("run", *again) == 0
    whole = numbers("run")
    Path("run/summary.json").unlink()
    for path in checkpoints_in(Path("run/checkpoint"))[:1]:
        (path / "manifest.json").unlink()
    capsys.readouterr()
    assert call("run", *again) == 0
    assert "iteration 20 cannot be used" in capsys.readouterr().err
    assert numbers("run").equals(whole)
    assert call("run", *again, "--l1", "0.5") == 2
    assert "`regularizer.weight` was 0.0001, now 0.5" in capsys.readouterr().err
    assert call("run", *TASK, "--resume", "auto") == 2
    assert "add `--out DIR`" in capsys.readouterr().err
    assert call("resume", "nowhere") == 2
    assert "`nowhere` holds no run" in capsys.readouterr().err


def test_a_comparison_goes_on_inside_its_runs() -> None:
    command = ["compare", *TASK, "--algorithms", "dsgt", "--seeds", "1"]
    command += ["--checkpoint-every", "5", "--out", "both", "--jobs", "1"]
    assert call(*command) == 0
    folder = Path("both/dsgt/seed-0")
    before = pd.read_csv(folder / "history.csv")
    (folder / "summary.json").unlink()
    assert call(*command) == 0
    after = pd.read_csv(folder / "history.csv")
    assert after.equals(before), "the seconds, too: nothing was computed again"
    assert not Path("both/.lock").exists()
