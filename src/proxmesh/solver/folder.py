"""A run folder: the one place that writes its files, and the one that reads them."""

import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import pandas as pd
import tomli_w
from safetensors.torch import save_model
from torch import nn

from proxmesh.errors import InputError
from proxmesh.solver.history import table
from proxmesh.solver.outcome import Outcome

if TYPE_CHECKING:
    from proxmesh.solver.result import Result

__all__ = ["RunFolder", "without_empty"]

AGENTS = "agents"
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
        return [name for name in self.HOLDS_A_RUN if (self.path / name).exists()]

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
        line = table([row], columns)
        line.to_csv(file, mode="a", header=not file.exists(), index=False)

    def write_result(self, result: "Result", summary: bool = True) -> None:
        """Write what is known at the end; the summary last: with it a run is whole."""
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

    def config(self) -> dict[str, Any]:
        """The complete config of the run."""
        return tomllib.loads((self.path / "config.toml").read_text())

    def history(self) -> pd.DataFrame:
        """The rows so far."""
        return pd.read_csv(self.path / "history.csv")

    def summary(self) -> dict[str, Any]:
        """Outcome, message, final numbers, versions and machine."""
        found: dict[str, Any] = json.loads((self.path / "summary.json").read_text())
        return found

    def theory(self) -> pd.DataFrame | None:
        """What the monitor `theory` saw, if the run had one."""
        file = self.path / self.THEORY
        return pd.read_csv(file) if file.exists() else None

    def failure(self) -> str | None:
        """Why the run ended without a result, if it did."""
        file = self.path / self.FAILURE
        return file.read_text().strip() if file.exists() else None

    def is_begun(self) -> bool:
        """Whether there is a history, whole or not."""
        return (self.path / "history.csv").exists()

    def is_whole(self) -> bool:
        """Whether it holds a run that came to its own end, with all its rows."""
        try:
            summary, config, history = self.summary(), self.config(), self.history()
            told = isinstance(summary["message"], str) and "seed" in config
            return bool(
                told
                and summary["outcome"] in set(Outcome) - {Outcome.INTERRUPTED}
                and len(history) > 0
                and history["iteration"].iloc[-1] == summary["final"].get("iteration")
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False

    @staticmethod
    def below(top: Path) -> "Iterable[RunFolder]":
        """Every folder in and below this one in which a run has ended."""
        files = [*top.rglob("summary.json"), *top.rglob(RunFolder.FAILURE)]
        return [RunFolder(path) for path in dict.fromkeys(f.parent for f in files)]


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
        f"folder `{path}` cannot be written: {error.strerror}. Choose another `--out`."
    )
