"""Earlier runs, found again: what each was, how far it came and how it ended.

A thousand folders are listed in a second: only the ends of files are read, and neither
torch nor pandas is imported.
"""

import dataclasses
import math
import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, final

from proxmesh.errors import InputError, shortened, unknown
from proxmesh.solver.folder import RunFolder, are_of_a_run
from proxmesh.solver.lock import holder_of
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.reading import MADE_IN_PYTHON, method_in, one_line

__all__ = [
    "OUTCOMES",
    "Details",
    "ListedRun",
    "RunFilter",
    "details_of",
    "found_run",
    "listed_runs",
    "point_in_time",
]

FAILED: Final = "failed"
RUNNING: Final = "running"
KILLED: Final = "killed"
UNREADABLE: Final = "unreadable"
OUTCOMES = (*map(str, Outcome), FAILED, RUNNING, KILLED, UNREADABLE)

SECONDS = {"min": 60, "h": 3600, "d": 86_400, "w": 604_800}
LAST_YEAR = datetime(9999, 1, 1).timestamp()  # a file's time can be any number


@final
@dataclass(frozen=True, slots=True)
class ListedRun:
    """One run in short; what is not known is None, or empty."""

    folder: Path
    when: float  # its files were last written, in seconds since 1970
    outcome: str = UNREADABLE
    message: str = ""
    algorithm: str = ""
    data: str = ""
    model: str = ""
    graph: str = ""
    agents: int | None = None
    seed: int | None = None
    done: int | None = None  # steps
    planned: int | None = None
    stationarity: float | None = None  # of the last row
    resumable: bool = False

    @property
    def task(self) -> str:
        """Data, model and graph, such as ``a9a, mlp, ring of 8``."""
        of = f" of {self.agents}" if self.graph and self.agents else ""
        return ", ".join(filter(None, (self.data, self.model, f"{self.graph}{of}")))

    @property
    def date(self) -> datetime:
        """When its files were last written, in local time."""
        return datetime.fromtimestamp(self.when).astimezone()

    def tree(self) -> dict[str, Any]:
        """Ready for JSON."""
        when = self.date.isoformat(timespec="seconds")
        return {**dataclasses.asdict(self), "folder": str(self.folder), "when": when}


@final
@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted; None stands for all.

    Parameters
    ----------
    algorithm, dataset
        Names as they stand in the list.
    outcome
        One of `OUTCOMES`.
    since
        The earliest time, in seconds since 1970.
    resumable
        Only those that can go on from a checkpoint.
    """

    algorithm: str | None = None
    dataset: str | None = None
    outcome: str | None = None
    since: float | None = None
    resumable: bool = False

    def __post_init__(self) -> None:
        if self.outcome is not None and self.outcome not in OUTCOMES:
            raise unknown("outcome", self.outcome, OUTCOMES)

    def accepts(self, run: ListedRun) -> bool:
        """Whether a run is among them."""
        wanted = (
            (self.algorithm, run.algorithm),
            (self.dataset, run.data),
            (self.outcome, run.outcome),
        )
        return (
            all(name in {None, value} for name, value in wanted)
            and (self.since is None or run.when >= self.since)
            and (run.resumable or not self.resumable)
        )


@final
@dataclass(frozen=True, slots=True)
class Details:
    """All that a run folder tells; what cannot be read is empty."""

    run: ListedRun
    config: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, float]]  # the first, the last and the best
    files: list[str]
    versions: Mapping[str, str]
    unreadable: list[str]  # why, for each file

    @property
    def commands(self) -> dict[str, str]:
        """How to make the run again, and to go on with it."""
        folder = self.run.folder
        found = {}
        if MADE_IN_PYTHON in self.config:
            if self.run.resumable:
                found["resume"] = f"pm.resume({str(folder)!r}, problem)"
            return found
        if self.config:
            file = shlex.quote(str(folder / "config.toml"))
            found["run again"] = f"proxmesh run --config {file}"
        if self.run.resumable:
            found["resume"] = f"proxmesh resume {shlex.quote(str(folder))}"
        return found

    def tree(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            **self.run.tree(),
            "config": _for_json(self.config),
            "rows": _for_json(self.rows),
            "files": self.files,
            "versions": self.versions,
            "unreadable": self.unreadable,
            "commands": self.commands,
        }


def listed_runs(top: Path, wanted: RunFilter | None = None) -> list[ListedRun]:
    """The wanted runs in and below a folder, the newest first."""
    if not os.path.isdir(top):
        raise InputError(
            f"`{shortened(top)}` is not a folder. Give one that has run folders in it."
        )
    runs = map(_listed, RunFolder.below(top))
    kept = [run for run in runs if wanted is None or wanted.accepts(run)]
    return sorted(kept, key=lambda run: (-run.when, str(run.folder)))


def found_run(name: str, top: Path) -> RunFolder:
    """The run in the folder `name`, or the one below `top` with that in its path."""
    if os.path.isdir(name):
        run = RunFolder(Path(name))
        if not are_of_a_run({*run.names()}):
            raise InputError(
                f"folder `{shortened(name)}` holds no run; `proxmesh runs "
                f"{shortened(name)}` lists those below it."
            )
        return run
    part = name.rstrip("/")
    paths = [run.path for run in RunFolder.below(top)]
    fitting = [path for path in paths if part in str(path.relative_to(top))]
    if not fitting:
        raise InputError(
            f"no run folder in `{shortened(top)}` has `{shortened(name)}` in its name. "
            f"`proxmesh runs {shortened(top)}` lists them all."
        )
    if len(fitting) > 1:
        some = ", ".join(shortened(path) for path in sorted(fitting)[:3])
        raise InputError(
            f"{len(fitting)} run folders have `{shortened(name)}` in their names: "
            f"{some}{', ...' if len(fitting) > 3 else ''}. Give more of the name."
        )
    return RunFolder(fitting[0])


def details_of(folder: RunFolder) -> Details:
    """Read all that a run folder tells."""
    unreadable: list[str] = []

    def read(file: str, reader: Any, nothing: Any) -> Any:
        if not os.path.lexists(folder.path / file):
            return nothing
        try:
            return reader()
        except InputError as error:
            unreadable.append(one_line(str(error)))
            return nothing

    summary = read("summary.json", folder.summary, {})
    versions = summary.get("versions", {})
    history = read("history.csv", folder.history, None)
    return Details(
        run=_listed(folder),
        config=read("config.toml", folder.config, {}),
        rows={} if history is None else dict(_telling_rows(history)),
        files=[one_line(name) for name in folder.names()],
        versions={
            one_line(str(name), 40): one_line(str(version), 40)
            for name, version in versions.items()
        }
        if isinstance(versions, Mapping)
        else {},
        unreadable=unreadable,
    )


def point_in_time(text: str, now: float | None = None) -> float:
    """Seconds since 1970 of a date, or of an age such as ``7d``, ``12h`` or ``30min``.

    Examples
    --------
    >>> point_in_time("2d", now=200_000.0)
    27200.0
    """
    age = re.fullmatch(r"(\d{1,9})\s*(min|h|d|w)", text.strip())
    if age is not None:
        now = time.time() if now is None else now
        return now - int(age[1]) * SECONDS[age[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"`--since` must be a date such as 2026-11-30, or an age such as 30min, "
            f"12h, 7d or 2w, got `{shortened(text, 40)}`."
        ) from error


def _for_json(value: Any) -> Any:
    """What JSON cannot say is said in words: dates, infinity, not a number."""
    if isinstance(value, Mapping):
        return {key: _for_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_for_json(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if isinstance(value, int | str) else str(value)


def _listed(folder: RunFolder) -> ListedRun:
    found: dict[str, Any] = {}
    try:
        if os.path.lexists(folder.path / "config.toml"):
            found |= _task(folder.config())
        found |= _end(folder)
    except InputError as error:
        found |= {"outcome": UNREADABLE, "message": one_line(str(error))}
    can_go_on = found["outcome"] in {Outcome.INTERRUPTED, FAILED, KILLED}
    return ListedRun(
        folder=folder.path,
        when=_last_written(folder),
        resumable=can_go_on and folder.is_resumable(),
        **found,
    )


def _task(config: Mapping[str, Any]) -> dict[str, Any]:
    def name_of(section: str) -> str:
        return shortened(Path(config.get(section, {}).get("name", "")).stem, 40)

    return {
        "algorithm": shortened(method_in(config), 40),
        "data": name_of("data"),
        "model": name_of("model"),
        "graph": name_of("graph"),
        "agents": config.get("graph", {}).get("agents"),
        "seed": config.get("seed"),
        "planned": config.get("run", {}).get("steps"),
    }


def _end(folder: RunFolder) -> dict[str, Any]:
    """How far a run came, and how it ended."""
    row: Mapping[str, float] = folder.last_row() if folder.is_begun() else {}
    failure = folder.failure()
    if folder.has_summary():
        summary = folder.summary()
        outcome, message, final = (summary[k] for k in ("outcome", "message", "final"))
        row = row or final
        if row.get("iteration") != final.get("iteration"):
            raise folder.lost_rows(row.get("iteration"), final.get("iteration"))
    elif failure is not None:
        outcome, message = FAILED, failure
    else:
        outcome, message = _outcome_without_end(folder), ""
    done, stationarity = row.get("iteration"), row.get("stationarity", math.nan)
    return {
        "outcome": outcome,
        "message": one_line(message),
        "done": None if done is None else int(done),
        "stationarity": stationarity if math.isfinite(stationarity) else None,
    }


def _outcome_without_end(folder: RunFolder) -> str:
    """Of a run that has left no word about its end."""
    return KILLED if holder_of(folder.path) is None else RUNNING


def _last_written(folder: RunFolder) -> float:
    """The time of its newest file; that of the folder changes with every picture."""
    times = [0.0]
    for name in (*folder.HOLDS_A_RUN, folder.FAILURE):
        try:
            times.append(os.lstat(folder.path / name).st_mtime)
        except OSError:  # not there, or gone by now
            continue
    return min(max(times), LAST_YEAR)


def _telling_rows(history: Any) -> Iterator[tuple[str, dict[str, float]]]:
    """The first row, the last, and of those after the start the most stationary."""
    if history.empty:
        return
    yield "first", history.iloc[0].to_dict()
    yield "last", history.iloc[-1].to_dict()
    later = history.iloc[1:]
    if "stationarity" in later and later["stationarity"].notna().any():
        yield "best", later.loc[later["stationarity"].idxmin()].to_dict()
