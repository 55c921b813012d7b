"""What a run leaves behind: a history, an outcome, the models, a folder."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
import tomli_w
import torch
from safetensors.torch import save_model
from torch import Tensor, nn

from proxmesh.errors import InputError
from proxmesh.metrics import COLUMNS
from proxmesh.theory import Monitor

__all__ = ["Outcome", "Result", "RunFolder", "machine", "table", "without_empty"]


COUNTS = ("agent", "iteration", "gradients", "vectors_sent", "bytes_sent")


AGENT_FILES = ("csv", "safetensors")


class Outcome(StrEnum):
    """How a run ended; `Result.message` says when and why."""

    FINISHED = "finished"
    TARGET_REACHED = "target reached"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """Everything a run found."""

    history: pd.DataFrame  # one row an evaluation; columns as in `metrics.COLUMNS`
    outcome: Outcome
    message: str  # the outcome in words: when, where, and what to do
    state: Any  # the last finite state, to go on from
    problem: Any
    means: Mapping[str, Tensor] = field(repr=False)  # averages over agents, [p] each
    compiled: bool = False  # whether its steps were; going on from it does the same
    algorithm: Any = None  # with every constant that was in force
    monitor: Monitor | None = None  # what it saw, if the run had one

    @property
    def final(self) -> dict[str, float]:
        """The last row of the history, where its numbers are finite."""
        last = self.history.iloc[-1] if len(self.history) else pd.Series(dtype=float)
        finite = last[np.isfinite(last.to_numpy(float))]
        return {
            str(name): int(value) if name in COUNTS else float(value)
            for name, value in finite.items()
        }

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v:.4g}" for k, v in self.final.items())
        return f"Result({self.outcome}: {self.message} {shown})"

    @property
    def model(self) -> nn.Module | None:
        """The model at the average of x, where the metrics are taken."""
        return self._module("x")

    @property
    def sparse_model(self) -> nn.Module | None:
        """The model at the average of the rows out of the prox; None without them."""
        return self._module("sparse")

    def save(
        self,
        folder: str | Path,
        config: Mapping[str, Any] | None = None,
        force: bool = False,
    ) -> Path:
        """Write a run folder; refuse one that already holds a run unless `force`."""
        run = RunFolder.create(Path(folder), force)
        if config is not None:
            run.write_config(config)
        run.write_result(self)
        return run.path

    def summary(self) -> dict[str, Any]:
        """Outcome, final metrics, versions and machine, ready for JSON."""
        return {
            "outcome": str(self.outcome),
            "message": self.message,
            "final": self.final,
            **machine(),
        }

    def _module(self, name: str) -> nn.Module | None:
        if not hasattr(self.problem, "module") or name not in self.means:
            return None
        module: nn.Module = self.problem.module(self.means[name])
        return module


@final
@dataclass(frozen=True, slots=True)
class RunFolder:
    """config.toml, history.csv, summary.json and the models of one run."""

    path: Path
    by_agent: bool = False  # `--eval local`: every rank writes its agents' own files

    HOLDS_A_RUN = ("config.toml", "history.csv", "summary.json")
    FAILURE = "failed.txt"
    ALSO = (
        "model.safetensors",
        "sparse_model.safetensors",
        "curves.png",
        "theory.csv",
        "theory.png",
        FAILURE,
    )

    @staticmethod
    def require_free(path: Path, force: bool = False) -> None:
        """Refuse to touch a run that is already there unless `force`."""
        taken = [name for name in RunFolder.HOLDS_A_RUN if (path / name).exists()]
        if taken and not force:
            raise InputError(
                f"folder `{path}` already holds a run ({', '.join(taken)}). Choose "
                "another folder, or overwrite it with `--force` (`force=True`)."
            )

    @staticmethod
    def create(path: Path, force: bool = False) -> "RunFolder":
        """Make the folder, or empty the run in it if `force`."""
        RunFolder.require_free(path, force)
        try:
            path.mkdir(parents=True, exist_ok=True)
            probe = path / ".writable"
            probe.touch()
            probe.unlink()
            for name in (*RunFolder.HOLDS_A_RUN, *RunFolder.ALSO):
                (path / name).unlink(missing_ok=True)
        except OSError as error:
            raise InputError(
                f"folder `{path}` cannot be written: {error.strerror}. Choose another "
                "`--out`."
            ) from error
        return RunFolder(path)

    @staticmethod
    def of_agents(path: Path, agents: Sequence[int], force: bool) -> "RunFolder":
        """The folder for what each agent reports of itself, on its own machine."""
        folder = path / "agents"
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
            raise InputError(
                f"folder `{folder}` cannot be written: {error.strerror}. Choose "
                "another `--out`."
            ) from error
        return RunFolder(path, by_agent=True)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the complete config, which reruns the run exactly."""
        (self.path / "config.toml").write_text(tomli_w.dumps(without_empty(config)))

    def append(self, row: Mapping[str, float], columns: list[str]) -> None:
        """Add a row to history.csv at once, so that a crash loses nothing."""
        file = self.path / "history.csv"
        if self.by_agent:
            file = self.path / "agents" / f"{row['agent']}.csv"
        line = table([row], columns)
        line.to_csv(file, mode="a", header=not file.exists(), index=False)

    def write_result(self, result: Result, summary: bool = True) -> None:
        """Write what is known at the end; the summary last: with it a run is whole."""
        if self.by_agent:
            self._write_agents(result)
        else:
            result.history.to_csv(self.path / "history.csv", index=False)
        if result.monitor is not None and result.monitor.rows and summary:
            seen = pd.DataFrame(result.monitor.rows)
            seen.to_csv(self.path / "theory.csv", index=False)
        for name in ("model", "sparse_model"):
            module = getattr(result, name)
            if module is not None:
                save_model(module, str(self.path / f"{name}.safetensors"))
        if summary:
            text = json.dumps(result.summary(), indent=2, allow_nan=False)
            written = self.path / "summary.json.new"
            written.write_text(text + "\n")
            written.replace(self.path / "summary.json")

    def _write_agents(self, result: Result) -> None:
        """Each agent's own model, where the problem can make one."""
        if not hasattr(result.problem, "module"):
            return
        for agent, row in zip(result.problem.agents, result.state.x, strict=True):
            file = self.path / "agents" / f"{agent}.safetensors"
            save_model(result.problem.module(row), str(file))

    @staticmethod
    def write_failure(path: Path, reason: str) -> None:
        """Keep why a run ended without a result, where reports look for it."""
        path.mkdir(parents=True, exist_ok=True)
        (path / RunFolder.FAILURE).write_text(reason + "\n")


def without_empty(config: Mapping[str, Any]) -> dict[str, Any]:
    """Drop what TOML cannot say: keys without a value."""
    return {
        key: without_empty(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if value is not None and value not in ({}, [])
    }


def table(rows: list[Mapping[str, float]], columns: list[str]) -> pd.DataFrame:
    """Return rows as a table with fixed columns and whole numbers where they belong."""
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({c: "int64" for c in COUNTS if c in columns})


def machine() -> dict[str, Any]:
    """Versions and machine, for the record."""
    packages = ("proxmesh", "torch", "numpy")
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
        },
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "threads": torch.get_num_threads(),
        },
    }


def ordered(names: list[str]) -> list[str]:
    """Sort columns as documented, whose they are first, own ones last."""
    known = [name for name in ("agent", *COLUMNS) if name in names]
    return known + [name for name in names if name not in known]
