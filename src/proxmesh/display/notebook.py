"""A bar in a notebook, without widgets: a few lines of HTML that are replaced."""

import html
import sys
import time
import uuid
from collections.abc import Mapping
from typing import Any

from proxmesh.display.stages import Watcher, numbers, speed

__all__ = ["NotebookProgress", "in_notebook"]

SECONDS_BETWEEN_UPDATES = 0.2
KERNEL = "ZMQInteractiveShell"  # what runs cells; Colab's is derived from it


def in_notebook() -> bool:
    """Whether this program runs in the cells of a notebook.

    Examples
    --------
    >>> in_notebook()
    False
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return any(kind.__name__ == KERNEL for kind in type(shell).__mro__)


class NotebookProgress(Watcher):
    """A bar, the current numbers, and how long the stages before iteration 0 took.

    Parameters
    ----------
    steps, title
        Of the run; the title stands before the bar.
    """

    def __init__(self, steps: int, title: str = "") -> None:
        super().__init__(steps)
        self._title = title
        self._display_id: str | None = None
        self._k, self._speed, self._numbers = 0, "", ""
        self._doing = ""
        self._took: list[str] = []
        self._next = 0.0

    def _open(self) -> None:
        if self._display_id is None:
            self._display_id = uuid.uuid4().hex
            self._show(update=False)

    def _close(self) -> None:
        self._doing = ""
        self._show()

    def _stage_began(self, what: str) -> None:
        self._doing = f"{what} ..."
        self._show()

    def _stage_ended(self, what: str, seconds: float) -> None:
        self._took.append(f"{what}: {seconds:.1f} s")

    def _moved(self, k: int, seconds: float) -> None:
        self._k, self._speed = k, speed(k, seconds)
        self._show_now_and_then()

    def _measured(self, row: Mapping[str, float]) -> None:
        self._numbers = numbers(row)
        self._show_now_and_then()

    def _show_now_and_then(self) -> None:
        self._doing = ""
        if time.monotonic() >= self._next:
            self._show()

    def _show(self, update: bool = True) -> None:
        from IPython.display import display

        self._next = time.monotonic() + SECONDS_BETWEEN_UPDATES
        shown: Any = {"text/html": self._as_html(), "text/plain": self._as_text()}
        display(shown, raw=True, display_id=self._display_id, update=update)

    def _as_text(self) -> str:
        count = f"{self._k}/{self._steps}"
        now = [self._title, self._doing or count, self._speed, self._numbers]
        return "  ".join(filter(None, [*now, *self._took]))

    def _as_html(self) -> str:
        words = [self._doing or f"{self._k}/{self._steps}", self._speed, self._numbers]
        told = html.escape("  ".join(filter(None, words)))
        took = html.escape(", ".join(self._took))
        below = f"<div style='opacity: 0.6'>{took}</div>" if took else ""
        return (
            f"<div style='font-family: monospace; white-space: pre-wrap'>"
            f"{html.escape(self._title)} "
            f"<progress value='{self._k}' max='{self._steps}' "
            f"style='width: 16em; vertical-align: middle'></progress> "
            f"{told}{below}</div>"
        )
