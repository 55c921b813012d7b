"""The engineer's tutorial: train on ranks, be killed, go on, export, predict."""

import os
import runpy
import signal
import time
from pathlib import Path

import pandas as pd
import pytest
import torch
from ranks import PYTHON, Ranks

from proxmesh.solver.checkpoint import checkpoints_in

PROGRAM = Path(__file__).parents[2] / "examples" / "backbone.py"


@pytest.mark.documented
def test_train_on_four_ranks_be_killed_go_on_and_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.set_default_dtype(torch.float32)  # as a command is started
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(PROGRAM), "files"])
    runpy.run_path(str(PROGRAM))
    for site in (1, 2, 3):
        assert (tmp_path / "sites" / f"site-{site}.npz").exists()
    command = [str(PYTHON), str(PROGRAM), "train"]
    ranks = Ranks("torch", 4, command, tmp_path)
    deadline = time.monotonic() + 90
    while not checkpoints_in(tmp_path / "runs/backbone/checkpoint"):
        assert time.monotonic() < deadline, ranks.said()
        time.sleep(0.02)
    os.kill(ranks.pids()[2], signal.SIGKILL)
    ranks.ended()

    ended = Ranks("torch", 4, command, tmp_path).ended()
    assert [e.code for e in ended] == [0] * 4, [e.err for e in ended]
    assert "test accuracy 0.9" in ended[0].out
    history = pd.read_csv("runs/backbone/history.csv")
    assert history["iteration"].is_monotonic_increasing
    assert list(Path("runs/backbone/log").iterdir())

    monkeypatch.setattr("sys.argv", [str(PROGRAM), "serve"])
    runpy.run_path(str(PROGRAM))
    assert "the image of a 2 is read as 2" in capsys.readouterr().out
