"""Checks of what `solve` is given, made before anything is computed or written."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from proxmesh.algorithms.checks import require_fit
from proxmesh.errors import InputError, unknown
from proxmesh.metrics import COLUMNS, Metric
from proxmesh.types import World

__all__ = [
    "require_callable",
    "require_columns",
    "require_evaluation",
    "require_metrics",
    "require_parts",
    "require_start",
    "require_width",
]

EVALUATIONS = ("mean", "local")
MONITORS = ("theory",)


def require_parts(problem: Any, algorithm: Any) -> None:
    """Refuse a problem or an algorithm that lacks what every run needs."""
    for thing, kind, methods in (
        (problem, "problem", ("sample", "grad", "prox")),
        (algorithm, "algorithm", ("init", "step", "cost")),
    ):
        if isinstance(thing, type):
            name = thing.__name__
            raise InputError(f"{kind} `{name}` is a class. Build it: `{name}(...)`.")
        missing = [f"`{m}`" for m in methods if not hasattr(thing, m)]
        if missing:
            raise InputError(
                f"`{type(thing).__name__}` is no {kind}: it has no "
                f"{', '.join(missing)}."
            )


def require_start(state: Any, x0: Any, algorithm: Any) -> None:
    """Refuse two starts, a state that is none, or one without its constants."""
    if state is not None and x0 is not None:
        raise InputError(
            "`state` and `x0` are both given; a run starts at one of them."
        )
    if state is not None and not (hasattr(state, "k") and hasattr(state, "x")):
        raise InputError(
            f"`state` is a {type(state).__name__}. Give the `state` of a result."
        )
    missing = getattr(algorithm, "missing", ())
    if state is not None and missing:
        raise InputError(
            f"`state` was made with a `{missing[0]}` that `{type(algorithm).__name__}` "
            "does not have. Go on from the result itself, or give `result.algorithm`."
        )


def require_callable(own: Any, callbacks: Any) -> None:
    """Refuse own metrics and callbacks that cannot be called."""
    if not isinstance(own, Mapping) or not all(map(callable, own.values())):
        raise InputError("`metrics` must map names to functions f(state, problem).")
    if callable(callbacks) or not all(map(callable, callbacks)):
        raise InputError("`callbacks` must be a list of functions f(row, state).")


def require_metrics(target: Any, own: Mapping[str, Metric]) -> None:
    """Refuse targets and own columns by name before anything is computed."""
    if not isinstance(target, Mapping):
        raise InputError(f"`target` must map columns to values, got {target!r}.")
    for name in own:
        if name in COLUMNS:
            raise InputError(f"`metrics`: `{name}` is a column already. Rename it.")
    for name, value in target.items():
        if name not in COLUMNS and name not in own:
            raise unknown("metric", name, [*COLUMNS, *own], of="`target`")
        if not (isinstance(value, int | float) and math.isfinite(value)):
            raise InputError(f"`target` of `{name}` must be a number, got {value}.")


def require_evaluation(
    evaluation: str,
    target: Mapping[str, float],
    own: Mapping[str, Metric],
    monitor: str | None,
) -> None:
    """Refuse an unknown way to evaluate, or numbers of all agents without a mean."""
    if evaluation not in EVALUATIONS:
        raise unknown("evaluation", evaluation, EVALUATIONS)
    if monitor not in {None, *MONITORS}:
        raise unknown("monitor", monitor, MONITORS)
    if monitor is not None and evaluation == "local":
        raise InputError(
            f"the monitor `{monitor}` sums over all agents, but `evaluation` is "
            "`local`: leave one of them out."
        )
    if evaluation == "local" and (target or own):
        raise InputError(
            "`evaluation` is `local`, so no number of the whole network is known: "
            "leave `target` and `metrics` out, or evaluate at the `mean`."
        )


def require_columns(target: Mapping[str, float], columns: Sequence[str]) -> None:
    """Refuse a target on a column that this run turns out not to have."""
    for name in target:
        if name not in columns:
            raise InputError(
                f"`target` names `{name}`, which this problem and algorithm do not "
                f"provide. Here: {', '.join(columns)}."
            )


def require_width(x: Tensor, problem: Any, world: World, name: str) -> None:
    """Refuse rows that fit neither the network nor the model."""
    require_fit(x, world, name)
    p = getattr(problem, "p", x.shape[1])
    if x.shape[1] != p:
        raise InputError(
            f"`{name}` has {x.shape[1]} columns but the model has {p} trainable "
            "parameters."
        )
