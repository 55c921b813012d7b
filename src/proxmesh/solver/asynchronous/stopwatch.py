"""Seconds of an asynchronous run: those in which this rank could have stepped."""

import time
from typing import Any, final

from proxmesh.solver.asynchronous.turns import Turns

__all__ = ["TurnsWatch"]


@final
class TurnsWatch:
    """Stands in for the loop's `Stopwatch`: evaluations count that stop nobody here.

    What is left out is the time in which evaluating had the turn. Waiting for others
    counts.
    """

    def __init__(self, before: float) -> None:
        self.device: Any = None
        self.before = before
        self._begin: float | None = None
        self._turns: Turns | None = None

    def start(self, turns: Turns | None = None) -> None:
        """Begin to count, once; afterwards it never stands still."""
        if turns is not None:
            self._turns, self._begin = turns, time.perf_counter()

    def stop(self) -> None:
        """Go on: nobody stops for an evaluation."""

    @property
    def seconds(self) -> float:
        """Seconds counted so far."""
        if self._begin is None or self._turns is None:
            return self.before
        passed = time.perf_counter() - self._begin
        return self.before + passed - self._turns.lent_seconds
