"""`proxmesh predict`: what a trained run says of new samples."""

from pathlib import Path
from typing import Annotated

import typer

from proxmesh.cli.console import console, show_notices

__all__ = ["predict"]


def predict(
    folder: Annotated[str, typer.Argument(help="The folder of a run that has ended.")],
    file: Annotated[
        str, typer.Argument(help="Samples: .csv, .npz or LIBSVM, with labels or not.")
    ],
    out: Annotated[
        str | None, typer.Option(help="The .csv [predictions.csv in the run folder].")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite predictions that are there.")
    ] = False,
) -> int:
    """Write predictions of a trained run for the samples of a file."""
    show_notices()
    from proxmesh.runs.predicting import predict as made

    found = made(Path(folder), Path(file), Path(out) if out else None, force)
    told = "" if found.score is None else f"; {found.score}"
    console.print(f"{len(found):,} predictions in {found.file}{told}", markup=False)
    return 0
