"""What a run leaves behind: a history, an outcome, the models."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, final

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from typing_extensions import TypeVar

from proxmesh.solver.environment import environment
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.history import COUNTS
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.state import STATE, is_record, save
from proxmesh.solver.weights import MODEL_FILES, tensors_in, with_weights_in
from proxmesh.theory import Monitor
from proxmesh.types import facts_of, has_models

__all__ = ["Result"]

S = TypeVar("S", default=Any)  # the state of the method


@final
@dataclass(frozen=True, slots=True, repr=False)
class Result(Generic[S]):
    """Everything a run found.

    Parameters
    ----------
    history
        A table with one row per evaluation; columns as in `proxmesh.metrics.COLUMNS`.
    outcome, message
        How the run ended; when, where, and what to do.
    state
        The last finite state, to go on from: ``pm.solve(..., state=result)``.
    problem
        This process's part of it.
    means
        Averages over all agents of x and of the rows out of the prox, ``[p]`` each.
    compiled
        Whether its steps were; going on from it does the same.
    algorithm
        The method with every constant that was in force.
    monitor
        What it saw, if the run had one.
    notes
        What happened on the way that a reader of its numbers should know, such as a
        change to fewer threads.
    config
        The run in words, as in config.toml.
    folder
        Its run folder, if it has one.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(3))
    >>> result = pm.solve(problem, pm.HSMADMM(), pm.graphs.path(3), steps=5)
    >>> result.final["iteration"], type(result.model).__name__
    (5, 'Sequential')
    """

    history: pd.DataFrame
    outcome: Outcome
    message: str
    state: S
    problem: Any  # of the type that was given
    means: Mapping[str, Tensor] = field(repr=False)
    compiled: bool = False
    algorithm: Any = None  # of the type that was given
    monitor: Monitor | None = None
    notes: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    folder: Path | None = None

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
        return self._model_at("x")

    @property
    def sparse_model(self) -> nn.Module | None:
        """The model at the average of the rows out of the prox; None without them."""
        return self._model_at("sparse")

    def agent_models(self) -> Iterator[tuple[int, nn.Module]]:
        """Each local agent's own model, where the problem can make one."""
        agents = facts_of(self.problem).agents
        if not has_models(self.problem) or agents is None:
            return
        state: Any = self.state
        for agent, row in zip(agents, state.x, strict=True):
            yield agent, self.problem.module(row)

    def save(
        self,
        folder: str | Path,
        config: Mapping[str, Any] | None = None,
        force: bool = False,
    ) -> Path:
        """Write a run folder, with the state, which `proxmesh.load` reads.

        Parameters
        ----------
        folder
            Where; refused if it already holds a run, unless `force`.
        config
            To be kept as config.toml in place of `Result.config`.
        force
            Overwrite a run that is there.
        """
        written = RunFolder(Path(folder)).created(force)
        written.write_config(self.config if config is None else config)
        if is_record(self.state):
            save(self.state, written.path / STATE)
        written.write_result(self)
        return written.path

    def weights(self) -> dict[str, Tensor]:
        """The average model's parameters and buffers by name: a state dict.

        A result that was loaded has it without its problem, too.
        """
        model = self.model
        if model is not None:
            return model.state_dict()
        if self.folder is None:
            return {}
        return tensors_in(self.folder / MODEL_FILES["x"])

    def summary(self) -> dict[str, Any]:
        """Outcome, final metrics, versions and machine, ready for JSON."""
        return {
            "outcome": str(self.outcome),
            "message": self.message,
            "final": self.final,
            **({"notes": list(self.notes)} if self.notes else {}),
            **environment(),
        }

    def _model_at(self, name: str) -> nn.Module | None:
        if not has_models(self.problem):
            return None
        if name in self.means:
            return self.problem.module(self.means[name])
        file = None if self.folder is None else self.folder / MODEL_FILES[name]
        if file is None or not file.exists():
            return None
        known = facts_of(self.problem)
        row = torch.zeros(known.p or 0, dtype=known.dtype, device=known.device)
        return with_weights_in(file, self.problem.module(row))
