"""Ranks that wait for nobody: what they find, and how they end."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from asynchronous_worker import HSM, lasso
from ranks import ENGINES, PYTHON, Ranks, proxmesh, run_ranks

import proxmesh as pm
from proxmesh.network.mail import Inbox, packed, unpacked
from proxmesh.solver.checkpoint import checkpoints_in

WORKER = Path(__file__).parents[1] / "asynchronous_worker.py"
LONG = pytest.mark.long
TASK = ["--dataset", "breast-cancer", "--model", "logistic", "--agents", "6"]
TASK += ["--dtype", "float64", "--threads", "1", "--asynchronous", "--quiet"]


@pytest.mark.ranks
@pytest.mark.parametrize("engine", ENGINES)
def test_ranks_find_the_solution_at_speeds_of_their_own(
    engine: str, tmp_path: Path
) -> None:
    run_ranks(engine, 4, [PYTHON, WORKER, tmp_path], tmp_path / "ranks")
    texts = [(tmp_path / f"{rank}.steps").read_text().split() for rank in range(4)]
    assert all(text == texts[0] for text in texts)
    fewest, most, stationarity = map(float, texts[0])
    speeds = [pm.links.Speeds([1, 1, 1, 4])]
    predicted = pm.solve(
        lasso(4), HSM, pm.graphs.ring(4), 200, links=speeds, asynchronous=True
    ).final
    assert predicted["fewest_steps"] == 50
    assert 0.7 * 50 <= fewest <= 1.6 * 50  # other work on this machine included
    assert 0.75 * 200 <= most <= 200
    assert stationarity <= 2 * predicted["stationarity"] + 1e-9


@pytest.mark.ranks
@pytest.mark.parametrize("engine", ["torch", pytest.param("mpi", marks=LONG)])
def test_a_killed_rank_ends_all_and_the_run_goes_on(
    engine: str, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    steps = ["--steps", "200000", "--eval-every", "100", "--checkpoint-every", "100"]
    command = proxmesh("run", *TASK, *steps, "--out", out, "--timeout", "20")
    ranks = Ranks(engine, 3, command, tmp_path / "ranks")
    _wait_for_checkpoints(ranks, out)
    os.kill(ranks.pids()[1], signal.SIGKILL)
    ended = ranks.ended()
    if engine == "torch":  # mpiexec ends the others before they can say anything
        assert [ended[0].code, ended[2].code] == [3, 3]
        assert "rank 1" in ended[0].err
        assert "lost" in ended[0].err

    newest = int(checkpoints_in(out / "checkpoint")[0].name)
    config = out / "config.toml"
    end = newest + 200
    config.write_text(config.read_text().replace("200000", str(end)))
    resumed = Ranks(engine, 2, proxmesh("resume", out, "--quiet"), tmp_path / "two")
    assert [e.code for e in resumed.ended()] == [0, 0], resumed.said()
    rows = pd.read_csv(out / "history.csv")
    assert rows["iteration"].iloc[-1] == end
    assert rows["iteration"].is_monotonic_increasing
    assert "own steps of ranks 0, 1, ...: " in (out / "summary.json").read_text()


@pytest.mark.ranks
@pytest.mark.parametrize("how", ["SIGTERM", pytest.param("SIGSTOP", marks=LONG)])
def test_a_signal_or_a_frozen_rank_ends_all(how: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    steps = ["--steps", "200000", "--eval-every", "100", "--checkpoint-every", "100"]
    command = proxmesh("run", *TASK, *steps, "--out", out, "--timeout", "4")
    ranks = Ranks("torch", 2, command, tmp_path / "ranks")
    _wait_for_checkpoints(ranks, out)
    os.kill(ranks.pids()[1], getattr(signal, how))
    if how == "SIGSTOP":
        ended = ranks.ended(without=[1])
        assert ended[0].code == 3
        assert "rank 1" in ended[0].err
        return
    ended = ranks.ended()
    assert [e.code for e in ended] == [130, 143], ranks.said()
    kept = checkpoints_in(out / "checkpoint")[0]
    rows = pd.read_csv(out / "history.csv")
    assert int(kept.name) == rows["iteration"].iloc[-1]


def _wait_for_checkpoints(ranks: Ranks, out: Path) -> None:
    deadline = time.monotonic() + 90
    while len(checkpoints_in(out / "checkpoint")) < 2:
        assert time.monotonic() < deadline, ranks.said()
        time.sleep(0.02)


def test_what_is_heard_is_the_newest_of_this_run() -> None:
    inbox = Inbox(threading.Condition())
    rows: Any = torch.arange(4.0).view(2, 2)
    for clock in (3, 4):
        inbox.put(7, packed(clock, 1, rows * clock))
    found = inbox.taken()
    assert list(found) == [7]
    assert inbox.is_empty
    clock_and_rows = unpacked(found[7], 1, 2)
    assert clock_and_rows is not None
    assert clock_and_rows[0] == 4
    assert torch.equal(clock_and_rows[1], rows.double() * 4)
    assert unpacked(found[7], 2, 2) is None  # of another run
