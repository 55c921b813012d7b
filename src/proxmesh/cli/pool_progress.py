"""Progress of many runs: one line for the whole and one for each that is running."""

import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from proxmesh.cli.console import console
from proxmesh.cli.progress import numbers
from proxmesh.launchers import cores
from proxmesh.runs.pool import (
    Crew,
    Ended,
    Errand,
    Message,
    Noted,
    Progressed,
)

__all__ = ["watched"]

COLORS = {"diverged": "red", "failed": "red", "interrupted": "yellow"}


def watched(
    errands: Sequence[Errand],
    jobs: int | None,
    quiet: bool,
    and_then: Callable[[Ended], Sequence[Errand]] = lambda _: (),
    total: int | None = None,
) -> None:
    """Make the runs and show how they go; `and_then` may add runs after one ended."""
    if not errands:
        return
    threads = max((e.config["run"]["threads"] for e in errands), default=1)
    size = min(jobs or max(1, cores() // threads), total or len(errands))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with Crew(size) as crew, _shown(total or len(errands), quiet) as show:
            for errand in errands:
                crew.submit(errand)
            for message in crew.messages():
                show(message)
                if isinstance(message, Ended):
                    for errand in and_then(message):
                        crew.submit(errand)
    except (KeyboardInterrupt, SystemExit):
        console.print("stopped; what has ended is kept, the same command goes on")
        raise


class _shown:  # noqa: N801 - a context manager that reads like a function
    """Choose how to show messages: bars on a terminal, lines in a pipe, nothing."""

    def __init__(self, total: int, quiet: bool) -> None:
        self._total, self._quiet = total, quiet
        self._ended = 0
        self._notes: set[str] = set()
        self._bars: dict[str, Any] = {}
        self._progress: Progress | None = None

    def __enter__(self) -> Callable[[Message], None]:
        if not self._quiet and console.is_terminal:
            self._progress = _bars()
            self._progress.start()
            self._all = self._progress.add_task(
                "all runs", total=self._total, numbers=""
            )
        return self._show

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _show(self, message: Message) -> None:
        if isinstance(message, Progressed):
            self._move(message)
        elif isinstance(message, Noted):
            if message.text not in self._notes and not self._quiet:
                told = escape(f"{message.errand.name}: {message.text}")
                console.print(f"[yellow]note:[/] {told}")
            self._notes.add(message.text)
        else:
            self._end(message)

    def _move(self, message: Progressed) -> None:
        if self._progress is None:
            return
        name = message.errand.name
        if name not in self._bars:
            steps = message.errand.config["run"]["steps"]
            self._bars[name] = self._progress.add_task(name, total=steps, numbers="")
        update: dict[str, Any] = {"completed": message.k}
        if message.row is not None:
            update["numbers"] = numbers(message.row)
        self._progress.update(self._bars[name], **update)

    def _end(self, message: Ended) -> None:
        self._ended += 1
        name = message.errand.name
        if self._progress is not None:
            if name in self._bars:
                self._progress.remove_task(self._bars.pop(name))
            self._progress.update(self._all, completed=self._ended)
        if self._quiet:
            return
        color = COLORS.get(message.outcome, "green")
        bad = message.outcome in COLORS
        told = message.message if bad else numbers(message.final)
        width = len(str(self._total))
        count = f"{self._ended:>{width}}/{self._total}"
        end = f"[{color}]{message.outcome}[/]  {escape(told)}"
        console.print(f"{count}  {escape(name)}  {end}")


def _bars() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[numbers]}"),
        console=console,
    )
