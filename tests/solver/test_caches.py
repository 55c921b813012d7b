"""Cache folders that cannot be written: a run does without them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import clean_environment

from proxmesh.data import download
from proxmesh.errors import Notice

NOWHERE = "/dev/null/cache"  # nobody can make a folder below a device, not even root
PROGRAM = """
import proxmesh as pm
from torch import nn
data = pm.datasets.digits()
problem = pm.LearningProblem(
    pm.models.mlp(64, 10), nn.functional.cross_entropy, data.split(3))
run = pm.solve(problem, pm.HSMADMM(), pm.graphs.ring(3), steps=4, compile=True)
print(run.outcome)
"""


@pytest.mark.long
def test_a_run_needs_no_cache(tmp_path: Path) -> None:
    names = ("HOME", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "MPLCONFIGDIR")
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**clean_environment(), **dict.fromkeys(names, NOWHERE)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "finished\n"
    assert "the step runs uncompiled: torch's cache folder" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not os.listdir(tmp_path)


def test_fetched_files_that_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "cache_folder", lambda: Path(NOWHERE))
    with pytest.warns(Notice, match="cannot be kept in .*XDG_CACHE_HOME"):
        download._keep(download.MNIST, [b"1", b"2", b"3", b"4"])
