"""How the command line speaks: results to stdout, everything else to stderr."""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

from rich.console import Console

from proxmesh.errors import Notice

__all__ = ["complain", "console", "show_notices"]


class PatientConsole(Console):
    """A console that falls silent when its reader has gone; the run goes on."""

    def on_broken_pipe(self) -> None:
        """Print into nothing from now on."""
        self.file = Path(os.devnull).open("w")  # noqa: SIM115 - open until the end
        sys.stdout = self.file


console = PatientConsole(highlight=False, soft_wrap=True)


def complain(message: str) -> None:
    """Print an error on one line."""
    _stderr().print(f"[bold red]error:[/] {_escaped(message)}")


def show_notices() -> None:
    """Print our notices as one line; leave other warnings to Python."""
    warnings.simplefilter("always", Notice)
    previous = warnings.showwarning

    def show(
        message: Warning | str, category: type[Warning], *rest: Any, **more: Any
    ) -> None:
        if issubclass(category, Notice):
            _stderr().print(f"[yellow]note:[/] {_escaped(str(message))}")
        else:
            previous(message, category, *rest, **more)

    warnings.showwarning = show


def _stderr() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")
