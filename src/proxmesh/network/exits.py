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

from proxmesh.errors import InputError, LostRankError
from proxmesh.launchers import launched, wait_to_be_ended
from proxmesh.network.timeouts import Watch

__all__ = [
    "EXIT_BAD_INPUT",
    "EXIT_LOST_RANK",
    "JOIN_REMEDY",
    "end_on_error",
    "end_process",
    "in_words",
    "join_deadline",
    "let_the_root_speak_first",
]

EXIT_BAD_INPUT = 2
EXIT_LOST_RANK = 3
# The launcher ends the others as soon as the first process ends, and its exit code is
# the launcher's: a culprit goes before those who only report it.
LINGER_SECONDS = 0.9
LINGER_SECONDS_OF_A_SURVIVOR = 1.2
SECONDS_TO_HEAR_OF_THE_ROOT = 0.2
SEE_ITS_MESSAGE = "bad input, see its own message"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
JOINED: list[Watch] = []  # empty until this process has met the others
JOIN_REMEDY = (
    "See the messages of the others, then start all ranks again; if one is only slow, "
    "raise `--timeout`."
)


def end_process(code: int) -> NoReturn:
    """End this process without the finalizers, which would wait for the others.

    Not at once: its end makes the launcher end the others, who have a line to print.
    """
    with suppress(ValueError):  # not the main thread
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):  # a full disk behind them
        sys.stdout.flush()
        sys.stderr.flush()
    survives = code == EXIT_LOST_RANK
    time.sleep(LINGER_SECONDS_OF_A_SURVIVOR if survives else LINGER_SECONDS)
    os._exit(code)


def in_words(error: BaseException) -> str:
    """What other ranks are told about an error, in one line.

    Not the message of an `InputError`, which may quote private data, nor the name of a
    file.
    """
    if isinstance(error, InputError):
        return SEE_ITS_MESSAGE
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return f"{type(error).__name__}: {error}"


def let_the_root_speak_first() -> None:
    """Keep silent for a while if the root has found a fault, too: likely the same.

    A fault in this rank's own data is for this rank to tell, at once: the others refer
    to what it says, and the launcher may end it as soon as they have left.
    """
    for watch in JOINED:
        if watch.transport.rank == 0:
            watch.announce_exit(SEE_ITS_MESSAGE)  # so that the others know
            return
        if not watch.root_has_stopped(SECONDS_TO_HEAR_OF_THE_ROOT):
            return
    if launched(checked=False).rank:
        wait_to_be_ended()


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
        watch.announce_exit(in_words(error))
        if isinstance(error, InputError | OSError):
            let_the_root_speak_first()
            print(f"proxmesh: {error}", file=sys.stderr)
            end_process(EXIT_BAD_INPUT)
        previous(kind, error, trace)
        end_process(130 if issubclass(kind, KeyboardInterrupt) else 1)

    JOINED.append(watch)
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
