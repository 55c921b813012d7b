"""Notice that threads keep each other waiting, and go on with fewer."""

import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import torch

from proxmesh.errors import Notice

__all__ = ["ThreadWatch", "delay"]

SECONDS_BETWEEN_LOOKS = 2.0
TOO_LONG = 20.0  # times what one thread takes; a few times is usual beside other jobs
NUMBERS = 1 << 17  # enough for torch to use several threads, for some 20 microseconds
REPEATS = 9


def delay(threads: int) -> float:
    """How many times longer than one thread these take for a small sum.

    Parameters
    ----------
    threads
        Their number; torch's own is the same before and after.
    """
    numbers = torch.ones(NUMBERS)
    into = torch.empty_like(numbers)
    before = torch.get_num_threads()

    def seconds(count: int) -> float:
        torch.set_num_threads(count)
        times = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            torch.add(numbers, numbers, out=into)
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    try:
        return seconds(threads) / seconds(1)
    finally:
        torch.set_num_threads(before)


@final
@dataclass(slots=True)
class ThreadWatch:
    """Looks now and then whether several threads are still quicker than one.

    When other programs use the cores, a thread may wait for the time slice of another
    in every operation: milliseconds for what one thread does in microseconds. A small
    sum tells; nothing of the run is touched. With fewer threads sums may be taken in
    another order, so results agree to rounding from there on.

    Parameters
    ----------
    may_lower
        Whether fewer threads may be taken: nobody has chosen their number.
    delay
        Tells how many times longer than one thread this number of threads takes.
    notes
        What was done, one sentence each.

    Examples
    --------
    >>> watch = ThreadWatch(may_lower=False)
    >>> watch.look()
    >>> watch.notes
    []
    """

    may_lower: bool
    delay: Callable[[int], float] = delay
    notes: list[str] = field(default_factory=list)
    next: float = 0.0

    @classmethod
    def over(cls, asked: int | None) -> "ThreadWatch":
        """Take as many threads as were asked for, or look whether torch's are too many.

        Called before anything is timed or compiled.
        """
        if asked is not None:
            torch.set_num_threads(asked)
        watch = cls(may_lower=asked is None)
        watch.look()
        return watch

    def look(self, k: int = 0) -> None:
        """Look, if it is time to; k is the iteration that was just made."""
        if not self.may_lower or time.perf_counter() < self.next:
            return
        before = threads = torch.get_num_threads()
        while threads > 1 and self._is_too_long(threads):
            threads //= 2
        if threads < before:
            torch.set_num_threads(threads)
            self._tell(before, threads, k)
        self.next = time.perf_counter() + SECONDS_BETWEEN_LOOKS

    def _is_too_long(self, threads: int) -> bool:
        """Asked twice: a single pause is nothing."""
        return self.delay(threads) > TOO_LONG and self.delay(threads) > TOO_LONG

    def _tell(self, before: int, now: int, k: int) -> None:
        what = (
            f"from iteration {k} on {now} of {before} threads: beside other programs "
            "they waited for each other."
        )
        self.notes.append(what)
        warnings.warn(
            f"{what} `threads` says how many to keep; OMP_WAIT_POLICY=passive, set "
            "before torch is imported, lets them sleep.",
            Notice,
            stacklevel=4,
        )
