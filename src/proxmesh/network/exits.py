"""End a process that others wait for: told, in one line, and not for ever."""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import NoReturn

from proxmesh.errors import LostRankError
from proxmesh.network.timeouts import Watch

__all__ = ["EXIT_LOST_RANK", "guard", "leave", "meeting"]

EXIT_LOST_RANK = 3
LINGER_SECONDS = 1.2  # before the first exit lets the launcher end the others


def leave(code: int) -> NoReturn:
    """End this process, past finalizers that would wait for the others.

    Not at once: its end makes the launcher end the others, who have a line to print.
    """
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(LINGER_SECONDS)
    os._exit(code)


def guard(watch: Watch) -> None:
    """Let an error that nobody catches end this process and tell the others.

    MPI's finalizer, which runs when Python ends, would wait for ranks that wait for us.
    """
    previous = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if isinstance(error, LostRankError):
            print(f"proxmesh: {error}", file=sys.stderr)
            leave(EXIT_LOST_RANK)
        watch.announce_exit(f"{kind.__name__}: {error}")
        previous(kind, error, trace)
        leave(130 if issubclass(kind, KeyboardInterrupt) else 1)

    sys.excepthook = hook
    atexit.register(_leave_if_lost, watch)


@contextmanager
def meeting(size: int, seconds: float) -> Iterator[None]:
    """Give up on ranks that do not come where no call can be interrupted.

    MPI makes communicators in calls that wait for everyone, without a limit.
    """

    def give_up() -> None:
        print(
            f"proxmesh: not all {size} ranks came within {seconds:g} s. See the "
            "messages of the others, then start all again; if one is only slow, raise "
            "`--timeout`.",
            file=sys.stderr,
        )
        leave(EXIT_LOST_RANK)

    alarm = threading.Timer(seconds, give_up)
    alarm.daemon = True
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()


def _leave_if_lost(watch: Watch) -> None:
    """A script that survived the loss of a rank still cannot finalize with it."""
    if watch.lost:
        leave(EXIT_LOST_RANK)
