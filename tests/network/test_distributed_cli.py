"""`proxmesh run` under both launchers: start, privacy, signals, wrong input."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ranks import (
    AS_ROOT,
    PYTHON,
    Ranks,
    clean_environment,
    free_port,
    proxmesh,
)

import proxmesh as pm
from proxmesh.launchers import launched
from proxmesh.network import meeting, mpi
from proxmesh.network.placement import place

README = Path(__file__).parents[2] / "README.md"
LINES = re.findall(r"^(?:mpiexec|torchrun) .*proxmesh run.*$", README.read_text(), re.M)
SMALL = ["--dataset", "breast-cancer", "--model", "logistic", "--agents", "6"]


@pytest.mark.ranks
@pytest.mark.parametrize("line", LINES)
def test_the_distributed_example_of_the_readme(line: str, tmp_path: Path) -> None:
    """The very line, with 4 ranks, where the packages of a fresh install are."""
    assert len(LINES) == 4  # each launcher, synchronous and asynchronous
    assert "4" in line
    done = subprocess.run(
        shlex.split(line),
        env={
            **clean_environment(),
            **AS_ROOT,
            "PATH": f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall("hsm-admm on a9a: mlp", done.stdout)) == 1  # only the root
    engine = "mpi" if line.startswith("mpiexec") else "torch"
    where = "agents 0-1 | 2-3 | 4-5 | 6-7, 4 of 8 edges between ranks"
    assert f"engine {engine}, 4 ranks: {where}" in done.stdout
    (run,) = (tmp_path / "runs").iterdir()
    stationarity = pd.read_csv(run / "history.csv")["stationarity"]
    # Where nobody waits, a rank without a core makes few of the 200 steps.
    apart = "--asynchronous" in line
    assert stationarity.iloc[-1] < (stationarity[0] / 4 if apart else 1e-3)
    assert (run / "curves.png").exists()


@pytest.mark.ranks
def test_a_signal_to_one_rank_stops_all_at_the_same_iteration(tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = proxmesh("run", *SMALL, "--steps", "10000000", "--out", out)
    command += ["--eval-every", "50", "--compile", "off"]  # so long a run would be
    ranks = Ranks("torch", 2, command, tmp_path / "ranks")
    deadline = time.monotonic() + 60
    while not (out / "history.csv").exists():
        assert time.monotonic() < deadline, ranks.said()
        time.sleep(0.1)
    os.kill(ranks.pids()[1], signal.SIGTERM)
    first, second = ranks.ended()
    assert "interrupted: after iteration" in first.out
    assert second.out == ""
    assert (first.code, second.code) == (130, 143), first.err + second.err
    assert (out / "summary.json").exists()


@pytest.mark.ranks
def test_more_ranks_than_agents_and_a_world_of_the_wrong_size(tmp_path: Path) -> None:
    command = proxmesh("run", *SMALL[:4], "--agents", "2", "--steps", "5")
    ended = Ranks("torch", 3, command, tmp_path).ended()
    assert [e.code for e in ended] == [2, 2, 2]
    words = "3 processes were started, but graph `ring(n=2)` has 2 agents"
    for end in ended:
        assert words in end.err
        assert len(end.err.splitlines()) == 1, end.err


@pytest.mark.ranks
def test_another_config_on_one_rank_is_found_before_any_data_is_read(
    tmp_path: Path,
) -> None:
    command = proxmesh("run", *SMALL, "--steps", "5")
    odd = {1: ["--split", "by-label"]}
    ended = Ranks("torch", 2, command, tmp_path, odd).ended()
    for end in ended:
        assert end.code == 2
        words = "another data.split than rank 0: `by-label`, not `contiguous`"
        assert words in end.err


@pytest.mark.ranks
def test_an_infinite_label_on_one_rank_is_told_by_that_rank(tmp_path: Path) -> None:
    """Under mpiexec, which ends all ranks soon after the first has gone."""
    data = tmp_path / "data"
    data.mkdir()
    for agent in range(3):
        label = np.array([0.0, 1.0, np.inf if agent == 2 else 0.0, 1.0])
        np.savez(data / f"agent-{agent}.npz", x=np.eye(4), y=label)
    command = proxmesh("run", "--data-dir", data, "--agents", "3", "--steps", "5")
    ended = Ranks("mpi", 3, command, tmp_path / "ranks").ended()
    assert ended[2].code == 2
    assert "agent-2.npz" in ended[2].err
    assert "inf" in ended[2].err
    for end in ended:
        assert "Traceback" not in end.err


@pytest.mark.ranks
def test_the_simulated_engine_is_refused_under_a_launcher(tmp_path: Path) -> None:
    ended = Ranks(
        "torch", 2, proxmesh("run", "--engine", "simulated"), tmp_path
    ).ended()
    assert [e.code for e in ended] == [2, 2]
    assert "runs in one process, but torchrun started 2" in ended[0].err


def test_the_launcher_is_recognized() -> None:
    assert launched({}).engine == "simulated"
    torchrun = launched({"RANK": "2", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"})
    assert (torchrun.engine, torchrun.rank, torchrun.size) == ("torch", 2, 8)
    assert torchrun.local_size == 4
    srun = launched({"PMIX_RANK": "3", "SLURM_STEP_NUM_TASKS": "6"})
    assert (srun.launcher, srun.engine, srun.rank, srun.size) == ("srun", "mpi", 3, 6)


def test_engines_refuse_the_wrong_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pm.InputError, match="torchrun --nproc-per-node 4"):
        pm.connect(pm.graphs.ring(4), "torch")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(pm.InputError, match="torchrun started this process"):
        pm.connect(pm.graphs.ring(4), "mpi")


def test_no_mpi4py_names_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(pm.InputError, match=re.escape("pip install 'proxmesh[mpi]'")):
        mpi.require_mpi()


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("no.such.host.invalid", "does not resolve"),
        ("", "MASTER_ADDR is ``"),
        ("127.0.0.1", "is in use"),
    ],
)
def test_a_meeting_point_that_cannot_be(
    host: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for name, value in {
            "RANK": "0",
            "WORLD_SIZE": "2",
            "MASTER_ADDR": host,
            "MASTER_PORT": str(port),
        }.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(pm.InputError, match=words):
            meeting.open_store(timedelta(seconds=2))


def test_an_optimizer_needs_a_process_for_each_agent() -> None:
    import torch

    model = torch.nn.Linear(2, 1)
    with pytest.raises(pm.InputError, match="a process for each agent"):
        pm.optim.HSMADMM(model.parameters(), graph=pm.graphs.ring(4))
    with pytest.raises(pm.InputError, match="c_roh"):
        pm.optim.HSMADMM(model.parameters(), pm.graphs.ring(4), c_roh=1)  # type: ignore[call-arg]


def test_blocks_cut_few_edges() -> None:
    assert place(pm.graphs.ring(64), 4).cut == 4
    assert place(pm.graphs.grid(64), 4).cut == 16
    shuffled = pm.graphs.from_edges([(i * 7 % 32, (i + 1) * 7 % 32) for i in range(32)])
    assert place(shuffled, 2).cut == 2  # a ring whose numbers hide it
    one_each = place(pm.graphs.star(5), 5)
    assert one_each.blocks == ((0,), (1,), (2,), (3,), (4,))
    assert one_each.crossing_rows == 8
    hub = place(pm.graphs.star(9), 3)
    assert hub.sent(0, 1) == (0,)  # three edges want it, one row goes
    with pytest.raises(pm.InputError, match="Start 4 processes or fewer"):
        place(pm.graphs.ring(4), 5)
    assert free_port() > 0
