"""Run folders as the report sees them."""

import dataclasses
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pandas as pd

from proxmesh.errors import InputError, Notice, shortened
from proxmesh.runs.config import flattened, task_of
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.lock import holder_of
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.reading import method_in, one_line

__all__ = ["FinishedRun", "collect", "read_run", "read_runs", "require_one_task"]

GOOD = tuple(outcome for outcome in Outcome if outcome.is_good)
FAILED, RUNNING, KILLED = "failed", "running", "killed"
MOST_NAMED = 10  # of the runs that are left out


@final
@dataclass(frozen=True, slots=True)
class FinishedRun:
    """One run that came to an end, good or bad."""

    label: str
    seed: int
    folder: Path
    config: Mapping[str, Any]
    history: pd.DataFrame
    outcome: str  # of the result, or `failed`
    message: str

    @property
    def is_good(self) -> bool:
        """Whether its numbers count."""
        return self.outcome in GOOD

    @property
    def end(self) -> str:
        """A bad end in a few words."""
        if self.outcome == Outcome.DIVERGED:
            k = re.search(r"iteration (\d+)", self.message)
            return f"diverged at k = {k.group(1)}" if k else "diverged"
        return f"{self.outcome}: {self.message}".rstrip(": .")


def read_runs(
    folders: Iterable[Path], labels: Sequence[str] = (), unended: bool = False
) -> list[FinishedRun]:
    """Read the runs in exactly these folders.

    Those without an end, unless these are wanted too (`unended`), or with a malformed
    file, are left out with a notice. With `labels` the others come in the order of
    these, and of their seeds.
    """
    found, reasons = [], []
    for folder in folders:
        try:
            found.append(read_run(folder, unended))
        except InputError as error:
            reasons.append(one_line(str(error)))
    _note_left_out(reasons)
    if not labels:
        return found
    return sorted(found, key=lambda run: (labels.index(run.label), run.seed))


def collect(folders: Iterable[Path], unended: bool = False) -> list[FinishedRun]:
    """Read every run in and below these folders, each once, as `read_runs` does.

    Runs of one method that are not seeds of one setting (other constants, other
    steps, the same seed twice) get labels of their own, with their folder's name.
    """
    runs: list[FinishedRun] = []
    places: dict[Path, Path] = {}
    for top in folders:
        if not os.path.isdir(top):
            name = shortened(top)
            raise InputError(f"`{name}` is not a folder. Give folders of runs.")
        found = sorted((run.path for run in RunFolder.below(top)), key=_in_order)
        runs += read_runs((p for p in found if p.resolve() not in places), (), unended)
        places |= {path.resolve(): top for path in found}
        inside = {path.resolve() for path in found}
        if not any(run.folder.resolve() in inside for run in runs):
            name = shortened(top)
            raise InputError(f"folder `{name}` holds no run that has ended.")
    ambiguous = {run.label for run in runs if not _is_one_setting(runs, run.label)}
    return [
        dataclasses.replace(run, label=f"{run.label} ({_where(run, places)})")
        if run.label in ambiguous
        else run
        for run in runs
    ]


def require_one_task(runs: Sequence[FinishedRun]) -> None:
    """Refuse to compare runs of different tasks, and say what differs."""
    configured = [run for run in runs if run.config]
    for run in configured[1:]:
        first = configured[0]
        here, there = task_of(first.config), task_of(run.config)
        for key in sorted({*here, *there}):
            if here.get(key) != there.get(key):
                raise InputError(
                    f"`{shortened(first.folder)}` and `{shortened(run.folder)}` are "
                    f"runs of different tasks: `{shortened(key)}` is "
                    f"{one_line(repr(here.get(key)), 80)} in the first and "
                    f"{one_line(repr(there.get(key)), 80)} in the second. Compare runs "
                    "of one task."
                )


def _is_one_setting(runs: Sequence[FinishedRun], label: str) -> bool:
    """Whether the runs of a label differ only in their seed."""
    mine = [run for run in runs if run.label == label]
    settings = [_setting(run.config) for run in mine if run.config]
    seeds = [run.seed for run in mine]
    return len(set(seeds)) == len(seeds) and all(s == settings[0] for s in settings)


def _setting(config: Mapping[str, Any]) -> dict[str, Any]:
    """What makes it the same method; constants that were found differ by seed."""
    flat = flattened(config)
    found = {f"algorithm.{name}" for name in flat.get("run.automatic", ())}
    return {
        key: value
        for key, value in flat.items()
        if (key.startswith("algorithm.") and key not in found)
        or key in {"run.automatic", "run.steps", "run.eval_every"}
    }


def _where(run: FinishedRun, places: Mapping[Path, Path]) -> str:
    """The shortest name that tells a run's folder from the others."""
    folder = run.folder.resolve()
    top = places[folder]
    folder = folder.parent if folder.name.startswith("seed-") else folder
    if not folder.is_relative_to(top.resolve()):  # the seed's own folder was named
        return str(Path(folder.name))
    return str(Path(top.name) / folder.relative_to(top.resolve()))


def _note_left_out(reasons: Sequence[str]) -> None:
    for reason in reasons[:MOST_NAMED]:
        warnings.warn(f"left out: {reason}", Notice, stacklevel=3)
    if len(reasons) > MOST_NAMED:
        more = len(reasons) - MOST_NAMED
        warnings.warn(f"left out: {more} more runs.", Notice, stacklevel=3)


def read_run(folder: Path, unended: bool = False) -> FinishedRun:
    """Read one run; one without an end is refused unless such are wanted."""
    files = RunFolder(folder)
    failure = None if files.has_summary() else files.failure()
    if failure is None:
        if not unended:
            files.require_whole()
        config, summary = files.config(), _end_of(files)
        return FinishedRun(
            label=_label(folder, config),
            seed=config.get("seed", 0),
            folder=folder,
            config=config,
            history=files.history(),
            outcome=summary["outcome"],
            message=one_line(summary["message"]),
        )
    seed = re.search(r"\d+$", folder.resolve().name)
    return FinishedRun(
        label=_label(folder, {}),
        seed=int(seed.group()) if seed else 0,
        folder=folder,
        config={},
        history=pd.DataFrame(),
        outcome=FAILED,
        message=one_line(failure),
    )


def _end_of(files: RunFolder) -> dict[str, Any]:
    """How a run ended; one without an end is going on, or was killed."""
    if files.has_summary():
        return files.summary()
    going_on = holder_of(files.path) is not None
    return {"outcome": RUNNING if going_on else KILLED, "message": ""}


def _label(folder: Path, config: Mapping[str, Any]) -> str:
    """The folder that `compare` made for the method, or the method's name."""
    folder = folder.resolve()
    if folder.name.startswith("seed-"):
        return shortened(folder.parent.name)
    return shortened(method_in(config) or folder.name)


def _in_order(file: Path) -> tuple[tuple[bool, int | str], ...]:
    """Sort seed-10 after seed-9."""
    parts = re.split(r"(\d+)", str(file))
    return tuple(
        (part.isdecimal(), int(part) if part.isdecimal() else part) for part in parts
    )
