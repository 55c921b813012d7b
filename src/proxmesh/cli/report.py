"""`proxmesh report`: one interactive page about runs, a comparison or a tuning."""

from pathlib import Path
from typing import Annotated

import typer

from proxmesh.cli.console import console, show_notices

__all__ = ["report"]


def report(
    folders: Annotated[
        list[str], typer.Argument(help="Folders of runs, comparisons or tunings.")
    ],
    out: Annotated[
        str | None,
        typer.Option(help="The page [report.html in the folder, or here if several]."),
    ] = None,
    title: Annotated[
        str, typer.Option(help="Title of the page [what the runs have in common].")
    ] = "",
) -> int:
    """Write report.html: curves, tables, networks, in one file that needs no other."""
    show_notices()
    from proxmesh.report.writing import REPORT, report_on

    places = [Path(name) for name in folders]
    usual = places[0] / REPORT if len(places) == 1 else Path(REPORT)
    file = report_on(places, Path(out) if out else usual, title)
    console.print(str(file), markup=False)
    return 0
