"""Notice that a run has blown up, and find out where it began."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from proxmesh.types import World

__all__ = ["BLOW_UP", "is_sound", "post_mortem"]

BLOW_UP = 1e10
"""Growth of a squared size over its start (or 1) that counts as divergence."""


def is_sound(state: Any, world: World) -> bool:
    """Whether every number in every agent's part of the state is finite."""
    return not bool(world.reduce(_sick(state, math.inf).to(torch.float64), "max"))


def post_mortem(
    state: Any, step: Callable[[Any], Any], last: int, world: World, remedy: str
) -> str:
    """Replay from a good state; name the iteration, the first agent and a remedy.

    Every process of the network takes the same decisions, so none is left waiting.
    """
    largest = float(world.reduce(state.x.square().sum(1), "max"))
    limit = BLOW_UP * max(1.0, largest)
    sick = _sick(state, limit)
    while int(state.k) < last and not _any(sick, world):
        state = step(state)
        sick = _sick(state, limit)
    if not _any(sick, world):  # the metric blew up first: blame the largest model
        size = state.x.square().sum(1)
        sick = size >= world.reduce(size, "max")
    ids = torch.tensor(world.agents, device=sick.device)
    first = int(world.reduce(torch.where(sick, ids, world.n), "min"))
    others = int(world.reduce(sick.to(torch.float64), "sum")) - 1
    more = f" and {others} more" if others else ""
    return f"at iteration {int(state.k)}, first at agent {first}{more}. {remedy}"


def _sick(state: Any, limit: float) -> Tensor:
    """Which local agents hold a number that is not finite, or a huge model."""
    sick: Tensor = ~(state.x.square().sum(1) <= limit)
    for name in _fields(state):
        rows = getattr(state, name)
        if isinstance(rows, Tensor) and rows.is_floating_point() and rows.ndim > 1:
            sick |= ~rows.isfinite().flatten(1).all(1)
    return sick


def _fields(state: Any) -> list[str]:
    if dataclasses.is_dataclass(state):
        return [f.name for f in dataclasses.fields(state)]
    return ["x"]


def _any(sick: Tensor, world: World) -> bool:
    return bool(world.reduce(sick.to(torch.float64), "max"))
