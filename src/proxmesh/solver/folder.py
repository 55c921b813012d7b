"""A run folder: the one place that writes its files, and the one that reads them."""

import json
import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import tomli_w

from proxmesh.errors import InputError
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.reading import (
    config_in,
    last_row_in,
    one_line,
    shortened,
    summary_in,
    table_in,
    text_in,
)

if TYPE_CHECKING:  # torch and pandas: folders are listed without them
    import pandas as pd
    from torch import nn

    from proxmesh.solver.result import Result

__all__ = ["RunFolder", "are_of_a_run", "without_empty"]

AGENTS, CHECKPOINT = "agents", "checkpoint"
INSIDE_A_RUN = {AGENTS, CHECKPOINT}  # folders
AGENT_FILES = ("csv", "safetensors")


@final
@dataclass(frozen=True, slots=True)
class RunFolder:
    """config.toml, history.csv, summary.json and the models of one run.

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
    MADE_BESIDES = (
        "model.safetensors",
        "sparse_model.safetensors",
        "curves.png",
        THEORY,
        "theory.png",
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

    def created(self, force: bool = False) -> "RunFolder":
        """Make the folder, or empty the run in it if `force`."""
        self.require_free(force)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / ".writable"
            probe.touch()
            probe.unlink()
            for name in (*self.HOLDS_A_RUN, *self.MADE_BESIDES):
                (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise _not_writable(self.path, error) from error
        return self

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
        text = tomli_w.dumps(without_empty(config))
        (self.path / "config.toml").write_text(text)

    def append(self, row: Mapping[str, float], columns: Sequence[str]) -> None:
        """Add a row to the history at once, so that a crash loses nothing."""
        file = self.path / "history.csv"
        if self.by_agent:
            file = self.path / AGENTS / f"{row['agent']}.csv"
        from proxmesh.solver.history import table

        line = table([row], columns)
        line.to_csv(file, mode="a", header=not file.exists(), index=False)

    def write_result(self, result: "Result", summary: bool = True) -> None:
        """Write what is known at the end; the summary last: with it a run is whole."""
        import pandas as pd
        from safetensors.torch import save_model

        if self.by_agent:
            for agent, model in result.agent_models():
                save_model(model, str(self.path / AGENTS / f"{agent}.safetensors"))
        else:
            result.history.to_csv(self.path / "history.csv", index=False)
        if result.monitor is not None and result.monitor.rows and summary:
            seen = pd.DataFrame(result.monitor.rows)
            seen.to_csv(self.path / self.THEORY, index=False)
        models: dict[str, nn.Module | None] = {
            "model": result.model,
            "sparse_model": result.sparse_model,
        }
        for name, module in models.items():
            if module is not None:
                save_model(module, str(self.path / f"{name}.safetensors"))
        if summary:
            text = json.dumps(result.summary(), indent=2, allow_nan=False)
            written = self.path / "summary.json.new"
            written.write_text(text + "\n")
            written.replace(self.path / "summary.json")

    def write_failure(self, reason: str) -> None:
        """Keep why a run ended without a result."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / self.FAILURE).write_text(reason + "\n")

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
        return (self.path / CHECKPOINT).is_dir() and not self.is_whole()

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


def without_empty(config: Mapping[str, Any]) -> dict[str, Any]:
    """Drop what TOML cannot say: keys without a value.

    Examples
    --------
    >>> without_empty({"seed": 0, "run": {"target": {}, "steps": 5, "monitor": None}})
    {'seed': 0, 'run': {'steps': 5}}
    """
    return {
        key: without_empty(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if value is not None and value not in ({}, [])
    }


def _not_writable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"folder `{shortened(path)}` cannot be written: {error.strerror}. Choose "
        "another `--out`."
    )
