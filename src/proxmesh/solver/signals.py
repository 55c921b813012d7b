"""Ctrl-C on several machines: all ranks stop at the same iteration."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, final

from proxmesh.types import World

__all__ = ["Signals"]

SIGNALS = (  # mpiexec passes on SIGUSR1 alone without killing soon after
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
)


@final
class Signals:
    """Holds a signal back until all ranks have heard of it, at a beat of the pulse."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._heard: int | None = None

    @property
    def heard(self) -> bool:
        """Whether this rank was asked to stop."""
        return self._heard is not None

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
            if before[number] != signal.SIG_IGN:  # such as SIGHUP under nohup
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
