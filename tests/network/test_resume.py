"""Checkpoints of several ranks: on any number of them, and after a real restart."""

import os
import random
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from ranks import (
    AS_ROOT,
    MPI_FLAGS,
    MPIEXEC,
    PYTHON,
    Ranks,
    clean_environment,
    free_port,
    proxmesh,
)

from proxmesh.cli import main
from proxmesh.solver.checkpoint import checkpoints_in
from proxmesh.solver.folder import RunFolder

TASK = ["--dataset", "breast-cancer", "--model", "logistic", "--agents", "6"]
TASK += ["--dtype", "float64", "--compile", "off", "--threads", "1"]
STEPS = ["--steps", "600", "--eval-every", "100", "--checkpoint-every", "50"]
TIMES = ["seconds"]


def cut_off(engine: str, size: int, out: Path, folder: Path) -> None:
    """Kill one rank once there are checkpoints; the others go by themselves."""
    command = proxmesh("run", *TASK, *STEPS, "--out", out, "--timeout", "20")
    command[command.index("600")] = "200000"  # longer than anybody waits
    ranks = Ranks(engine, size, command, folder)
    deadline = time.monotonic() + 90
    while len(checkpoints_in(out / "checkpoint")) < 2:
        assert time.monotonic() < deadline, ranks.said()
        time.sleep(0.02)
    os.kill(ranks.pids()[1], signal.SIGKILL)
    ranks.ended()


def close(ours: Path, theirs: pd.DataFrame) -> None:
    """Reductions over ranks add in another order: equal to rounding."""
    history = pd.read_csv(ours / "history.csv").drop(columns=TIMES)
    expected = theirs.drop(columns=TIMES)
    assert list(history) == list(expected)
    ours_, theirs_ = history.to_numpy(), expected.to_numpy()
    assert ours_.shape == theirs_.shape
    np.testing.assert_allclose(ours_, theirs_, rtol=1e-10, atol=1e-10)


def close_up(ours: Path, theirs: Path) -> None:
    """Every agent's numbers and the first layer, too."""
    here, there = RunFolder(ours), RunFolder(theirs)
    agents, expected = here.agents(), there.agents()
    assert agents is not None
    assert expected is not None
    assert set(expected["agent"]) == set(range(6))
    written = 1e-6  # digits in the file
    found = agents.to_numpy()
    np.testing.assert_allclose(found, expected.to_numpy(), written, 1e-12)
    layers = here.first_layer(), there.first_layer()
    assert layers[0] is not None
    assert layers[1] is not None
    assert layers[0].iterations == layers[1].iterations
    assert np.abs(layers[0].density - layers[1].density).max() < 0.1


@pytest.mark.ranks
def test_checkpoints_of_three_ranks_go_on_anywhere(tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float32)  # as a command is started
    cut_off("torch", 3, tmp_path / "run", tmp_path / "three")
    place = tmp_path / "run" / "checkpoint"
    newest = checkpoints_in(place)[0]
    names = sorted(file.name for file in newest.iterdir())
    assert names == ["manifest.json", *(f"rank-{r}.safetensors" for r in range(3))]
    steps = (int(newest.name) // 100 + 2) * 100
    more = ["--steps", str(steps), "--quiet"]
    config = tmp_path / "run" / "config.toml"  # a plan of 200,000 cannot be lowered
    text = config.read_text().replace("steps = 200000", f"steps = {steps}")
    config.write_text(text)
    with pytest.raises(SystemExit) as end:
        main(["run", *TASK, *STEPS[2:], "--out", str(tmp_path / "whole"), *more])
    assert end.value.code == 0
    expected = pd.read_csv(tmp_path / "whole" / "history.csv")

    copy = tmp_path / "alone"
    subprocess.run(["cp", "-r", tmp_path / "run", copy], check=True)
    with pytest.raises(SystemExit) as end:
        main(["resume", str(copy), *more])
    assert end.value.code == 0
    close(copy, expected)
    close_up(copy, tmp_path / "whole")

    command = proxmesh("resume", tmp_path / "run", *more)
    ended = Ranks("torch", 2, command, tmp_path / "two").ended()
    assert [e.code for e in ended] == [0, 0], [e.err for e in ended]
    close(tmp_path / "run", expected)
    close_up(tmp_path / "run", tmp_path / "whole")


@pytest.mark.ranks
def test_torchrun_restarts_and_the_run_goes_on(tmp_path: Path) -> None:
    """A rank is killed, torchrun starts all again: nobody lends a hand."""
    out = tmp_path / "run"
    command = [PYTHON.with_name("torchrun"), "--nproc-per-node", "2"]
    command += ["--max-restarts", "2", "--master-port", str(free_port())]
    command += ["-m", "proxmesh", "run", *TASK, *STEPS, "--out", out]
    command += ["--resume", "auto", "--timeout", "40"]
    words = [str(word).replace("600", "1500") for word in command]
    environment = {**clean_environment(), **AS_ROOT, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        words,
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as launcher:
        deadline = time.monotonic() + 90
        while not checkpoints_in(out / "checkpoint"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(children(launcher.pid)[-1], signal.SIGKILL)
        said, _ = launcher.communicate(timeout=180)
    assert launcher.returncode == 0, said
    assert re.search(r"going on after iteration \d+", said), said
    assert pd.read_csv(out / "history.csv")["iteration"].tolist()[-1] == 1500


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["mpi", "torch"])
def test_twenty_kills_under_a_launcher(engine: str, tmp_path: Path) -> None:
    """A rank is killed again and again; the run is the one that nobody touched."""
    chance, waits = random.Random(0), []
    steps = ["--steps", "20000", "--eval-every", "1000", "--checkpoint-every", "100"]
    run = ["run", *TASK, *steps, "--resume", "auto", "--timeout", "40"]
    out = tmp_path / "killed"
    place = out / "checkpoint"
    launcher = launch(engine, [*run, "--out", str(out)], tmp_path)
    for _ in range(20):
        before, wanted = newest(place), chance.randint(1, 4)
        since = time.monotonic()
        while newest(place) < before + 100 * wanted:
            assert time.monotonic() < since + 120
            if engine == "mpi" and launcher.poll() is not None:  # it starts nobody
                launcher = launch(engine, [*run, "--out", str(out)], tmp_path)
            time.sleep(0.005)
        waits.append(time.monotonic() - since)
        time.sleep(chance.uniform(0, 0.05))
        os.kill(chance.choice(ranks_of(launcher)), signal.SIGKILL)
        if engine == "mpi":
            launcher.wait(60)
    if engine == "mpi":
        launcher = launch(engine, [*run, "--out", str(out)], tmp_path)
    assert launcher.wait(300) == 0, (tmp_path / "said.txt").read_text()[-2000:]
    untouched = [*run, "--out", str(tmp_path / "whole")]
    assert launch(engine, untouched, tmp_path).wait(300) == 0
    ours, theirs = (
        pd.read_csv(folder / "history.csv").drop(columns=TIMES)
        for folder in (out, tmp_path / "whole")
    )
    pd.testing.assert_frame_equal(ours, theirs, check_exact=True)
    print(f"{engine}: 20 of 20 kills, {np.median(waits[1:]):.1f} s to new checkpoints")


def newest(place: Path) -> int:
    return max((int(path.name) for path in checkpoints_in(place)), default=0)


def launch(engine: str, words: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    if engine == "mpi":
        command = [MPIEXEC, *MPI_FLAGS, "-n", "2", PYTHON, "-m", "proxmesh"]
    else:
        command = [PYTHON.with_name("torchrun"), "--nproc-per-node", "2"]
        command += ["--max-restarts", "30", "--master-port", str(free_port())]
        command += ["-m", "proxmesh"]
    with (folder / "said.txt").open("ab") as said:
        return subprocess.Popen(
            [str(word) for word in (*command, *words)],
            env={**clean_environment(), **AS_ROOT, "OMP_NUM_THREADS": "1"},
            cwd=folder,
            stdout=said,
            stderr=said,
        )


def ranks_of(launcher: "subprocess.Popen[bytes]") -> list[int]:
    """Its ranks: of the processes below it, those that run proxmesh."""
    found, below = [], children(launcher.pid)
    while below:
        pid = below.pop()
        with suppress(OSError):
            below += children(pid)
            if b"proxmesh" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def children(pid: int) -> list[int]:
    """Processes that this one has started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]
