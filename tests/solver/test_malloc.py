import os
from typing import Any

import pytest
import torch

from proxmesh.launchers import cores, threads_allowed
from proxmesh.runs.build import build
from proxmesh.runs.config import load_config


def test_cores_are_what_is_allowed_and_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allowed = len(os.sched_getaffinity(0))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert cores() == threads_allowed() == allowed
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert (cores(), threads_allowed()) == (allowed, 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert threads_allowed() == allowed


@pytest.mark.parametrize(
    ("flags", "threads"),
    [
        ({"data.name": "breast-cancer", "run.batch": 8}, 1),
        ({"data.name": "a9a"}, 2),
        ({"data.name": "a9a", "graph.agents": 64}, 7),
        ({"data.name": "a9a", "graph.agents": 64, "run.threads": 1}, 1),
    ],
)
def test_a_run_takes_the_threads_that_have_work(
    flags: dict[str, Any], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_default_dtype(torch.float32)
    monkeypatch.setattr("proxmesh.runs.build.threads_allowed", lambda: 7)
    built = build(load_config(None, flags))
    assert built.tree()["run"]["threads"] == threads
    assert torch.get_num_threads() == threads
    torch.set_num_threads(1)
