"""Progress of many runs: a line for all of them, and one for each that is running."""

import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from proxmesh.cli.console import console
from proxmesh.display.stages import numbers
from proxmesh.launchers import cores
from proxmesh.runs.pool import (
    Ended,
    Message,
    Noted,
    PlannedRun,
    Pool,
    Progressed,
)

__all__ = ["carry_out"]

ROOM_FOR_TWO = 110  # columns of a terminal, for a name, a bar and two numbers
BAD_OUTCOMES = {"diverged": "red", "failed": "red", "interrupted": "yellow"}


def carry_out(
    runs: Sequence[PlannedRun],
    jobs: int | None,
    quiet: bool,
    and_then: Callable[[Ended], Sequence[PlannedRun]] = lambda _: (),
    total: int | None = None,
) -> None:
    """Make the runs and show how they go; `and_then` may add runs after one ended."""
    if not runs:
        return
    threads = max(run.config["run"]["threads"] for run in runs)
    size = min(jobs or max(1, cores() // threads), total or len(runs))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with Pool(size) as pool, _Display(total or len(runs), quiet) as show:
            for run in runs:
                pool.submit(run)
            for message in pool.messages():
                show(message)
                if isinstance(message, Ended):
                    for run in and_then(message):
                        pool.submit(run)
    except (KeyboardInterrupt, SystemExit):
        console.print("stopped: finished runs are kept; repeat the command to go on")
        raise


class _Display:
    """Shows messages: with bars on a terminal, as lines in a pipe, or not at all."""

    def __init__(self, total: int, quiet: bool) -> None:
        self._total, self._quiet = total, quiet
        self._ended = 0
        self._notes: set[str] = set()
        self._bars: dict[str, TaskID] = {}
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
                told = escape(f"{message.run.name}: {message.text}")
                console.print(f"[yellow]note:[/] {told}")
            self._notes.add(message.text)
        else:
            self._end(message)

    def _move(self, message: Progressed) -> None:
        if self._progress is None:
            return
        name = message.run.name
        if name not in self._bars:
            steps = message.run.config["run"]["steps"]
            self._bars[name] = self._progress.add_task(name, total=steps, numbers="")
        update: dict[str, Any] = {"completed": message.k}
        if message.row is not None:
            narrow = console.width < ROOM_FOR_TWO
            update["numbers"] = numbers(message.row, most=1 if narrow else 2)
        self._progress.update(self._bars[name], **update)

    def _end(self, message: Ended) -> None:
        self._ended += 1
        name = message.run.name
        if self._progress is not None:
            if name in self._bars:
                self._progress.remove_task(self._bars.pop(name))
            self._progress.update(self._all, completed=self._ended)
        if self._quiet:
            return
        color = BAD_OUTCOMES.get(message.outcome, "green")
        bad = message.outcome in BAD_OUTCOMES
        told = message.message if bad else numbers(message.final)
        width = len(str(self._total))
        count = f"{self._ended:>{width}}/{self._total}"
        end = f"[{color}]{message.outcome}[/]  {escape(told)}"
        console.print(f"{count}  {escape(name)}  {end}")


def _bars() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[numbers]}"),
        console=console,
    )
