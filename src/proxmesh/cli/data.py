"""`proxmesh data`: list, fetch and verify data sets."""

from typing import TYPE_CHECKING, Annotated

import typer

from proxmesh.cli.console import console
from proxmesh.errors import unknown

if TYPE_CHECKING:
    from proxmesh.data.datasets import Entry

__all__ = ["app"]

app = typer.Typer(
    help="List, fetch and verify data sets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DataDir = Annotated[
    str | None, typer.Option(help="Folder to look in first, before PROXMESH_DATA.")
]


@app.command("list")
def list_() -> None:
    """List the data sets that have a name."""
    from rich.table import Table

    from proxmesh.data.datasets import DATASETS

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("name", "samples", "features", "classes", "comes from"):
        table.add_column(column)
    for name, entry in sorted(DATASETS.items()):
        table.add_row(name, entry.samples, entry.features, entry.classes, entry.source)
    console.print(table)
    console.print("Your own file: --dataset FILE (.npz, .csv or LIBSVM).")


@app.command()
def fetch(name: str, data_dir: DataDir = None) -> None:
    """Get a data set now, so that later runs need no network."""
    from proxmesh.data import download

    entry = _entry(name)
    if entry.download is None:
        console.print(f"{name}: nothing to fetch, {entry.source}")
        return
    download.images(entry.download, data_dir)
    console.print(f"{name}: here, all four files with their published sha256")


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of data sets [a9a].")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Check data sets against their published hashes."""
    from proxmesh.data import datasets

    for name in names or ["a9a"]:
        _entry(name)
        console.print(f"{name}: {datasets.verify(name, data_dir)}")


def _entry(name: str) -> "Entry":
    from proxmesh.data.datasets import DATASETS

    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    return DATASETS[name]
