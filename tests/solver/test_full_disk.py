"""A disk that is full, or gone, in the middle of a run."""

import os
import shutil
import subprocess
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from zoo import ROUND, classifier

import proxmesh as pm
from proxmesh.solver.checkpoint import checkpoints_in


def solved(out: Path, **more: Any) -> pm.Result:
    return pm.solve(
        classifier(),
        ROUND,
        pm.graphs.star(4),
        out=out,
        **{"steps": 60, "eval_every": 5, "checkpoint_every": 10, **more},
    )


def ended(out: Path) -> str:
    """How a run ended, or what it said."""
    try:
        return str(solved(out).outcome)
    except pm.InputError as error:
        return str(error)


@pytest.mark.parametrize("disk", [4, 24, 60, 100], indirect=True)
def test_a_full_disk_is_one_line_and_nothing_half_written(disk: Path) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", pm.Notice)
        end = ended(disk / "run")
    assert end == "finished" or "No space left" in end
    assert "\n" not in end
    for notice in told:
        assert "\n" not in str(notice.message)
    for file in disk.rglob("*.csv"):
        lines = file.read_text().splitlines()
        assert len({line.count(",") for line in lines}) <= 1, "a line was cut"
    assert not list(disk.rglob("*.new"))
    for path in checkpoints_in(disk / "run" / "checkpoint"):
        assert (path / "manifest.json").exists()


@pytest.mark.parametrize("disk", [300], indirect=True)
def test_the_last_good_checkpoint_stands_and_the_run_goes_on(disk: Path) -> None:
    filler = disk / "filler"

    def fill(row: Any, state: Any) -> None:
        del state
        if row["iteration"] == 30:
            with filler.open("wb", buffering=0) as opened, suppress(OSError):
                while True:
                    opened.write(b"x" * 4096)

    with (
        pytest.warns(pm.Notice, match="could not be written: .*No space left"),
        pytest.raises(pm.InputError, match=r"could not be written: .*proxmesh resume"),
    ):
        solved(disk / "run", callbacks=[fill])
    assert checkpoints_in(disk / "run" / "checkpoint")
    filler.unlink()
    found = pm.resume(disk / "run", classifier())
    expected = pm.solve(
        classifier(), ROUND, pm.graphs.star(4), steps=60, eval_every=5
    ).history
    ours = found.history.drop(columns="seconds")
    assert ours.equals(expected.drop(columns="seconds"))


def test_a_folder_that_vanishes_does_not_end_the_run(tmp_path: Path) -> None:
    seen: list[float] = []

    def remove(row: Any, state: Any) -> None:
        del state
        seen.append(row["iteration"])
        if row["iteration"] == 20:
            shutil.rmtree(tmp_path / "run")

    with (
        pytest.warns(pm.Notice, match="No such file or directory"),
        pytest.raises(pm.InputError, match="No such file or directory"),
    ):
        solved(tmp_path / "run", callbacks=[remove])
    assert seen[-1] == 60, "the run went on to its end"


@pytest.mark.parametrize("disk", [2000], indirect=True)
def test_a_disk_that_becomes_read_only(disk: Path) -> None:
    """As a disk with errors does; the run goes on, and from its checkpoint later."""
    seen: list[float] = []

    def protect(row: Any, state: Any) -> None:
        del state
        seen.append(row["iteration"])
        if row["iteration"] == 30:
            protect_from_writing(disk)

    with (
        pytest.warns(pm.Notice, match="Read-only file system") as told,
        pytest.raises(pm.InputError, match=r"Read-only .*proxmesh resume"),
    ):
        solved(disk / "run", callbacks=[protect])
    assert seen[-1] == 60, "the run went on to its end"
    assert all("\n" not in str(notice.message) for notice in told)
    subprocess.run(["umount", str(disk)], check=True)
    found = pm.resume(disk / "run", classifier())
    assert found.history["iteration"].iloc[-1] == 60


def protect_from_writing(disk: Path) -> None:
    """Lay a read-only view over it: what is open stays open, as on a broken disk."""
    subprocess.run(["mount", "--bind", str(disk), str(disk)], check=True)
    view = ["mount", "-o", "remount,bind,ro", str(disk)]
    subprocess.run(view, check=True)


def test_a_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set back by a day, then on by a year, as when a machine first hears the time."""
    real, shift = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + shift[0])

    def jump(row: Any, state: Any) -> None:
        del state
        shift[0] = {20: -86_400.0, 40: 3.15e7}.get(int(row["iteration"]), shift[0])
        if row["iteration"] == 45:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        solved(tmp_path / "run", callbacks=[jump])
    found = [int(path.name) for path in checkpoints_in(tmp_path / "run" / "checkpoint")]
    assert found[0] == 40, "the newest is the furthest, whatever its date"
    os.utime(tmp_path / "run" / "checkpoint" / "000000040", (0, 0))
    result = pm.resume(tmp_path / "run", classifier())
    seconds = result.history["seconds"]
    assert result.history["iteration"].iloc[-1] == 60
    assert seconds.is_monotonic_increasing
    assert seconds.iloc[-1] < 60


class PowerCutError(Exception):
    """Ends a run as if its machine had lost power."""
