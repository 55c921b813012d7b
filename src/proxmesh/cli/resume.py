"""`proxmesh resume`: go on with a run that was cut off."""

from pathlib import Path
from typing import Annotated

import typer

from proxmesh.cli.console import show_notices
from proxmesh.cli.run import Manner, go_on

__all__ = ["resume"]


def resume(
    folder: Annotated[str, typer.Argument(help="The run folder.")],
    steps: Annotated[
        int | None, typer.Option(help="Iterations in all, if more than before.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="auto, simulated, mpi or torch.")
    ] = "auto",
    threads: Annotated[
        int | None, typer.Option(help="CPU threads [as before].")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds until a silent rank counts as lost [as before]."),
    ] = None,
    compile_step: Annotated[
        str | None,
        typer.Option("--compile", help="Compile the step: on or off [as before]."),
    ] = None,
    checkpoint_every: Annotated[
        str | None,
        typer.Option(help="Iterations or minutes (10min), or off [as before]."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only the folder.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON only.")
    ] = False,
) -> int:
    """Go on with a run that was cut off, from its last checkpoint."""
    show_notices()
    said = {
        "run.steps": steps,
        "run.engine": engine,
        "run.threads": threads,
        "run.timeout": timeout,
        "run.compile": compile_step,
        "run.checkpoint_every": checkpoint_every,
    }
    given = {key: value for key, value in said.items() if value is not None}
    return go_on(Path(folder), given, Manner(quiet=quiet, as_json=as_json))
