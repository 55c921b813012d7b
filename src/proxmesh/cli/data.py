"""`proxmesh data`: list, fetch and verify data sets."""

from typing import Annotated

import typer

from proxmesh.cli.console import console
from proxmesh.errors import unknown

__all__ = ["app"]

app = typer.Typer(
    help="List, fetch and verify data sets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SHAPES = {  # train + test samples, features, classes, where from
    "a9a": ("32,561 + 16,281", "123", "2", "inside the package"),
    "breast-cancer": ("426 + 143", "30", "2", "scikit-learn's copy"),
    "digits": ("1,347 + 450", "64", "10", "scikit-learn's copy"),
    "fashion-mnist": ("60,000 + 10,000", "28 x 28", "10", "folder, mirrors, apt"),
    "mnist": ("60,000 + 10,000", "28 x 28", "10", "folder, mirrors, pip"),
    "synthetic": ("any", "any", "any", "made from a seed"),
}

DataDir = Annotated[
    str | None, typer.Option(help="Folder to look in first, before PROXMESH_DATA.")
]


@app.command("list")
def list_() -> None:
    """List the data sets that have a name."""
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("name", "samples", "features", "classes", "comes from"):
        table.add_column(column)
    for name, facts in SHAPES.items():
        table.add_row(name, *facts)
    console.print(table)
    console.print("Own files: --dataset FILE with .npz, .csv or LIBSVM.")


@app.command()
def fetch(name: str, data_dir: DataDir = None) -> None:
    """Get a data set now, so that later runs need no network."""
    from proxmesh.data import download

    _require_name(name)
    if name not in download.SOURCES:
        console.print(f"{name}: nothing to fetch, {SHAPES[name][3]}")
        return
    download.images(name, data_dir)
    console.print(f"{name}: here, all four files with their published sha256")


@app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="Which [a9a].")] = None,
    data_dir: DataDir = None,
) -> None:
    """Check data sets against their published hashes."""
    from proxmesh.data import datasets

    for name in names or ["a9a"]:
        _require_name(name)
        console.print(f"{name}: {datasets.verify(name, data_dir)}")


def _require_name(name: str) -> None:
    if name not in SHAPES:
        raise unknown("dataset", name, SHAPES)
