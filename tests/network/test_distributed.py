"""The engines `mpi` and `torch`, run for real: parity, stress, failure, privacy."""

import functools
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import worker as program
from ranks import ENGINES, Ended, Ranks, run_ranks, worker

from proxmesh.algorithms import ALGORITHMS

pytestmark = pytest.mark.ranks
EVERYTHING = "PROXMESH_FULL_PARITY" in os.environ  # every graph on every rank count
GRAPHS = {
    ("mpi", 2): "barabasi-albert",
    ("mpi", 4): "star",
    ("torch", 1): "ring",
    ("torch", 2): "star",
    ("torch", 3): "barabasi-albert",
    ("torch", 4): "ring",
}
if EVERYTHING:
    GRAPHS |= {("mpi", 1): "ring", ("mpi", 3): "ring"}


@functools.cache
def simulated(graph: str, name: str) -> Any:
    return program.solved(graph, name, engine="simulated")


@pytest.mark.parametrize(("engine", "size"), GRAPHS)
def test_every_method_agrees_with_the_simulation(
    engine: str, size: int, tmp_path: Path
) -> None:
    graphs = ",".join(program.GRAPHS) if EVERYTHING else GRAPHS[engine, size]
    run_ranks(engine, size, worker("parity", graphs), tmp_path)
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(size)]
    held = sorted(a for part in found for a in next(iter(part.values()))["agents"])
    assert held == list(range(program.AGENTS))
    assert len(found[0]) == len(ALGORITHMS) * len(graphs.split(","))
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
    ("engine", "how"),
    [
        ("mpi", "freeze"),
        ("mpi", "raise"),
        ("torch", "freeze"),
        ("torch", "raise"),
    ],
)
def test_survivors_of_a_lost_rank_name_it_and_leave(
    engine: str, how: str, tmp_path: Path
) -> None:
    begin = time.monotonic()
    why = "ValueError: the disk is full" if how == "raise" else "was silent for 3 s"
    ranks = Ranks(engine, 4, worker("lose", how), tmp_path)
    ended = ranks.ended(without=[1])
    assert time.monotonic() - begin < (3 + 5) + 30  # 30 to start and get there
    for end in ended:
        line = said(end)
        # mpiexec returns the code of the first to go: rank 1 itself, if it can.
        assert end.code == (1 if (engine, how) == ("mpi", "raise") else 3), end.err
        assert "rank 1 (agent 1)" in line
        assert "after iteration 20" in line or "after iteration 2" in line
        assert why in line
        assert "start all ranks again" in line.lower()


def test_a_dead_rank_of_torch_is_named_at_once(tmp_path: Path) -> None:
    ended = Ranks("torch", 3, worker("lose", "die"), tmp_path).ended(without=[1])
    for end in ended:
        assert end.code == 3, end.err
        assert re.search(r"rank 1 \(agent 2\) was (lost|silent)", said(end)), end.err


def said(end: Ended) -> str:
    """The one line of ours; a script's rank prints nothing else to stderr."""
    lines = [line for line in end.err.splitlines() if line.startswith("proxmesh: ")]
    assert len(lines) == 1, end.err
    return lines[0]


MODES = "late+stress+traffic+diverge+going_on+automatic+scripts+differ+alone"


@pytest.mark.parametrize("engine", ENGINES)
def test_what_ranks_do_together(engine: str, tmp_path: Path) -> None:
    """Each mode of the worker asserts; what it leaves behind is looked at here."""
    run_ranks(engine, 3, worker(MODES), tmp_path)
    all_stop_at_the_same_iteration(tmp_path)
    what_differs_is_named(tmp_path)
    agents_report_for_themselves(tmp_path / "run")


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


def test_the_optimizer_makes_the_same_iterates(tmp_path: Path) -> None:
    run_ranks("torch", program.AGENTS, worker("optimizer"), tmp_path)
    found = {f.read_text() for f in tmp_path.glob("*.constants")}
    assert len(found) == 1


def test_compiled_gradients_change_nothing_but_the_speed(tmp_path: Path) -> None:
    run_ranks("torch", 2, worker("compiled"), tmp_path)
