"""Progress of a run: a live bar on a terminal, plain lines in a pipe, or silence."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from proxmesh.cli.console import console

__all__ = ["progress"]


@contextmanager
def progress(
    steps: int, silent: bool
) -> Iterator["LiveProgress | PlainProgress | None"]:
    """Give the observer that suits where stdout goes."""
    if silent:
        yield None
    elif console.is_terminal:
        with _bar() as bar:
            yield LiveProgress(bar, steps)
    else:
        yield PlainProgress(steps)


class LiveProgress:
    """Iterations, speed, time left and the current numbers on one moving line."""

    def __init__(self, bar: Progress, steps: int) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=steps, speed="", numbers="")
        self._compiled = ""

    def on_compile(self, seconds: float) -> None:
        """Keep the time that compiling took beside the speed."""
        self._compiled = f" (compiled in {seconds:.0f} s)"

    def on_step(self, k: int, seconds: float) -> None:
        """Move the bar."""
        shown = speed(k, seconds) + self._compiled
        self._bar.update(self._task, completed=k, speed=shown)

    def on_row(self, row: Mapping[str, float]) -> None:
        """Show the current numbers."""
        self._bar.update(self._task, numbers=numbers(row))


class PlainProgress:
    """One line per evaluation."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def on_compile(self, seconds: float) -> None:
        """Say how long it took."""
        console.print(f"step compiled in {seconds:.1f} s")

    def on_step(self, k: int, seconds: float) -> None:
        """Say nothing between evaluations."""

    def on_row(self, row: Mapping[str, float]) -> None:
        """Print the current numbers."""
        k = int(row["iteration"])
        width = len(str(self._steps))
        line = f"{k:>{width}}/{self._steps}  {numbers(row)}  {speed(k, row['seconds'])}"
        console.print(line.rstrip())


def speed(k: int, seconds: float) -> str:
    """Iterations per second of computing, evaluations left out."""
    return f"{k / seconds:.0f} it/s" if seconds > 0 else ""


def numbers(row: Mapping[str, float], most: int = 2) -> str:
    """The one or two numbers that people watch."""
    parts = []
    if "stationarity" in row:
        parts.append(f"stationarity {row['stationarity']:.2e}")
    if "test_accuracy" in row:
        parts.append(f"test accuracy {row['test_accuracy']:.4f}")
    elif "train_loss" in row:
        parts.append(f"loss {row['train_loss']:.4f}")
    return "  ".join(parts[:most])


def _bar() -> Progress:
    return Progress(
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[numbers]}"),
        console=console,
    )
