"""Ctrl-C on several machines: all ranks stop at the same iteration."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, final

import torch

from proxmesh.types import World

__all__ = ["Signals"]

SECONDS_BETWEEN_PULSES = 0.5
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@final
class Signals:
    """Holds a signal back until all ranks have heard of it.

    Ranks are at different iterations when a signal reaches them, and one that stopped
    on its own would leave its neighbors waiting. So a signal is only noted, and a few
    times a second, at an iteration that all ranks agree on, they ask one another.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._heard: int | None = None
        self._every = 1  # iterations between two pulses
        self._next = 0
        self._asked = time.monotonic()

    def ask_to_stop(self, k: int) -> bool:
        """Whether any rank was asked to stop; every rank calls it at every k."""
        if not self._world.distributed or k < self._next:
            return False
        now = time.monotonic()
        local = torch.tensor([float(self._heard is not None), now - self._asked])
        rows = local.repeat(len(self._world.agents), 1)
        stop, seconds = self._world.reduce(rows, "max").tolist()
        quick = seconds < SECONDS_BETWEEN_PULSES
        self._every = 2 * self._every if quick else max(1, self._every // 2)
        self._next, self._asked = k + self._every, now
        return bool(stop)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note signals instead of raising; afterwards let the first one act."""
        alone = not self._world.distributed
        if alone or threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[int, Any] = {
            number: signal.getsignal(number) for number in SIGNALS
        }
        for number in SIGNALS:
            signal.signal(number, self._note(before[number]))
        try:
            yield
        finally:
            for noted, handler in before.items():
                signal.signal(noted, handler)
        if self._heard is not None and before[self._heard] == signal.SIG_DFL:
            os.kill(os.getpid(), self._heard)

    def _note(self, before: Any) -> Any:
        def note(number: int, frame: FrameType | None) -> None:
            if self._heard is not None and number == signal.SIGINT:
                raise KeyboardInterrupt  # asked twice: at once, whatever the others do
            self._heard = number
            if callable(before):
                with suppress(KeyboardInterrupt):  # it may know, but not interrupt
                    before(number, frame)

        return note
