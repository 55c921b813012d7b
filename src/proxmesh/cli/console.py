"""How the command line speaks: results to stdout, everything else to stderr."""

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.file_proxy import FileProxy
from rich.table import Column, Table

from proxmesh.errors import Notice
from proxmesh.launchers import launched, wait_to_be_ended

__all__ = [
    "complain",
    "console",
    "print_wide",
    "require_folder",
    "show_notices",
    "tell",
    "warn",
]


GAP = 2  # between the columns of a table


class PatientConsole(Console):
    """A console that falls silent when its reader has gone; the run goes on.

    A terminal gets lines that break between words; a pipe gets them whole.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as `rich` does."""
        options.setdefault("soft_wrap", not self.is_terminal)
        super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Print into nothing from now on."""
        self.file = Path(os.devnull).open("w")  # noqa: SIM115 - open until the end
        sys.stdout = self.file


console = PatientConsole(highlight=False)


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


def tell(message: str) -> None:
    """Print a line that is no result."""
    _stderr().print(_escaped(message))


def print_wide(table: Table) -> None:
    """Print a table whole.

    A pipe has no width. On a terminal that is too narrow, columns that do not fit
    follow below, each time after the first column.
    """
    if not console.is_terminal:
        width = _width_of(table.columns)
        wide = PatientConsole(
            highlight=False, width=max(console.width, width), file=console.file
        )
        wide.print(table)
        return
    for number, columns in enumerate(_fitting(table, console.width)):
        if number:
            console.print()
        console.print(_with_columns(table, columns), soft_wrap=False)


def _fitting(table: Table, width: int) -> list[list[Column]]:
    """The columns in groups that fit side by side, each beginning with the first."""
    first, *others = table.columns
    groups: list[list[Column]] = [[first]]
    for column in others:
        if len(groups[-1]) > 1 and _width_of([*groups[-1], column]) > width:
            groups.append([first])
        groups[-1].append(column)
    return groups


def _with_columns(table: Table, columns: Sequence[Column]) -> Table:
    """A table of some columns; one that is too wide is wrapped between words."""
    part = Table(
        box=None,
        header_style=table.header_style,
        pad_edge=False,
        show_header=table.show_header,
    )
    alone = len(columns) <= 2
    for column in columns:
        part.add_column(
            column.header,
            justify=column.justify,
            no_wrap=column is columns[0] or not alone,
            overflow="fold",
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        part.add_row(*row)
    return part


def _width_of(columns: Sequence[Column]) -> int:
    wide = console.options.update(width=10_000)
    return sum(
        max(
            console.measure(cell, options=wide).maximum
            for cell in (column.header, *column.cells)
        )
        for column in columns
    ) + GAP * (len(columns) - 1)


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
    """Where everything but results goes; while a bar is on the screen, above the bar.

    What is written past a live bar ends up in the middle of its line.
    """
    stream = sys.stderr
    if isinstance(stream, FileProxy) and stream.rich_proxied_file.isatty():
        return console
    return PatientConsole(stderr=True, highlight=False)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")
