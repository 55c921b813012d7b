"""A few times a second all ranks ask one another, at an iteration they agree on."""

import time
from collections.abc import Sequence
from typing import final

import torch

from proxmesh.types import World

__all__ = ["Pulse"]

SECONDS_BETWEEN_BEATS = 0.05  # mpiexec kills a quarter of a second after SIGTERM


@final
class Pulse:
    """Tells at which iterations the ranks ask, and what any of them answered.

    Ranks are at different iterations at any moment, and one that stopped on its own
    would leave its neighbors waiting. So what concerns all is only noted, and decided
    at a beat.

    Parameters
    ----------
    world
        The ranks. Where there is one process, a beat costs nothing.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._every = 1  # iterations between two beats
        self._next = 0
        self._asked = time.monotonic()

    def is_at(self, k: int) -> bool:
        """Whether iteration k has a beat; the same on every rank."""
        return k >= self._next

    def ask(self, k: int, answers: Sequence[bool]) -> list[bool]:
        """What any rank has answered, for each question; every rank calls it."""
        now = time.monotonic()
        local = torch.tensor([*map(float, answers), now - self._asked])
        if self._world.distributed:
            rows = local.repeat(len(self._world.agents), 1)
            local = self._world.reduce(rows, "max")
        *found, seconds = local.tolist()
        quick = seconds < SECONDS_BETWEEN_BEATS
        self._every = 2 * self._every if quick else max(1, self._every // 2)
        self._next, self._asked = k + self._every, now
        return [bool(answer) for answer in found]
