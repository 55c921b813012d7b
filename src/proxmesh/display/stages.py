"""What every way to show a run shares: which stage it is in, and since when."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

__all__ = ["Watcher", "numbers", "speed"]

SECONDS_WORTH_TELLING = 1.0


class Watcher(ABC):
    """Watches a run and shows it.

    A run is prepared in stages (the data is opened, constants are found, the step is
    compiled), then it goes.

    Parameters
    ----------
    steps
        Iterations of the run.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._stage = ""  # empty while the run goes
        self._since = 0.0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show it while this lasts; it may be left and entered again."""
        self._open()
        try:
            yield
        finally:
            self._end_stage()
            self._close()

    def expect(self, steps: int) -> None:
        """So many iterations will be made, which is known when the data is open."""
        self._steps = steps

    def on_prepare(self, what: str) -> None:
        """A stage before iteration 0 begins."""
        self._end_stage()
        self._stage, self._since = what, time.monotonic()
        self._stage_began(what)

    def on_compile(self, seconds: float) -> None:
        """The step was compiled, in so many seconds."""
        self._stage = ""
        self._stage_ended("compiling the step", seconds)

    def on_step(self, k: int, seconds: float) -> None:
        """Iteration k is finished."""
        self._end_stage()
        self._moved(k, seconds)

    def on_row(self, row: Mapping[str, float]) -> None:
        """There are new numbers."""
        self._end_stage()
        self._measured(row)

    def _end_stage(self) -> None:
        stage, self._stage = self._stage, ""
        seconds = time.monotonic() - self._since
        if stage and seconds >= SECONDS_WORTH_TELLING:
            self._stage_ended(stage, seconds)

    def _open(self) -> None:  # noqa: B027 - nothing to do for most
        """Begin to show."""

    def _close(self) -> None:  # noqa: B027
        """Leave what is shown as it is."""

    @abstractmethod
    def _stage_began(self, what: str) -> None: ...

    @abstractmethod
    def _stage_ended(self, what: str, seconds: float) -> None: ...

    @abstractmethod
    def _moved(self, k: int, seconds: float) -> None: ...

    @abstractmethod
    def _measured(self, row: Mapping[str, float]) -> None: ...


def speed(k: int, seconds: float) -> str:
    """Iterations per second of computing, evaluations left out.

    Examples
    --------
    >>> speed(500, 2.0), speed(1, 4.0), speed(0, 0.0)
    ('250 it/s', '4 s/it', '')
    """
    if not (k and seconds > 0):
        return ""
    if k >= seconds:
        return f"{k / seconds:.0f} it/s"
    return f"{seconds / k:.2g} s/it"


def numbers(row: Mapping[str, float], most: int = 2) -> str:
    """The one or two numbers that people watch.

    Examples
    --------
    >>> numbers({"stationarity": 0.5, "train_loss": 1.25, "norm": 3.0})
    'stationarity 5.00e-01  loss 1.2500'
    """
    parts = []
    if "stationarity" in row:
        parts.append(f"stationarity {row['stationarity']:.2e}")
    if "test_accuracy" in row:
        parts.append(f"test accuracy {row['test_accuracy']:.4f}")
    elif "test_r2" in row:
        parts.append(f"test R2 {row['test_r2']:.4f}")
    elif "train_loss" in row:
        parts.append(f"loss {row['train_loss']:.4f}")
    return "  ".join(parts[:most])
