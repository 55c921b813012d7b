"""Threads sleep while they wait, and a run goes on with fewer where they only wait."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import proxmesh as pm
from proxmesh.solver.threads import TOO_LONG, ThreadWatch, delay


def policy(**given: str) -> str:
    """What OpenMP is told by a process that imports proxmesh first."""
    names = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}
    plain = {k: v for k, v in os.environ.items() if k not in names}
    program = (
        "import os, sys, proxmesh; assert 'torch' not in sys.modules;"
        "print(os.environ.get('OMP_WAIT_POLICY'))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**plain, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip()


def test_waiting_threads_sleep_unless_the_user_has_decided() -> None:
    assert policy() == "passive"
    assert policy(OMP_WAIT_POLICY="active") == "active"
    assert policy(GOMP_SPINCOUNT="100") == "None"


def prepared(**keywords: object) -> pm.Run:
    shards = [(torch.randn(20, 3), torch.arange(20) % 2) for _ in range(4)]
    problem = pm.LearningProblem(nn.Linear(3, 2), nn.functional.cross_entropy, shards)
    algorithm, graph = pm.DSGT(alpha=0.1), pm.graphs.ring(4)
    return pm.prepare(problem, algorithm, graph, steps=4, **keywords)  # type: ignore[arg-type]


def test_a_run_goes_on_with_fewer_threads_and_says_so(tmp_path: Path) -> None:
    run = prepared(out=tmp_path / "run", compile=False)
    torch.set_num_threads(4)
    run.threads = ThreadWatch(may_lower=True, delay=lambda n: 2 * TOO_LONG * (n > 2))
    with pytest.warns(pm.Notice, match="from iteration 1 on 2 of 4 threads"):
        result = run.go()
    assert torch.get_num_threads() == 2
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["notes"] == list(result.notes)
    assert summary["machine"]["threads"] == 2


def test_the_number_that_was_asked_for_stays() -> None:
    run = prepared(threads=2)
    assert torch.get_num_threads() == 2
    assert not run.threads.may_lower
    assert run.go().summary().get("notes") is None


def test_a_pause_is_no_reason() -> None:
    torch.set_num_threads(2)
    found = iter([2 * TOO_LONG, 1.0])
    watch = ThreadWatch(may_lower=True, delay=lambda _: next(found))
    watch.look()
    assert torch.get_num_threads() == 2
    assert next(found, None) is None


def test_measuring_leaves_the_number_of_threads() -> None:
    torch.set_num_threads(2)
    assert delay(1) < TOO_LONG
    assert torch.get_num_threads() == 2
