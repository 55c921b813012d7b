"""Run folders as the report sees them."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pandas as pd

from proxmesh.errors import InputError
from proxmesh.experiment.comparing import is_whole, task_of
from proxmesh.experiment.results import Outcome, RunFolder

__all__ = ["Run", "collect", "require_one_task"]

GOOD = (Outcome.FINISHED, Outcome.TARGET_REACHED)
FAILED = "failed"


@final
@dataclass(frozen=True, slots=True)
class Run:
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
        return f"{self.outcome}: {self.message}".rstrip(".")


def collect(folders: Iterable[Path]) -> list[Run]:
    """Read every run in and below these folders; half-written ones are left out."""
    runs = []
    for top in folders:
        if not top.is_dir():
            raise InputError(f"`{top}` is no folder. Give folders of runs.")
        files = [*top.rglob("summary.json"), *top.rglob(RunFolder.FAILURE)]
        found = [_read(f.parent) for f in sorted(files, key=_in_order)]
        if not any(found):
            raise InputError(f"folder `{top}` holds no run that has ended.")
        runs += [run for run in found if run is not None]
    return runs


def require_one_task(runs: list[Run]) -> None:
    """Refuse to compare runs of different tasks, and say what differs."""
    configured = [run for run in runs if run.config]
    first = configured[0] if configured else None
    for run in configured[1:]:
        assert first is not None
        here, there = task_of(first.config), task_of(run.config)
        for key in sorted({*here, *there}):
            if here.get(key) != there.get(key):
                raise InputError(
                    f"`{first.folder}` and `{run.folder}` are runs of different tasks: "
                    f"`{key}` is {here.get(key)!r} there and {there.get(key)!r} here. "
                    "Compare runs of one task."
                )


def _read(folder: Path) -> Run | None:
    if is_whole(folder):
        config = tomllib.loads((folder / "config.toml").read_text())
        summary = json.loads((folder / "summary.json").read_text())
        return Run(
            label=_label(folder, config),
            seed=config["seed"],
            folder=folder,
            config=config,
            history=pd.read_csv(folder / "history.csv"),
            outcome=summary["outcome"],
            message=summary["message"],
        )
    failure = folder / RunFolder.FAILURE
    if not failure.exists():
        return None
    seed = re.search(r"\d+$", folder.name)
    return Run(
        label=_label(folder, {}),
        seed=int(seed.group()) if seed else 0,
        folder=folder,
        config={},
        history=pd.DataFrame(),
        outcome=FAILED,
        message=failure.read_text().strip(),
    )


def _label(folder: Path, config: Mapping[str, Any]) -> str:
    """The folder that `compare` made for the method, or the method's name."""
    if folder.name.startswith("seed-"):
        return folder.parent.name
    name: str = config.get("algorithm", {}).get("name", folder.name)
    return name


def _in_order(file: Path) -> tuple[Any, ...]:
    """Sort seed-10 after seed-9."""
    parts = re.split(r"(\d+)", str(file))
    return tuple(
        (part.isdigit(), int(part) if part.isdigit() else part) for part in parts
    )
