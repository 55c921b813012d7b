"""`proxmesh list`: what there is, with one line each."""

import json
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from proxmesh.cli.catalog import KINDS, Item
from proxmesh.cli.console import console, print_wide
from proxmesh.errors import unknown

__all__ = ["list_"]


def list_(
    kinds: Annotated[
        list[str] | None, typer.Argument(help=f"{', '.join(KINDS)} [all].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """List methods, graphs, data sets and more, with one line each."""
    for kind in kinds or ():
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS, of="`proxmesh list`")
    found = {kind: list(KINDS[kind].read()) for kind in kinds or KINDS}
    if as_json:
        tree = {
            kind: [item._asdict() for item in items] for kind, items in found.items()
        }
        console.print_json(json.dumps(tree))
        return
    width = max(len(item.name) for items in found.values() for item in items)
    for number, (kind, items) in enumerate(found.items()):
        if number:
            console.print()
        console.print(f"[bold]{kind}[/]  {KINDS[kind].use}")
        print_wide(_table(items, width))


def _table(items: list[Item], width: int) -> Table:
    """Names in a column as wide as in the other tables."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column()
    for item in items:
        table.add_row(Text(item.name.ljust(width)), Text(item.about))
    return table
