"""What an earlier version has written is still read."""

from pathlib import Path

import pytest
import torch

import proxmesh as pm
from proxmesh.report.runs import collect
from proxmesh.runs.build import build
from proxmesh.runs.config import flattened, load_config
from proxmesh.solver.folder import RunFolder

EARLIER = sorted(Path(__file__).parent.glob("version-*"))


@pytest.mark.parametrize("folder", EARLIER, ids=lambda folder: folder.name)
def test_a_run_folder_is_read_and_run_again(folder: Path, tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float32)
    earlier = RunFolder(folder)
    assert earlier.is_whole()
    (run,) = collect([folder])
    assert run.label == "hsm-admm"
    result = build(load_config(folder / "config.toml")).prepare(tmp_path / "run").go()
    assert result.outcome is pm.Outcome.FINISHED
    before, now = earlier.history(), result.history
    assert list(before) == list(now)
    for name in before:
        if name != "seconds":  # equal to the rounding of another machine
            assert now[name].tolist() == pytest.approx(before[name].tolist(), rel=1e-6)
    kept = flattened(RunFolder(tmp_path / "run").config())
    for key, value in flattened(earlier.config()).items():  # there may be new options
        assert kept[key] == value, key


def test_there_is_one() -> None:
    assert EARLIER
