"""End a process that others wait for: tell them, print one line, and do not hang."""

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

__all__ = [
    "EXIT_LOST_RANK",
    "JOIN_REMEDY",
    "end_on_error",
    "end_process",
    "join_deadline",
]

EXIT_LOST_RANK = 3
LINGER_SECONDS = 1.2  # the launcher ends the others as soon as the first process ends
JOIN_REMEDY = (
    "See the messages of the others, then start all ranks again; if one is only slow, "
    "raise `--timeout`."
)


def end_process(code: int) -> NoReturn:
    """End this process without the finalizers, which would wait for the others.

    Not at once: its end makes the launcher end the others, who have a line to print.
    """
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(LINGER_SECONDS)
    os._exit(code)


def end_on_error(watch: Watch) -> None:
    """Let an error that nobody catches end this process and tell the others.

    MPI's finalizer, which runs when Python ends, would wait for ranks that wait for us.
    """
    previous = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if isinstance(error, LostRankError):
            print(f"proxmesh: {error}", file=sys.stderr)
            end_process(EXIT_LOST_RANK)
        watch.announce_exit(f"{kind.__name__}: {error}")
        previous(kind, error, trace)
        end_process(130 if issubclass(kind, KeyboardInterrupt) else 1)

    sys.excepthook = hook
    atexit.register(_end_if_a_rank_was_lost, watch)


@contextmanager
def join_deadline(ranks: int, seconds: float) -> Iterator[None]:
    """End this process if the calls within, which nothing can interrupt, take longer.

    MPI makes communicators in calls that wait for every rank, without a limit.
    """

    def give_up() -> None:
        print(
            f"proxmesh: not all {ranks} ranks joined within {seconds:g} s. "
            f"{JOIN_REMEDY}",
            file=sys.stderr,
        )
        end_process(EXIT_LOST_RANK)

    alarm = threading.Timer(seconds, give_up)
    alarm.daemon = True
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()


def _end_if_a_rank_was_lost(watch: Watch) -> None:
    """A script that survived the loss of a rank still cannot finalize with it."""
    if watch.lost:
        end_process(EXIT_LOST_RANK)
