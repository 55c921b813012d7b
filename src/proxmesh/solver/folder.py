"""A run folder: the one place that writes its files, and the one that reads them."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from safetensors import SafetensorError

from proxmesh.errors import InputError, shortened
from proxmesh.solver.closeup_files import FirstLayer, agents_in, first_layer_in
from proxmesh.solver.config_text import config_as_text, without_empty
from proxmesh.solver.durable import appended, written
from proxmesh.solver.lock import FolderLock, holder_of
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.reading import (
    config_in,
    last_row_in,
    one_line,
    summary_in,
    table_in,
    text_in,
)

if TYPE_CHECKING:  # torch and pandas: folders are listed without them
    import pandas as pd
    from torch import nn

    from proxmesh.solver.journal import Journal
    from proxmesh.solver.result import Result

__all__ = ["RunFolder", "are_of_a_run", "without_empty"]

AGENTS, CHECKPOINT = "agents", "checkpoint"
INSIDE_A_RUN = {AGENTS, CHECKPOINT}  # folders
AGENT_FILES = ("csv", "safetensors")


@final
@dataclass(frozen=True, slots=True)
class RunFolder:
    """config.toml, history.csv, summary.json, checkpoints and models of one run.

    Parameters
    ----------
    path
        Where it is; it need not exist yet.
    by_agent
        Whether every agent reports for itself (``evaluation="local"``): each process
        then writes files of its own agents in place of one history.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = RunFolder(Path(place)).created()
    ...     folder.append({"iteration": 0, "norm": 0.5}, ["iteration", "norm"])
    ...     folder.history()["norm"].tolist(), folder.is_whole()
    ([0.5], False)
    """

    path: Path
    by_agent: bool = False

    HOLDS_A_RUN = ("config.toml", "history.csv", "summary.json")
    FAILURE = "failed.txt"
    ROWS_OR_END = frozenset({"history.csv", "summary.json", FAILURE})
    THEORY = "theory.csv"
    EACH_AGENT = "agents.csv"
    FIRST_LAYER = "first_layer.csv"
    EVENTS = "tensorboard"  # a folder
    MADE_BESIDES = (
        "model.safetensors",
        "sparse_model.safetensors",
        "state.safetensors",
        "curves.png",
        THEORY,
        "theory.png",
        EACH_AGENT,
        FIRST_LAYER,
        "report.html",
        FAILURE,
    )

    # -- is there room for a run? ----------------------------------------------------

    def require_free(self, force: bool = False) -> None:
        """Refuse to touch a run that is already there unless `force`."""
        if self.held and not force:
            raise InputError(
                f"folder `{self.path}` already holds a run ({', '.join(self.held)}). "
                "Choose another folder, or overwrite it with `--force` (`force=True`)."
            )

    def require_unlocked(self) -> None:
        """Refuse a folder that another process is writing."""
        holder = holder_of(self.path)
        if holder is not None:
            raise InputError(
                f"folder `{self.path}` is being written by process {holder['pid']} on "
                f"{holder['host']}. Choose another folder."
            )

    def require_collection(self) -> None:
        """Refuse a folder for several runs that is that of one, or not writable."""
        if self.held:
            raise InputError(
                f"folder `{self.path}` is that of a single run "
                f"({', '.join(self.held)}). Choose another."
            )
        places = (self.path, *self.path.absolute().parents)
        existing = next(place for place in places if place.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK):
            raise InputError(f"folder `{self.path}` cannot be written. Choose another.")

    @property
    def held(self) -> list[str]:
        """The files of a run that are there."""
        try:
            return [name for name in self.HOLDS_A_RUN if (self.path / name).exists()]
        except OSError as error:  # such as a name that is too long
            raise _not_writable(self.path, error) from error

    # -- writing ---------------------------------------------------------------------

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints are."""
        return self.path / CHECKPOINT

    def locked(self) -> FolderLock:
        """Make the folder, and keep others from writing it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):  # files can be made here
                return FolderLock(self.path)
        except OSError as error:
            raise _not_writable(self.path, error) from error

    def created(self, force: bool = False) -> "RunFolder":
        """Make the folder, or empty the run in it if `force`."""
        self.require_free(force)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if self.held:  # or else its events are somebody's
                shutil.rmtree(self.path / self.EVENTS, ignore_errors=True)
            for name in (*self.HOLDS_A_RUN, *self.MADE_BESIDES):
                (self.path / name).unlink(missing_ok=True)
            shutil.rmtree(self.checkpoints, ignore_errors=True)
        except OSError as error:
            raise _not_writable(self.path, error) from error
        return self

    def reopened(self, journal: "Journal", agents: Sequence[int]) -> "RunFolder":
        """Go on with the run that is there, as it was at its checkpoint.

        `agents`: those that report for themselves from here; none: there is one
        history.
        """
        try:
            ended = ("summary.json", self.FAILURE)
            for name in (*ended, self.EACH_AGENT, self.FIRST_LAYER):
                (self.path / name).unlink(missing_ok=True)
            opened = RunFolder(self.path, by_agent=bool(agents))
            for agent in agents or (None,):
                mine = [r for r in journal.rows if agent in {None, r.get("agent")}]
                written(opened._history_of(agent), _csv(mine, journal.columns))
        except OSError as error:
            raise _not_writable(self.path, error) from error
        return opened

    def created_for(self, agents: Sequence[int], force: bool = False) -> "RunFolder":
        """Make the place where each of these agents reports for itself."""
        folder = self.path / AGENTS
        names = [f"{agent}.{kind}" for agent in agents for kind in AGENT_FILES]
        old = [folder / name for name in names if (folder / name).exists()]
        if old and not force:
            raise InputError(
                f"`{old[0]}` is of an earlier run. Choose another folder, or overwrite "
                "it with `--force` (`force=True`)."
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file in old:
                file.unlink()
        except OSError as error:
            raise _not_writable(folder, error) from error
        return RunFolder(self.path, by_agent=True)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the complete config, which reruns the run exactly."""
        text = config_as_text(config)
        try:
            written(self.path / "config.toml", text)
        except OSError as error:
            raise _not_writable(self.path, error) from error

    def append(self, row: Mapping[str, float], columns: Sequence[str]) -> None:
        """Add a row to the history at once, so that a crash loses nothing.

        Where the disk is full, the file stays as it was.
        """
        file = self._history_of(row["agent"] if self.by_agent else None)
        appended(file, lambda empty: _csv([row], columns, header=empty))

    def append_text(self, name: str, text: str) -> None:
        """Add lines to one of the files beside the history, as `append` does."""
        appended(self.path / name, lambda _: text)

    def write_text(self, name: str, text: str) -> None:
        """Write one of them anew."""
        written(self.path / name, text)

    def _history_of(self, agent: float | None) -> Path:
        if agent is None:
            return self.path / "history.csv"
        return self.path / AGENTS / f"{int(agent)}.csv"

    def write_result(
        self,
        result: "Result",
        summary: bool = True,
        besides: Mapping[str, str] | None = None,
    ) -> None:
        """Write what is known at the end: what is dearest first, the summary last.

        With a summary a run is whole. `besides`: more files, by their names.
        """
        try:
            self._write_models(result)
            if not self.by_agent:
                text = result.history.to_csv(index=False)
                written(self.path / "history.csv", text)
            for name, text in (besides or {}).items():
                written(self.path / name, text)
            if result.monitor is not None and result.monitor.rows and summary:
                rows = result.monitor.rows
                written(self.path / self.THEORY, _csv(rows, list(rows[0])))
            if summary:
                text = json.dumps(result.summary(), indent=2, allow_nan=False)
                written(self.path / "summary.json", text + "\n")
        except (OSError, SafetensorError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InputError(
                f"folder `{self.path}`: the result could not be written: {reason}. "
                f"Make room, then go on with `proxmesh resume {self.path}`."
            ) from error

    def _write_models(self, result: "Result") -> None:
        from proxmesh.solver.weights import write_weights

        models: dict[str, nn.Module | None] = {
            "model": result.model,
            "sparse_model": result.sparse_model,
        }
        if self.by_agent:
            models |= {f"{AGENTS}/{a}": module for a, module in result.agent_models()}
        for name, module in models.items():
            if module is not None:
                write_weights(self.path / f"{name}.safetensors", module)

    def write_failure(self, reason: str) -> None:
        """Keep why a run ended without a result."""
        self.path.mkdir(parents=True, exist_ok=True)
        written(self.path / self.FAILURE, reason + "\n")

    # -- reading ---------------------------------------------------------------------

    # A file that cannot be read is an InputError with its name and what is wrong.

    def config(self) -> dict[str, Any]:
        """The complete config of the run."""
        return config_in(self.path / "config.toml")

    def history(self) -> "pd.DataFrame":
        """The rows so far."""
        return table_in(self.path / "history.csv")

    def last_row(self) -> dict[str, float]:
        """The last row so far, without reading those before it; empty if none is."""
        return last_row_in(self.path / "history.csv")

    def summary(self) -> dict[str, Any]:
        """Outcome, message, final numbers, versions and machine."""
        return summary_in(self.path / "summary.json")

    def theory(self) -> "pd.DataFrame | None":
        """What the monitor `theory` saw, if the run had one."""
        file = self.path / self.THEORY
        return table_in(file) if os.path.lexists(file) else None

    def agents(self) -> "pd.DataFrame | None":
        """Every agent's loss and consensus error along the run, if they were kept."""
        file = self.path / self.EACH_AGENT
        return agents_in(file) if os.path.lexists(file) else None

    def first_layer(self) -> FirstLayer | None:
        """Which weights of the first layer are not zero along the run, if kept."""
        file = self.path / self.FIRST_LAYER
        return first_layer_in(file) if os.path.lexists(file) else None

    def failure(self) -> str | None:
        """Why the run ended without a result, if it did."""
        file = self.path / self.FAILURE
        return text_in(file).strip() if os.path.lexists(file) else None

    def is_begun(self) -> bool:
        """Whether there is a history, whole or not."""
        return os.path.exists(self.path / "history.csv")

    def has_summary(self) -> bool:
        """Whether the run has left word about its end."""
        return os.path.lexists(self.path / "summary.json")

    def is_whole(self) -> bool:
        """Whether it holds a run that came to its own end, with all its rows."""
        try:
            self.require_whole()
        except InputError:
            return False
        return True

    def require_whole(self) -> None:
        """Refuse a run that did not come to its own end, or that lost rows."""
        name = f"`{shortened(self.path)}`"
        if not self.has_summary():
            raise InputError(f"{name} has not ended: it is running, or was killed.")
        summary, config, history = self.summary(), self.config(), self.history()
        if summary["outcome"] == Outcome.INTERRUPTED:
            raise InputError(f"{name} was interrupted {one_line(summary['message'])}")
        if "seed" not in config:
            raise InputError(f"the config.toml of {name} has no `seed`.")
        last = history["iteration"].iloc[-1] if len(history) else None
        told = summary["final"].get("iteration")
        if last is None or last != told:
            raise self.lost_rows(last, told)

    def lost_rows(self, last: float | None, told: float | None) -> InputError:
        """The error for a history that does not end where the summary says."""
        return InputError(
            f"`{shortened(self.path / 'history.csv')}` ends at iteration {last}, but "
            f"summary.json says {told}."
        )

    def is_resumable(self) -> bool:
        """Whether it holds a run that can go on from a checkpoint."""
        try:
            names = os.listdir(self.checkpoints)
        except OSError:
            return False
        return any(name.isdecimal() for name in names) and not self.is_whole()

    def names(self) -> list[str]:
        """Everything that is in the folder."""
        try:
            return sorted(os.listdir(self.path))
        except OSError as error:
            raise InputError(
                f"folder `{shortened(self.path)}` cannot be read: {error.strerror}."
            ) from error

    @staticmethod
    def below(top: Path) -> "list[RunFolder]":
        """Every folder in and below this one that holds a run, ended or not."""
        found = []
        for place, folders, files in os.walk(top):
            if are_of_a_run({*folders, *files}):
                found.append(RunFolder(Path(place)))
                folders[:] = [name for name in folders if name not in INSIDE_A_RUN]
        return found


def are_of_a_run(names: Set[str]) -> bool:
    """Whether a folder with these files and folders in it is that of a run.

    A config alone is anybody's.
    """
    begun = "config.toml" in names and not INSIDE_A_RUN.isdisjoint(names)
    return begun or not RunFolder.ROWS_OR_END.isdisjoint(names)


def _csv(
    rows: Sequence[Mapping[str, float]], columns: Sequence[str], header: bool = True
) -> str:
    from proxmesh.solver.history import table

    return table(rows, columns).to_csv(index=False, header=header)


def _not_writable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"folder `{shortened(path)}` cannot be written: {error.strerror}. Choose "
        "another `--out`."
    )
