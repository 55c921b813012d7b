"""One of two threads computes at a time: who steps, or who evaluates."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

__all__ = ["Turns"]


@final
class Turns:
    """The stepping thread has the turn, and lends it where the other one asks.

    Parameters
    ----------
    changed
        Is notified when one of them asks or is done.

    Examples
    --------
    >>> turns = Turns(threading.Condition())
    >>> turns.offer()  # nobody asks
    >>> turns.lent_seconds
    0.0
    """

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._asked = False
        self._lent = False
        self.lent_seconds = 0.0

    @property
    def is_asked(self) -> bool:
        """Whether the other thread waits for its turn."""
        return self._asked

    def offer(self) -> None:
        """Lend the turn if it is asked for, and wait until it is back."""
        with self._changed:
            if not self._asked:
                return
            begin = time.perf_counter()
            self._lent, self._asked = True, False
            self._changed.notify_all()
            while self._lent:
                self._changed.wait()
            self.lent_seconds += time.perf_counter() - begin

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have the turn; for the thread that borrows it."""
        self._take()
        try:
            yield
        finally:
            self._give_back()

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """Do without it for a while, if it is ours."""
        held = self._lent
        if held:
            self._give_back()
        try:
            yield
        finally:
            if held:
                self._take()

    def _take(self) -> None:
        with self._changed:
            self._asked = True
            self._changed.notify_all()
            while not self._lent:
                self._changed.wait()

    def _give_back(self) -> None:
        with self._changed:
            self._lent = False
            self._changed.notify_all()
