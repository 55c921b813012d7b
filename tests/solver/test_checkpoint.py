"""Nothing is lost: a run that was cut off ends as if it had not been."""

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from zoo import ROUND, classifier, method

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS
from proxmesh.solver import durable
from proxmesh.solver.checkpoint import Checkpoint, checkpoints_in
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.lock import FolderLock, holder_of
from proxmesh.solver.method_as_text import as_written, from_written
from proxmesh.solver.resuming import newest_whole
from proxmesh.solver.saving import Interval

FIXTURE = Path(__file__).parent / "checkpoint-format-1"


class PowerCutError(Exception):
    """Ends a run without a word."""


def power_cut(at: int) -> Callable[[Any, Any], None]:
    def cut(row: Any, state: Any) -> None:
        del state
        if row["iteration"] >= at:
            raise PowerCutError

    return cut


def same_history(ours: pd.DataFrame, theirs: pd.DataFrame) -> None:
    """All columns but the times agree to the bit."""
    pd.testing.assert_frame_equal(
        ours.drop(columns="seconds"), theirs.drop(columns="seconds"), check_exact=True
    )


def cut_off(
    folder: Path, algorithm: Any, at: int = 40, every: int | str = 7, **more: Any
) -> None:
    with pytest.raises(PowerCutError):
        pm.solve(
            classifier(),
            algorithm,
            pm.graphs.star(4),
            out=folder,
            checkpoint_every=every,
            callbacks=[power_cut(at)],
            **{"steps": 60, "eval_every": 10, **more},
        )


def whole(algorithm: Any, **more: Any) -> pm.Result:
    graph = pm.graphs.star(4)
    arguments: Any = {"steps": 60, "eval_every": 10, **more}
    return pm.solve(classifier(), algorithm, graph, **arguments)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    cut_off(tmp_path / "run", method(name))
    found = pm.resume(tmp_path / "run", classifier())
    expected = whole(method(name))
    same_history(found.history, expected.history)
    assert torch.equal(found.state.x, expected.state.x)
    same_history(RunFolder(tmp_path / "run").history(), found.history)
    assert RunFolder(tmp_path / "run").summary()["outcome"] == "finished"


@pytest.mark.long
def test_found_constants_compiling_and_the_clock_are_kept(tmp_path: Path) -> None:
    cut_off(tmp_path / "run", pm.HSMADMM(), compile=True, monitor="theory")
    before = RunFolder(tmp_path / "run").history()["seconds"]
    found = pm.resume(tmp_path / "run", classifier())
    expected = whole(pm.HSMADMM(), compile=True, monitor="theory")
    same_history(found.history, expected.history)
    assert found.algorithm == expected.algorithm
    assert found.compiled
    assert found.monitor is not None
    assert expected.monitor is not None
    assert found.monitor.rows == expected.monitor.rows
    assert found.history["seconds"].tolist()[:4] == before.tolist()[:4]
    assert found.history["seconds"].is_monotonic_increasing


def test_agents_that_report_for_themselves_go_on(tmp_path: Path) -> None:
    run = pm.prepare(
        classifier(),
        ROUND,
        pm.graphs.star(4),
        steps=30,
        eval_every=10,
        evaluation="local",
        checkpoint_every=4,
        out=tmp_path / "run",
        observer=Cutting(after=25),
    )
    with pytest.raises(PowerCutError):
        run.go()
    found = pm.resume(tmp_path / "run", classifier())
    expected = whole(ROUND, steps=30, evaluation="local")
    same_history(found.history, expected.history)
    own = pd.read_csv(tmp_path / "run" / "agents" / "2.csv")
    assert own["iteration"].tolist() == [0, 10, 20, 30]


class Cutting:
    """An observer that ends the run after some steps."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_prepare(self, what: str) -> None:
        """Nothing to see here."""

    def on_compile(self, seconds: float) -> None:
        del seconds

    def on_row(self, row: Any) -> None:
        if row["iteration"] >= self.after:
            raise PowerCutError

    def on_step(self, k: int, seconds: float) -> None:
        del seconds
        if k >= self.after:
            raise PowerCutError


def test_a_run_from_a_state_counts_its_evaluations_from_there(tmp_path: Path) -> None:
    graph = pm.graphs.star(4)
    first = pm.solve(classifier(), ROUND, graph, steps=5)
    arguments: Any = {"state": first, "steps": 40, "eval_every": 10}
    expected = pm.solve(classifier(), ROUND, graph, **arguments)
    with pytest.raises(PowerCutError):
        pm.solve(
            classifier(),
            ROUND,
            graph,
            **arguments,
            out=tmp_path / "run",
            checkpoint_every=8,
            callbacks=[power_cut(25)],
        )
    same_history(pm.resume(tmp_path / "run", classifier()).history, expected.history)


@pytest.mark.parametrize("moment", range(6))
def test_an_interrupt_anywhere_loses_nothing(moment: int, tmp_path: Path) -> None:
    """Ctrl-C in a step, in an evaluation, in a callback, between them."""
    problem = classifier()
    calls = {"left": 3 + 2 * moment}

    def interrupting(inner: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls["left"] -= 1
            if calls["left"] == 0:
                raise KeyboardInterrupt
            return inner(*args, **kwargs)

        return call

    if moment % 2:
        problem.evaluate = interrupting(problem.evaluate)  # type: ignore[method-assign]
    else:
        problem.grad_pair = interrupting(problem.grad_pair)  # type: ignore[method-assign]
    graph = pm.graphs.star(4)
    arguments: Any = {"steps": 30, "eval_every": 3}
    stopped = pm.solve(problem, ROUND, graph, **arguments, out=tmp_path / "run")
    assert stopped.outcome == "interrupted"
    found = pm.resume(tmp_path / "run", classifier())
    same_history(found.history, whole(ROUND, **arguments).history)


def test_killed_at_any_moment_it_goes_on(tmp_path: Path) -> None:
    assert killed_again_and_again(tmp_path, times=8) > 0, "no kill fell into a write"


@pytest.mark.soak
def test_two_hundred_kills(tmp_path: Path) -> None:
    inside = killed_again_and_again(tmp_path, times=200)
    print(f"200 kills survived, {inside} of them during a write")
    assert inside >= 50


def killed_again_and_again(place: Path, times: int) -> int:
    """SIGKILL at random moments; how many fell into a write."""
    expected = whole(ROUND, steps=40, eval_every=5).history
    chance, inside = random.Random(0), 0
    for attempt in range(times):
        folder = place / str(attempt)
        inside += killed(folder, after=chance.uniform(0.0, 0.25))
        if not checkpoints_in(folder / "checkpoint") or RunFolder(folder).is_whole():
            continue  # too early, or too late
        with pytest.warns(pm.Notice, match="is gone"):
            found = pm.resume(folder, classifier())
        same_history(found.history, expected)
        assert not list((folder / "checkpoint").glob(".writing-*"))
    return inside


@pytest.mark.soak
def test_fifty_thousand_steps_grow_nothing(tmp_path: Path) -> None:
    """Memory, open files and threads stay flat; the history is whole."""
    seen: list[tuple[int, int, int]] = []

    def look(row: Any, state: Any) -> None:
        del row, state
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        files = len(os.listdir("/proc/self/fd"))
        seen.append((pages * 4096, files, len(os.listdir("/proc/self/task"))))

    result = pm.solve(
        classifier(),
        ROUND,
        pm.graphs.star(4),
        steps=50_000,
        eval_every=1000,
        out=tmp_path / "run",
        checkpoint_every=500,
        callbacks=[look],
    )
    assert len(RunFolder(tmp_path / "run").history()) == len(result.history) == 51
    first, last = seen[5], seen[-1]
    assert last[0] - first[0] < 8e6, "memory grew"
    assert last[1] <= first[1] + 1
    assert last[2] <= first[2] + 1


def killed(folder: Path, after: float) -> bool:
    """Kill a run; whether that left something half written."""
    child = os.fork()
    if child == 0:
        try:
            slow = durable.synced

            def slower(path: Path) -> None:
                time.sleep(0.003)
                slow(path)

            durable.synced = slower
            pm.solve(
                classifier(),
                ROUND,
                pm.graphs.star(4),
                steps=40,
                eval_every=5,
                out=folder,
                checkpoint_every=2,
            )
        finally:
            os._exit(0)
    deadline = time.monotonic() + 20
    while not (folder / "history.csv").exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return bool(list(folder.rglob(".writing-*")) or list(folder.rglob("*.new")))


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def in_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES: dict[str, Callable[[Path, Path], Any]] = {
    "a bit of the rows": lambda new, _: flip(new / "rank-0.safetensors"),
    "a bit of the manifest": lambda new, _: flip(new / "manifest.json"),
    "rows cut short": lambda new, _: os.truncate(new / "rank-0.safetensors", 100),
    "manifest cut short": lambda new, _: os.truncate(new / "manifest.json", 100),
    "rows gone": lambda new, _: (new / "rank-0.safetensors").unlink(),
    "manifest gone": lambda new, _: (new / "manifest.json").unlink(),
    "rows of another iteration": lambda new, old: shutil.copy(
        old / "rank-0.safetensors", new / "rank-0.safetensors"
    ),
    "a folder in its place": lambda new, _: in_a_folder(new / "manifest.json"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over(damage: str, tmp_path: Path) -> None:
    cut_off(tmp_path / "run", ROUND)
    new, old = checkpoints_in(tmp_path / "run" / "checkpoint")
    DAMAGES[damage](new, old)
    with pytest.warns(pm.Notice, match="iteration 35 cannot be used") as told:
        found = pm.resume(tmp_path / "run", classifier())
    assert all("\n" not in str(notice.message) for notice in told)
    same_history(found.history, whole(ROUND).history)


def test_two_are_kept_and_one_at_the_end(tmp_path: Path) -> None:
    cut_off(tmp_path / "run", ROUND)
    place = tmp_path / "run" / "checkpoint"
    assert [int(p.name) for p in checkpoints_in(place)] == [35, 28]
    found = pm.resume(tmp_path / "run", classifier(), steps=80)
    assert found.final["iteration"] == 80
    assert int(checkpoints_in(place)[0].name) == 80
    same_history(found.history, whole(ROUND, steps=80).history)


def test_files_tell_everything_and_run_nothing(tmp_path: Path) -> None:
    cut_off(tmp_path / "run", ROUND)
    newest = checkpoints_in(tmp_path / "run" / "checkpoint")[0]
    names = sorted(file.name for file in newest.iterdir())
    assert names == ["manifest.json", "rank-0.safetensors"]
    rows = load_file(newest / "rank-0.safetensors")
    assert rows["x"].shape == (4, classifier().p)
    assert int(rows["k"]) == 35
    manifest = json.loads((newest / "manifest.json").read_text())
    assert manifest["format"] == 1
    assert manifest["files"][0]["agents"] == [0, 1, 2, 3]
    assert manifest["algorithm"]["name"] == "hsm-admm"


def test_a_copied_or_renamed_folder_goes_on(tmp_path: Path) -> None:
    cut_off(tmp_path / "run", ROUND)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    (tmp_path / "run").rename(tmp_path / "moved")
    for name in ("copy", "moved"):
        found = pm.resume(tmp_path / name, classifier())
        same_history(found.history, whole(ROUND).history)


def test_another_run_is_refused_with_the_difference(tmp_path: Path) -> None:
    cut_off(tmp_path / "run", ROUND)
    before = RunFolder(tmp_path / "run").history()
    other = classifier()
    other.seed = 5
    with pytest.raises(pm.InputError, match="its seed was 0, now it is 5"):
        pm.resume(tmp_path / "run", other)
    with pytest.raises(pm.InputError, match="its algorithm was HSMADMM"):
        pm.resume(tmp_path / "run", classifier(), algorithm=pm.HSMADMM(0.3, 0.5, 1.0))
    same_history(RunFolder(tmp_path / "run").history(), before)
    with pytest.raises(pm.InputError, match="holds no checkpoint"):
        pm.resume(tmp_path, classifier())


def test_a_checkpoint_of_this_release_is_read(tmp_path: Path) -> None:
    """Written once with version 0.1.0 and committed; every later one must read it."""
    shutil.copytree(FIXTURE, tmp_path / "run")
    found = pm.resume(tmp_path / "run", classifier())
    expected = whole(ROUND).history
    pd.testing.assert_frame_equal(
        found.history.drop(columns="seconds"),
        expected.drop(columns="seconds"),
        rtol=1e-6,
    )
    agents = RunFolder(tmp_path / "run").agents()
    assert agents is not None
    assert sorted(set(agents["iteration"])) == [40, 50, 60], "kept from there on"


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    cut_off(tmp_path / "run", ROUND)
    newest = checkpoints_in(tmp_path / "run" / "checkpoint")[0]
    manifest = json.loads((newest / "manifest.json").read_text())
    manifest |= {"format": 2, "version": "9.0"}
    (newest / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(pm.InputError, match=r"later version \(9.0\)"):
        pm.resume(tmp_path / "run", classifier())


def _says_the_same(content: bytes, text: str) -> bool:
    """Whether it is the same JSON: one space may have become another."""
    try:
        return bool(json.loads(content) == json.loads(text))
    except ValueError:
        return False


def test_hostile_manifests_are_refused(tmp_path: Path) -> None:
    cut_off(tmp_path / "run", ROUND)
    newest = checkpoints_in(tmp_path / "run" / "checkpoint")[0]
    text = (newest / "manifest.json").read_text()
    chance = random.Random(1)
    for _ in range(300):
        content = bytearray(text.encode())
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        (newest / "manifest.json").write_bytes(content)
        if not _says_the_same(bytes(content), text):
            with pytest.raises(pm.InputError):
                Checkpoint.opened(newest)
    for hostile in ("[" * 100_000, "null", "3", '{"format": [], "sha256": 1}', ""):
        (newest / "manifest.json").write_text(hostile)
        with pytest.raises(pm.InputError):
            Checkpoint.opened(newest)


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "rank-0.safetensors/../x"])
def test_a_manifest_cannot_name_files_elsewhere(name: str, tmp_path: Path) -> None:
    from proxmesh.solver.checkpoint import RankFile

    del tmp_path
    with pytest.raises(ValueError, match="pattern"):
        RankFile(name=name, agents=[0], bytes=1, sha256="0" * 64)


def test_a_method_is_written_down_with_its_schedules() -> None:
    for name in ALGORITHMS:
        assert from_written(as_written(method(name))) == method(name)
    falling = pm.DPSGD(alpha=pm.schedules.power(0.5, -0.5))
    text = json.dumps(as_written(falling))
    assert from_written(json.loads(text)) == falling


def test_intervals() -> None:
    assert Interval.of("0.5min") == Interval(seconds=30.0)
    assert Interval.of(None) == Interval(seconds=60.0, stretches=True)
    for wrong in (0, -1, "x", "1h", "0min", "1e400min", True, "9" * 30):
        with pytest.raises(pm.InputError, match=r"`checkpoint_every` must be"):
            pm.prepare(
                classifier(),
                ROUND,
                pm.graphs.star(4),
                steps=3,
                checkpoint_every=wrong,
            )


# -- one writer at a time ------------------------------------------------------------


def test_a_folder_is_written_by_one_process_at_a_time(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    holder = holder_of(tmp_path)
    assert holder is not None
    assert holder["pid"] == os.getpid()
    with pytest.raises(pm.InputError, match=f"process {os.getpid()} on"):
        pm.solve(classifier(), ROUND, pm.graphs.star(4), steps=3, out=tmp_path)
    lock.release()
    lock.release()
    pm.solve(classifier(), ROUND, pm.graphs.star(4), steps=3, out=tmp_path)
    assert holder_of(tmp_path) is None
    assert not (tmp_path / ".lock").exists()


def test_a_lock_of_a_process_that_is_gone_is_taken_over(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        FolderLock(tmp_path)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert (tmp_path / ".lock").exists()
    with pytest.warns(pm.Notice, match=f"process {child} on .* is gone"):
        FolderLock(tmp_path).release()


def test_a_lock_file_that_makes_no_sense_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_bytes(b"\xff[[[")
    FolderLock(tmp_path).release()


def test_agreement_is_needed_on_one_process_only(tmp_path: Path) -> None:
    cut_off(tmp_path / "run", ROUND)
    world = pm.connect(pm.graphs.star(4))
    found = newest_whole(tmp_path / "run" / "checkpoint", world)
    assert found is not None
    assert found.iteration == 35
    assert newest_whole(tmp_path, world) is None
