"""Going on: what a run takes over from an earlier result or from a checkpoint."""

from collections.abc import Mapping
from typing import Any

from proxmesh.algorithms.asynchronous import asynchronous_form
from proxmesh.errors import InputError
from proxmesh.solver.checkpoint import Checkpoint
from proxmesh.solver.result import Result
from proxmesh.solver.settings import Settings
from proxmesh.solver.state import state_of
from proxmesh.solver.suiting import suited_before
from proxmesh.types import (
    Algorithm,
    Problem,
    World,
    finds_constants,
    has_links,
    started,
)

__all__ = [
    "as_before",
    "as_saved",
    "found_before",
    "restored",
    "state_in",
    "with_constants_of",
]


def restored(
    checkpoint: Checkpoint,
    algorithm: Algorithm[Any],
    problem: Problem,
    world: World,
    settings: Settings,
) -> Any:
    """Our agents' part of the state that a checkpoint holds, of the method's kind."""
    tensors = checkpoint.tensors(world.agents, world.degree.device)
    if settings.asynchronous:
        return checkpoint.state(asynchronous_form(algorithm).state_kind, tensors)
    kind = state_of(algorithm)
    if kind is None:  # it does not say: have it make one
        kind = type(started(algorithm, tensors["x"], problem, world))
    elif has_links(world):
        kind = world.state_kind(kind, algorithm)
    return checkpoint.state(kind, tensors)


def state_in(earlier: Result) -> Any:
    """The state of a result, or one line on why it has none."""
    if earlier.state is None:
        raise InputError(
            "`state` is a result that was loaded without its state. Keep it with "
            "`result.save(folder)`, or go on with `pm.resume(folder, problem)`."
        )
    return earlier.state


def as_before(settings: Settings, earlier: Result) -> Settings:
    """Compile if the run that is gone on from did, where that is left open."""
    if settings.compile != "auto":
        return settings
    return settings.changed(compile="on" if earlier.compiled else "off")


def as_saved(settings: Settings, saved: Mapping[str, Any]) -> Settings:
    """Evaluate and compile as before the run was cut off, where that is left open."""
    open_ones = {
        "eval_every": settings.eval_every is None,
        "compile": settings.compile == "auto",
    }
    return settings.changed(**{n: saved[n] for n, left in open_ones.items() if left})


def with_constants_of(earlier: Any, algorithm: Algorithm[Any]) -> Algorithm[Any]:
    """The algorithm with what an earlier run of the same kind has found."""
    algorithm = suited_before(earlier, algorithm)
    same_kind = type(earlier) is type(algorithm)
    if same_kind and finds_constants(algorithm) and algorithm.missing:
        return algorithm.with_constants_of(earlier)
    return algorithm


def found_before(checkpoint: Checkpoint | None) -> tuple[str, ...]:
    """Names of the constants that a run had found before it was cut off."""
    saved = {} if checkpoint is None else checkpoint.manifest.algorithm
    return tuple(saved.get("automatic", ()))
