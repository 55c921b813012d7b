"""Notice that a run has blown up, and find out where it began."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from proxmesh.solver.state import rows_of
from proxmesh.types import World

__all__ = ["BLOW_UP", "is_finite", "post_mortem"]

BLOW_UP = 1e10
"""Growth of a squared size over its start (or 1) that counts as divergence."""


def is_finite(state: Any, world: World) -> bool:
    """Whether every number in every agent's part of the state is finite."""
    return not _any(_blown_up(state, math.inf), world)


def post_mortem(
    state: Any, step: Callable[[Any], Any], last: int, world: World, remedy: str
) -> str:
    """Replay from a good state; name the iteration, the first agent and a remedy.

    Every process of the network takes the same decisions, so none is left waiting.
    """
    largest = float(world.reduce(state.x.square().sum(1), "max"))
    limit = BLOW_UP * max(1.0, largest)
    blown = _blown_up(state, limit)
    while int(state.k) < last and not _any(blown, world):
        state = step(state)
        blown = _blown_up(state, limit)
    if not _any(blown, world):  # the metric blew up first: blame the largest model
        size = state.x.square().sum(1)
        blown = size >= world.reduce(size, "max")
    ids = torch.tensor(world.agents, device=blown.device)
    first = int(world.reduce(torch.where(blown, ids, world.n), "min"))
    others = int(world.reduce(blown.to(torch.float64), "sum")) - 1
    more = f" and {others} more" if others else ""
    return f"at iteration {int(state.k)}, first at agent {first}{more}. {remedy}"


def _blown_up(state: Any, limit: float) -> Tensor:
    """Which local agents hold a number that is not finite, or a huge model."""
    blown: Tensor = ~(state.x.square().sum(1) <= limit)
    for rows in rows_of(state).values():
        blown |= ~rows.isfinite().flatten(1).all(1)
    return blown


def _any(agents: Tensor, world: World) -> bool:
    """Whether this holds for any agent of the network."""
    return bool(world.reduce(agents.to(torch.float64), "max"))
