"""Seconds of computing: what a run is timed by."""

import time
from dataclasses import dataclass
from typing import final

import torch

__all__ = ["Stopwatch"]


@final
@dataclass(slots=True)
class Stopwatch:
    """Seconds of computing, with evaluations left out.

    Parameters
    ----------
    device
        Where the computing happens. A GPU works on after the call that starts it has
        returned, so the watch waits for it before it stops.

    Examples
    --------
    >>> watch = Stopwatch()
    >>> watch.start()
    >>> watch.stop()
    >>> 0 < watch.seconds < 1
    True
    """

    device: torch.device = torch.device("cpu")  # noqa: RUF009 - immutable
    before: float = 0.0
    since: float | None = None  # None while it is stopped

    def start(self) -> None:
        """Start counting."""
        self.since = time.perf_counter()

    def stop(self) -> None:
        """Stop counting, once everything that was started is finished."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.before, self.since = self.seconds, None

    @property
    def seconds(self) -> float:
        """Seconds counted so far."""
        running = 0.0 if self.since is None else time.perf_counter() - self.since
        return self.before + running
