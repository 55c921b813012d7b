"""Go on with a run that was cut off, from its folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proxmesh.display.progress import Wanted, watching
from proxmesh.errors import InputError
from proxmesh.graphs import Graph
from proxmesh.metrics import Metric
from proxmesh.network import connect
from proxmesh.network.links import Link
from proxmesh.runs.build import build
from proxmesh.runs.config import Config, flattened, load_config, without_empty
from proxmesh.runs.methods import is_from_file, whole_name
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.links_as_text import links_from_written
from proxmesh.solver.method_as_text import from_written
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.preparation import prepared
from proxmesh.solver.reading import MADE_IN_PYTHON
from proxmesh.solver.result import Result
from proxmesh.solver.resuming import newest_manifest, newest_whole
from proxmesh.solver.run import Run
from proxmesh.solver.settings import LOCAL, Callback, Hooks, Observer, Settings
from proxmesh.types import Algorithm, Problem, facts_of

__all__ = ["nothing_left", "resume", "saved_config"]

FREE = {f"run.{name}" for name in (*LOCAL, "steps", "checkpoint_every")}
"""Keys of a config that may be others when a run goes on."""


def saved_config(folder: Path, said: Mapping[str, Any]) -> Config:
    """The config of the run in a folder, with what may be changed of it.

    `said` are dotted keys; what is not as it was and may not change is refused.
    """
    file = folder / "config.toml"
    if not file.is_file():
        raise InputError(
            f"folder `{folder}` holds no run (no config.toml). Name the folder of one; "
            "`proxmesh runs` lists them."
        )
    saved = flattened(without_empty(load_config(file).tree()))
    changed: dict[str, Any] = {}
    for key, value in said.items():
        if key in FREE:
            changed[key] = value
        elif not _is_same(saved.get(key), value):
            raise InputError(
                f"the run in `{folder}` cannot go on: its `{key}` was "
                f"{saved.get(key)!r}, now {value!r} is asked for. Leave that out, or "
                "start a new run in another folder."
            )
    steps = changed.get("run.steps")
    if isinstance(steps, int) and steps < saved["run.steps"]:
        raise InputError(
            f"the run in `{folder}` has {saved['run.steps']} steps, which can be "
            f"raised but not lowered, got {steps}."
        )
    return load_config(file, changed)


def _is_same(before: Any, now: Any) -> bool:
    """Whether two values of a config mean the same; files are kept by whole paths."""
    if isinstance(before, str) and isinstance(now, str) and before != now:
        if is_from_file(now):
            return whole_name(now) == before
        return Path(now).exists() and str(Path(now).resolve()) == before
    return bool(before == now)


def nothing_left(folder: Path, steps: int | None) -> str | None:
    """Why a run has no more to do, if it has not."""
    run = RunFolder(folder)
    if not run.is_whole():
        return None
    summary, planned = run.summary(), run.config()["run"]["steps"]
    outcome = Outcome(summary["outcome"])
    more = outcome is Outcome.FINISHED and steps is not None and steps > planned
    if not more:
        return f"the run in `{folder}` has ended: {outcome}, {summary['message']}"
    if newest_manifest(run.checkpoints) is None:
        raise InputError(
            f"the run in `{folder}` is finished and was too short for a checkpoint. "
            f"Run it again: `proxmesh run --config {folder}/config.toml --steps "
            f"{steps}`."
        )
    return None


def resume(
    folder: str | Path,
    problem: Problem | None = None,
    *,
    algorithm: Algorithm[Any] | None = None,
    steps: int | None = None,
    engine: str = "auto",
    timeout: float | None = None,
    compile: bool | None = None,  # noqa: A002 - torch's own word for it
    metrics: Mapping[str, Metric] | None = None,
    callbacks: Sequence[Callback] = (),
    observer: Observer | None = None,
    progress: Wanted = "auto",
    links: Sequence[Link] | None = None,
) -> Result:
    """Go on with a run that was cut off: a crash, a power cut, Ctrl-C.

    On the same engine, with as many ranks, the finished run is bit for bit what it
    would have been without the break. A checkpoint of any number of ranks goes on on
    any other number.

    Parameters
    ----------
    folder
        The run folder, which was given to `proxmesh.solve` as `out`.
    problem
        The same as before. Only a run that was started on the command line, whose
        config tells all, can do without.
    algorithm
        The same as before, if it is a class of your own; ours are in the checkpoint.
    steps
        A larger number than before; all iterations count, not only the further ones.
    engine, timeout, compile
        As in `proxmesh.solve`, and as before if they are not given.
    metrics, callbacks, observer, progress
        As in `proxmesh.solve`; they are not in the checkpoint.
    links
        The same as before, if one has a compressor of your own; others are kept.

    Returns
    -------
    Result
        Of the whole run, with its whole history.

    Examples
    --------
    >>> import tempfile
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(3))
    >>> place = tempfile.mkdtemp()
    >>> def power_cut(row, state):
    ...     if row["iteration"] == 60:
    ...         raise SystemExit
    >>> try:
    ...     pm.solve(problem, pm.DSGT(0.1), pm.graphs.path(3), steps=80, out=place,
    ...              checkpoint_every=25, callbacks=[power_cut])
    ... except SystemExit:
    ...     pm.resume(place, problem).final["iteration"]
    80
    """
    folder = Path(folder)
    if problem is None:
        run = _of_config(folder, steps, engine, timeout, compile)
        return run.go(observer or watching(progress, run.settings.steps))
    checkpoint = newest_manifest(RunFolder(folder).checkpoints)
    if checkpoint is None:
        raise InputError(
            f"folder `{folder}` holds no checkpoint. Start the run again: "
            "`solve(..., out=folder, force=True)`."
        )
    manifest = checkpoint.manifest
    method = algorithm or from_written(manifest.algorithm)
    if method is None:
        raise InputError(
            f"the run in `{folder}` was made by {manifest.algorithm.get('repr')}, "
            "which is a class of your own. Give it: `resume(..., algorithm=...)`."
        )
    settings = Settings.of_keywords(
        {
            **manifest.settings,
            "compile": manifest.settings["compile"] == "on"
            if compile is None
            else compile,
            "engine": engine,
            "timeout": timeout or manifest.settings["timeout"],
            "steps": steps or manifest.settings["steps"],
        }
    )
    graph = Graph(manifest.agents, tuple(manifest.edges))
    models = links_from_written(manifest.links) if links is None else links
    like = facts_of(problem)
    world = connect(
        graph,
        engine,
        dtype=like.dtype,
        device=like.device,
        timeout=settings.timeout,
        links=() if settings.asynchronous else models,
    )
    hooks = Hooks(
        metrics=metrics or {},
        callbacks=callbacks,
        observer=observer,
        progress=observer is None and progress,
        out=folder,
        config=_kept(manifest.config),
        links=models if settings.asynchronous else (),
    )
    return prepared(
        problem,
        method,
        graph,
        settings=settings,
        hooks=hooks,
        world=world,
        checkpoint=newest_whole(RunFolder(folder).checkpoints, world),
    ).go()


def _kept(config: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A config that somebody gave; a description is made anew, with the new steps."""
    return None if config is None or MADE_IN_PYTHON in config else config


def _of_config(
    folder: Path,
    steps: int | None,
    engine: str,
    timeout: float | None,
    compile: bool | None,  # noqa: A002
) -> Run:
    said = {
        "run.steps": steps,
        "run.engine": engine,
        "run.timeout": timeout,
        "run.compile": None if compile is None else ("on" if compile else "off"),
    }
    given = {key: value for key, value in said.items() if value is not None}
    left = nothing_left(folder, steps)
    if left is not None:
        raise InputError(f"{left} Nothing is left to do.")
    return build(saved_config(folder, given)).prepare(folder, resume=True)
