"""A live bar on a terminal, plain lines in a pipe; and which of them suits."""

import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from proxmesh.display.notebook import NotebookProgress, in_notebook
from proxmesh.display.sparkline import sparkline
from proxmesh.display.stages import Watcher, numbers, speed
from proxmesh.launchers import launched

__all__ = ["LiveProgress", "PlainProgress", "Wanted", "watching"]

GAP = "  "
WIDEST_CURVE = 40  # characters; as many evaluations as a run has by itself

Wanted: TypeAlias = bool | Literal["auto"]


def watching(wanted: Wanted, steps: int, title: str = "") -> Watcher | None:
    """What shows a run that a program makes; None where nobody would look.

    Of several processes the first one shows it. Everything goes to stderr.

    Parameters
    ----------
    wanted
        True, False, or ``"auto"``: on a terminal and in a notebook.
    steps, title
        Of the run; the title stands before the bar.

    Examples
    --------
    >>> watching(False, steps=100) is None
    True
    """
    if not wanted or launched(checked=False).rank:
        return None
    if in_notebook():
        return NotebookProgress(steps, title)
    if sys.stderr.isatty():
        return LiveProgress(Console(stderr=True, highlight=False), steps, title)
    if wanted == "auto":
        return None
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    return PlainProgress(console, steps, title, announces=True)


class LiveProgress(Watcher):
    """Iterations, speed and time left; below, the numbers and how they came down.

    Parameters
    ----------
    console
        Where it is shown.
    steps, title
        As in `watching`.
    """

    def __init__(self, console: Console, steps: int, title: str = "") -> None:
        super().__init__(steps)
        self._console, self._title = console, title
        self._bar: _Bar | None = None
        self._shown: dict[str, Any] = {"completed": 0, "speed": ""}
        self._numbers = ""
        self._curve: list[float] = []  # the stationarity at every evaluation

    def _open(self) -> None:
        self._bar = _Bar(
            _Stage("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(compact=True),
            console=self._console,
        )
        self._bar.below = self._below()
        self._task = self._bar.add_task(
            self._title, total=self._steps, stage="", since=0.0, **self._shown
        )
        self._bar.start()

    def _close(self) -> None:
        assert self._bar is not None
        if not self._shown["completed"]:  # nothing but stages was seen
            self._bar.update(self._task, visible=False)
        self._bar.stop()
        self._bar = None

    def _stage_began(self, what: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, stage=what, since=time.monotonic())

    def _stage_ended(self, what: str, seconds: float) -> None:
        self._console.print(f"{what}: {seconds:.1f} s")

    def _moved(self, k: int, seconds: float) -> None:
        self._show(completed=k, speed=speed(k, seconds))

    def _measured(self, row: Mapping[str, float]) -> None:
        self._numbers = numbers(row)
        if "stationarity" in row:
            self._curve.append(row["stationarity"])
        if self._bar is not None:
            self._bar.below = self._below()
        self._show()

    def _below(self) -> str:
        """The numbers, and in the room that they leave the curve."""
        room = self._console.width - 1 - len(self._numbers) - len(GAP)
        plain = self._console.options.ascii_only
        curve = sparkline(self._curve, min(room, WIDEST_CURVE), plain)
        return GAP.join(filter(None, [self._numbers, curve]))

    def _show(self, **changes: Any) -> None:
        self._shown.update(changes)
        if self._bar is not None:
            self._bar.update(self._task, stage="", **changes)


class _Bar(Progress):
    """A bar with a line of text below it."""

    below = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, and the line once there is one."""
        yield from super().get_renderables()
        if self.below and any(task.visible for task in self.tasks):
            yield Text(self.below, no_wrap=True)


class _Stage(TextColumn):
    """The title, or before iteration 0 what is being done, and for how long."""

    max_refresh = 0.2

    def render(self, task: Task) -> Text:
        """Say it."""
        stage = task.fields["stage"]
        if not stage:
            return super().render(task)
        return Text(f"{stage} {time.monotonic() - task.fields['since']:.0f} s")


class PlainProgress(Watcher):
    """One line per evaluation.

    Parameters
    ----------
    console
        Where it is printed.
    steps, title
        As in `watching`.
    announces
        Print a line when a stage before iteration 0 begins, too.
    """

    def __init__(
        self, console: Console, steps: int, title: str = "", announces: bool = False
    ) -> None:
        super().__init__(steps)
        self._console, self._announces = console, announces
        self._before = f"{title}  " if title else ""

    def _stage_began(self, what: str) -> None:
        if self._announces:
            self._say(f"{what} ...")

    def _stage_ended(self, what: str, seconds: float) -> None:
        self._say(f"{what}: {seconds:.1f} s")

    def _moved(self, k: int, seconds: float) -> None:
        """Say nothing between evaluations."""

    def _measured(self, row: Mapping[str, float]) -> None:
        k = int(row["iteration"])
        width = len(str(self._steps))
        line = f"{k:>{width}}/{self._steps}  {numbers(row)}  {speed(k, row['seconds'])}"
        self._say(line.rstrip())

    def _say(self, line: str) -> None:
        self._console.print(f"{self._before}{line}", markup=False)
