"""A run folder turned into a result again, whoever made it."""

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from proxmesh.errors import InputError, Notice
from proxmesh.runs.build import build, build_algorithm
from proxmesh.runs.config import AlgorithmSection, load_config
from proxmesh.runs.methods import is_from_file
from proxmesh.solver.checkpoint import Checkpoint, checkpoints_in
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.method_as_text import from_written
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.reading import MADE_IN_PYTHON
from proxmesh.solver.result import Result
from proxmesh.solver.state import STATE, rebuilt, state_of
from proxmesh.solver.weights import tensors_in
from proxmesh.types import Algorithm, Problem, facts_of

__all__ = ["load"]


def load(
    folder: str | Path,
    problem: Problem | None = None,
    *,
    algorithm: Algorithm[Any] | None = None,
    state: bool = True,
) -> Result:
    """Read a run folder back: what `proxmesh.solve` returned, or `proxmesh run` left.

    Parameters
    ----------
    folder
        Given as `out` to `proxmesh.solve`, to ``result.save``, or on the command line.
    problem
        The one of the run, for ``result.model``; without it there is
        ``result.weights()``. A run of the command line has its problem in its config.
    algorithm
        That of the run, if it is a class of your own: a folder cannot run code, so a
        file that its config names is not loaded.
    state
        Whether to read the state, too, if the folder has it: in ``result.save`` it is
        written, otherwise it is that of the last checkpoint.

    Returns
    -------
    Result
        With its history, outcome and message; `state` is None where it was not kept.

    Examples
    --------
    >>> import tempfile
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(3))
    >>> result = pm.solve(problem, pm.DSGT(0.1), pm.graphs.path(3), steps=5)
    >>> place = result.save(tempfile.mkdtemp())
    >>> again = pm.load(place, problem)
    >>> again.algorithm, again.final == result.final
    (DSGT(alpha=0.1), True)
    >>> more = pm.solve(problem, pm.DSGT(0.1), pm.graphs.path(3), 5, state=again)
    >>> int(more.state.k)
    10
    """
    run = RunFolder(Path(folder))
    if not run.path.is_dir():
        raise InputError(f"`{folder}` is not a folder. Give that of a run.")
    if not run.has_summary():
        raise InputError(
            f"folder `{folder}` holds no run that has ended. `proxmesh runs show "
            f"{folder}` tells what there is."
        )
    summary, config = run.summary(), _config_in(run)
    of_program = MADE_IN_PYTHON in config or not config
    if problem is None and not of_program:
        problem = _rebuilt(run.path)
    method = algorithm or _method_in(config, run.path, of_program)
    return Result(
        history=run.history(),
        outcome=Outcome(summary["outcome"]),
        message=summary["message"],
        state=_state_in(run, method, problem, summary["final"]) if state else None,
        problem=problem,
        means={},
        compiled=config.get("run", {}).get("compile") == "on",
        algorithm=method,
        config=config,
        folder=run.path,
    )


def _config_in(run: RunFolder) -> dict[str, Any]:
    return run.config() if (run.path / "config.toml").exists() else {}


def _rebuilt(folder: Path) -> Problem | None:
    """The problem of a config; None, with a notice, if its data cannot be had."""
    threads = torch.get_num_threads()
    try:
        config = load_config(folder / "config.toml", {"run.engine": "simulated"})
        bare = AlgorithmSection(name="d-psgd")  # the problem is the same for any method
        return build(config.model_copy(update={"algorithm": bare})).problem
    except InputError as error:
        warnings.warn(
            f"the problem of `{folder}` cannot be built, so there are only weights: "
            f"{error}",
            Notice,
            stacklevel=3,
        )
        return None
    finally:
        torch.set_num_threads(threads)


def _method_in(config: Mapping[str, Any], folder: Path, of_program: bool) -> Any:
    """The method with its constants; None for a class that is not ours.

    A file that a config names is not loaded: reading a folder must not run code.
    """
    section = dict(config.get("algorithm", {}))
    name = section.pop("name", None)
    if name is None or is_from_file(name):
        return None
    if not of_program:
        return build_algorithm(load_config(folder / "config.toml"))
    try:
        return from_written({"name": name, "options": section})
    except InputError:  # not one of ours
        return None


def _state_in(
    run: RunFolder, method: Any, problem: Problem | None, final: Mapping[str, float]
) -> Any:
    """The last state, if it was kept and is of a known kind."""
    kind = None if method is None else state_of(method)
    if kind is None:
        return None
    told = None if problem is None else facts_of(problem).device
    device = told or torch.device("cpu")
    file = run.path / STATE
    if file.exists():
        tensors = tensors_in(file)
        if {*tensors} != {field.name for field in dataclasses.fields(kind)}:
            raise InputError(
                f"`{file}` holds {', '.join(sorted(tensors))}, which is not a state of "
                f"`{type(method).__name__}`. Give the algorithm of that run."
            )
        rows = {n: t.to(device) if t.ndim else t for n, t in tensors.items()}
        return rebuilt(kind, rows)
    for path in checkpoints_in(run.checkpoints)[:1]:
        found = Checkpoint.opened(path)
        if found.iteration == final.get("iteration"):
            agents = range(found.manifest.agents)
            found.require_whole(agents)
            return found.state(kind, found.tensors(agents, device))
    return None
