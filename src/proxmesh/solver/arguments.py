"""Checks of what a run is given, made before anything is computed or written."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from proxmesh.algorithms import ALGORITHMS
from proxmesh.algorithms.checks import require_fit
from proxmesh.errors import InputError, unknown
from proxmesh.limits import require_memory
from proxmesh.metrics import COLUMNS
from proxmesh.solver.settings import Hooks, Settings
from proxmesh.solver.state import state_of
from proxmesh.types import Algorithm, Problem, World, facts_of, finds_constants

__all__ = [
    "require_columns",
    "require_parts",
    "require_room",
    "require_start",
    "require_width",
    "require_wishes",
]


def require_parts(problem: Problem | None, algorithm: Algorithm[Any]) -> None:
    """Refuse a problem, if given, or an algorithm that lacks what every run needs."""
    for thing, kind, methods in (
        (problem, "problem", ("sample", "grad", "prox")),
        (algorithm, "algorithm", ("init", "step", "cost")),
    ):
        if thing is None:
            continue
        if isinstance(thing, str) and thing in ALGORITHMS:
            built = ALGORITHMS[thing]
            options = ", ".join(f"{n}={v!r}" for n, v in built.fixed.items())
            raise InputError(
                f"{kind} `{thing}` is a name of the command line. Build it: "
                f"`pm.{built.kind.__name__}({options})`."
            )
        if isinstance(thing, type):
            name = thing.__name__
            raise InputError(f"{kind} `{name}` is a class. Build it: `{name}(...)`.")
        missing = [f"`{m}`" for m in methods if not hasattr(thing, m)]
        if missing:
            raise InputError(
                f"`{type(thing).__name__}` is no {kind}: it has no "
                f"{', '.join(missing)}."
            )


def require_start(state: Any, x0: Any, algorithm: Algorithm[Any]) -> None:
    """Refuse two starts, a state that is none, or one without its constants."""
    if state is None:
        return
    if x0 is not None:
        raise InputError(
            "`state` and `x0` are both given; a run starts at one of them."
        )
    if not (hasattr(state, "k") and hasattr(state, "x")):
        raise InputError(
            f"`state` is a {type(state).__name__}. Give the `state` of a result."
        )
    if finds_constants(algorithm) and algorithm.missing:
        raise InputError(
            f"`state` was made with a `{algorithm.missing[0]}` that "
            f"`{type(algorithm).__name__}` does not have. Go on from the result "
            "itself, or give `result.algorithm`."
        )


def require_wishes(settings: Settings, hooks: Hooks) -> None:
    """Refuse what a run is to tell and to stop at, if it cannot know it."""
    _require_targets(settings.target, hooks)
    for name in (*settings.patience, *(rule.metric for rule in hooks.rules)):
        _require_known(name, hooks, "`patience`")
    _require_evaluation(settings, hooks)


def _require_targets(target: Mapping[str, float], hooks: Hooks) -> None:
    """Refuse targets and own columns by name before anything is computed."""
    for name in hooks.metrics:
        if name in COLUMNS:
            raise InputError(f"`metrics`: `{name}` is a column already. Rename it.")
    for name, value in target.items():
        _require_known(name, hooks, "`target`")
        if not math.isfinite(value):
            raise InputError(f"`target` of `{name}` must be a number, got {value}.")


def _require_evaluation(settings: Settings, hooks: Hooks) -> None:
    """Refuse to ask for numbers of all agents where each evaluates alone."""
    if settings.evaluation != "local":
        return
    if settings.monitor is not None:
        raise InputError(
            f"the monitor `{settings.monitor}` sums over all agents, but `evaluation` "
            "is `local`: leave one of them out."
        )
    if settings.target or settings.patience or hooks.rules or hooks.metrics:
        raise InputError(
            "`evaluation` is `local`, so no number of the whole network is known: "
            "leave `target`, `patience` and `metrics` out, or evaluate at the `mean`."
        )


def _require_known(name: str, hooks: Hooks, where: str) -> None:
    if name not in COLUMNS and name not in hooks.metrics:
        raise unknown("metric", name, [*COLUMNS, *hooks.metrics], of=where)


def require_columns(
    names: Iterable[str], columns: Sequence[str], where: str = "target"
) -> None:
    """Refuse to stop by a column that this run turns out not to have."""
    for name in names:
        if name not in columns:
            raise InputError(
                f"`{where}` names `{name}`, which this problem and algorithm do not "
                f"provide. Here: {', '.join(columns)}."
            )


def require_room(algorithm: Algorithm[Any], problem: Problem, world: World) -> None:
    """Refuse a state that does not fit into memory, before its first row is made."""
    kind, facts, agents = state_of(algorithm), facts_of(problem), len(world.agents)
    if kind is None or facts.p is None:
        return
    tensors = len(fields(kind)) - 1  # all but `k` have a row per agent
    size = tensors * agents * facts.p * (facts.dtype or torch.float32).itemsize
    require_memory(
        f"the state of `{type(algorithm).__name__}` ({tensors} x {agents:,} agents x "
        f"{facts.p:,} parameters)",
        size,
        "Take a smaller model or fewer agents, or spread them over more ranks.",
    )


def require_width(x: Tensor, problem: Problem, world: World, name: str) -> None:
    """Refuse rows that fit neither the network nor the model."""
    require_fit(x, world, name)
    p = facts_of(problem).p
    if p is not None and x.shape[1] != p:
        raise InputError(
            f"`{name}` has {x.shape[1]} columns but the model has {p} trainable "
            "parameters."
        )
