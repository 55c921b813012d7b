"""The engines `mpi` and `torch`, run for real: parity, stress, failure, privacy."""

import functools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import worker as program
from ranks import ENGINES, Ended, Ranks, run_ranks, worker

from proxmesh.algorithms import ALGORITHMS

pytestmark = pytest.mark.ranks
SECONDS_TO_LEAVE = 3 + 5  # the timeout that the worker gives, and what is promised
SLACK = 4  # seconds, for a machine with more ranks than cores
EVERYTHING = "PROXMESH_FULL_PARITY" in os.environ  # every graph on every rank count
TOGETHER = (
    "late+stress+traffic+diverge+going_on+automatic+lazy+sparse+dropping+links+scripts"
    "+differ+packed+clocked+alone"
)
# What the ranks of one start do, one thing after another: most of a start is imports.
# A loss of ranks comes last.
STARTS = {
    ("mpi", 2): "parity:barabasi-albert+lose:raise",
    ("mpi", 3): f"parity:ring+{TOGETHER}+own_files+broken_file",
    ("mpi", 4): "parity:star+lose:freeze",
    ("torch", 1): "parity:ring",
    ("torch", 2): "parity:star+lose:raise",
    ("torch", 3): f"parity:barabasi-albert+{TOGETHER}+own_files+broken_file",
    ("torch", 4): "parity:ring+lose:freeze",
}
if EVERYTHING:
    STARTS = {
        key: re.sub(r"^parity:[^+]+", f"parity:{','.join(program.GRAPHS)}", errands)
        for key, errands in {("mpi", 1): "parity:ring", **STARTS}.items()
    }
GONE = {("mpi", 2), ("mpi", 4), ("torch", 2), ("torch", 4)}  # where rank 1 is lost


@dataclass(frozen=True)
class Left:
    """What the ranks of one start left behind."""

    folder: Path
    ended: list[Ended]  # of all, or of all but rank 1 where it is lost


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Left]:
    """Start so many ranks of an engine, once for all tests that ask for them."""

    @functools.cache
    def started(engine: str, size: int) -> Left:
        folder = tmp_path_factory.mktemp(f"{engine}-{size}")
        files_of_agents(folder / "data")
        files_of_agents(folder / "broken")
        (folder / "broken" / "agent-4.npz").write_text("junk")
        ranks = Ranks(engine, size, worker(STARTS[engine, size]), folder)
        lost = [1] if (engine, size) in GONE else []
        return Left(folder, ranks.ended(without=lost, timeout=180))

    return started


def files_of_agents(folder: Path) -> None:
    folder.mkdir()
    draw = np.random.default_rng(0)
    for agent in range(6):
        x = draw.normal(size=(20 + agent, 4))
        np.savez(folder / f"agent-{agent}.npz", x=x, y=(x[:, 0] > 0) + 1)
    np.savez(folder / "test.npz", x=x, y=(x[:, 0] > 0) + 1)


@functools.cache
def simulated(graph: str, name: str) -> Any:
    return program.solved(graph, name, engine="simulated")


def test_every_method_is_dealt_to_some_ranks() -> None:
    assert {n for ranks in (2, 3, 4) for n in program.dealt(ranks)} == set(ALGORITHMS)


@pytest.mark.parametrize(("engine", "size"), STARTS)
def test_every_method_agrees_with_the_simulation(
    engine: str, size: int, start: Callable[[str, int], Left]
) -> None:
    left = start(engine, size)
    files = [left.folder / f"{rank}.pt" for rank in range(size)]
    assert all(f.exists() for f in files), [e.err[-1500:] for e in left.ended]
    found = [torch.load(file) for file in files]
    held = sorted(a for part in found for a in next(iter(part.values()))["agents"])
    assert held == list(range(program.AGENTS))
    graphs = program.GRAPHS if EVERYTHING else {graph for graph, _ in found[0]}
    assert set(found[0]) == {(g, name) for g in graphs for name in program.dealt(size)}
    for graph, name in found[0]:
        expected = simulated(graph, name)
        history = torch.tensor(expected.history.drop(columns="seconds").to_numpy())
        for part in found:
            mine = part[graph, name]
            rows = expected.state.x[mine["agents"]]
            torch.testing.assert_close(mine["x"], rows, rtol=0, atol=1e-10)
            assert mine["columns"] == list(expected.history)
            torch.testing.assert_close(mine["history"], history, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("engine", "size", "lost", "why"),
    [
        ("mpi", 4, "rank 1 (agent 1)", "was silent for 3 s"),
        ("mpi", 2, "rank 1 (agents 2-3)", "ValueError: the disk is full"),
        ("torch", 4, "rank 1 (agent 1)", "was silent for 3 s"),
        ("torch", 2, "rank 1 (agents 2-3)", "ValueError: the disk is full"),
    ],
    ids=["mpi-freeze", "mpi-raise", "torch-freeze", "torch-raise"],
)
def test_survivors_of_a_lost_rank_name_it_and_leave(
    engine: str, size: int, lost: str, why: str, start: Callable[[str, int], Left]
) -> None:
    left = start(engine, size)
    assert len(left.ended) == size - 1
    for end in left.ended:
        line = said(end)
        # mpiexec returns the code of the first to go: rank 1 itself, if it can.
        assert end.code == (1 if (engine, size) == ("mpi", 2) else 3), end.err
        assert lost in line
        assert "after iteration 20" in line or "after iteration 2" in line
        assert why in line
        assert "start all ranks again" in line.lower()
    accident = (left.folder / "accident").stat().st_mtime
    for rank in range(size):
        spoke = (left.folder / f"{rank}.err").stat().st_mtime
        assert rank == 1 or spoke - accident < SECONDS_TO_LEAVE + SLACK


def test_a_dead_rank_of_torch_is_named_at_once(tmp_path: Path) -> None:
    ended = Ranks("torch", 3, worker("lose:die"), tmp_path).ended(without=[1])
    for end in ended:
        assert end.code == 3, end.err
        assert re.search(r"rank 1 \(agent 2\) was (lost|silent)", said(end)), end.err


def said(end: Ended) -> str:
    """The one line of ours; a script's rank prints nothing else to stderr."""
    lines = [line for line in end.err.splitlines() if line.startswith("proxmesh: ")]
    assert len(lines) == 1, end.err
    return lines[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_ranks_do_together(engine: str, start: Callable[[str, int], Left]) -> None:
    """Each errand of the worker asserts; what it leaves behind is looked at here."""
    left = start(engine, 3)
    # The last errand ends them; mpiexec returns the code of the first to go.
    codes = [2, 2, 2] if engine == "mpi" else [3, 3, 2]
    assert [e.code for e in left.ended] == codes, [e.err[-1500:] for e in left.ended]
    all_stop_at_the_same_iteration(left.folder)
    what_differs_is_named(left.folder)
    agents_report_for_themselves(left.folder / "run")


def all_stop_at_the_same_iteration(folder: Path) -> None:
    outcomes = {(folder / f"{rank}.outcome").read_text() for rank in range(3)}
    assert len(outcomes) == 1
    assert re.match(r"diverged at iteration \d+, first at agent 2", outcomes.pop())


def what_differs_is_named(folder: Path) -> None:
    for what, words in {
        "seed": "another seed than rank 0: `1`, not `0`",
        "graph": "another graph than rank 0: `star(n=4), edges",
        "steps": "another steps than rank 0: `7`, not `5`",
        "method": "another algorithm than rank 0: `HSMADMM(c_rho=0.1",
        "model": "another number of parameters than rank 0: `62`, not `101`",
    }.items():
        for rank in range(3):
            said = (folder / f"{rank}.{what}").read_text()
            assert f"rank 1 was started with {words}" in said


def agents_report_for_themselves(folder: Path) -> None:
    found = sorted(file.name for file in (folder / "agents").iterdir())
    kinds = ("csv", "safetensors")
    assert found == sorted(f"{i}.{kind}" for i in range(4) for kind in kinds)
    assert not (folder / "history.csv").exists()
    assert (folder / "summary.json").exists()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rank_with_a_fault_of_its_own_says_so_and_the_others_refer_to_it(
    engine: str, start: Callable[[str, int], Left]
) -> None:
    *others, culprit = [
        [line for line in end.err.splitlines() if line.startswith("error: ")]
        for end in start(engine, 3).ended
    ]
    assert len(culprit) == 1
    assert "rank 2: dataset" in culprit[0]
    assert "agent-4.npz` is not a plain .npz" in culprit[0]
    for lines in others:
        (line,) = lines
        why = "rank 2 (agents 4-5) has stopped: bad input, see its own message."
        assert why in line


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rank_opens_the_files_of_its_own_agents_only(
    engine: str, start: Callable[[str, int], Left]
) -> None:
    folder = start(engine, 3).folder
    for rank in range(3):
        opened = (folder / f"{rank}.opened").read_text().split()
        mine = {f"agent-{agent}.npz" for agent in (2 * rank, 2 * rank + 1)}
        assert {Path(name).name for name in opened} - {"data", "test.npz"} == mine
    history = pd.read_csv(folder / "own-files" / "history.csv")
    assert history["train_loss"].iloc[-1] < history["train_loss"].iloc[0]
    assert "test_accuracy" in history
    assert 'name = "per-agent"' in (folder / "own-files" / "config.toml").read_text()


def test_the_optimizer_makes_the_same_iterates(tmp_path: Path) -> None:
    run_ranks("torch", program.AGENTS, worker("optimizer+door"), tmp_path)
    found = {f.read_text() for f in tmp_path.glob("*.constants")}
    assert len(found) == 1


def test_compiled_gradients_change_nothing_but_the_speed(tmp_path: Path) -> None:
    run_ranks("torch", 2, worker("compiled"), tmp_path)
