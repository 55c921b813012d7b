"""How the command line speaks: results to stdout, everything else to stderr."""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from proxmesh.errors import Notice
from proxmesh.launchers import launched, wait_to_be_ended

__all__ = [
    "complain",
    "console",
    "print_wide",
    "require_folder",
    "show_notices",
    "warn",
]


class PatientConsole(Console):
    """A console that falls silent when its reader has gone; the run goes on."""

    def on_broken_pipe(self) -> None:
        """Print into nothing from now on."""
        self.file = Path(os.devnull).open("w")  # noqa: SIM115 - open until the end
        sys.stdout = self.file


console = PatientConsole(highlight=False, soft_wrap=True)


def complain(message: str, at_once: bool = False) -> None:
    """Print an error on one line; in a distributed run say whose it is.

    When all ranks find the same fault, the root's line comes first and its end makes
    the launcher end the others before they repeat it, unless they speak `at_once`.
    """
    launch = launched(checked=False)
    if launch.size > 1:
        if not at_once:
            _let_the_root_speak_first(launch.rank)
        message = f"rank {launch.rank}: {message}"
    _stderr().print(f"[bold red]error:[/] {_escaped(message)}")


def _let_the_root_speak_first(rank: int) -> None:
    exits = sys.modules.get("proxmesh.network.exits")
    if exits is not None:
        exits.let_the_root_speak_first()
    elif rank:  # nobody has joined yet: what is wrong is wrong everywhere
        wait_to_be_ended()


def warn(message: str) -> None:
    """Print a warning on one line; the run goes on."""
    _stderr().print(f"[bold yellow]warning:[/] {_escaped(message)}")


def print_wide(table: RenderableType) -> None:
    """Print a table whole: a pipe has no width, and a terminal can wrap lines."""
    width = console.measure(table, options=console.options.update(width=500)).maximum
    wide = PatientConsole(
        highlight=False,
        width=max(console.width, width),
        file=console.file,
        force_terminal=console.is_terminal,
    )
    wide.print(table)


def require_folder(path: Path) -> None:
    """Refuse a folder for results that cannot be one, before anything is computed."""
    from proxmesh.solver.folder import RunFolder

    RunFolder(path).require_collection()


def show_notices() -> None:
    """Print our notices as one line, one rank's only; leave other warnings alone."""
    warnings.simplefilter("always", Notice)
    previous = warnings.showwarning

    def show(
        message: Warning | str, category: type[Warning], *rest: Any, **more: Any
    ) -> None:
        if issubclass(category, Notice):
            if launched().rank == 0:
                _stderr().print(f"[yellow]note:[/] {_escaped(str(message))}")
        else:
            previous(message, category, *rest, **more)

    warnings.showwarning = show


def _stderr() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")
