"""`proxmesh doctor`: tell whether these machines are ready."""

from typing import TYPE_CHECKING, Annotated

import typer

from proxmesh.cli.console import console
from proxmesh.launchers import launched

if TYPE_CHECKING:
    from proxmesh.doctor import Diagnosis

__all__ = ["doctor"]

MARKS = {"ok": "[green]ok[/]  ", "note": "[yellow]note[/]", "bad": "[red]bad[/] "}


def doctor(
    timeout: Annotated[
        float, typer.Option(help="Seconds until a silent rank counts as lost.")
    ] = 60.0,
) -> int:
    """Check MPI, gloo, names, ports, threads; under a launcher, compare all ranks."""
    from proxmesh.doctor import examine, examine_together

    launch = launched()
    if launch.size > 1:
        diagnoses = examine_together(launch.engine, timeout)
        if launch.rank == 0:
            for diagnosis in diagnoses:
                _print(diagnosis)
    else:
        diagnoses = []
        for diagnosis in examine():
            _print(diagnosis)
            diagnoses.append(diagnosis)
    return 2 if any(diagnosis.state == "bad" for diagnosis in diagnoses) else 0


def _print(diagnosis: "Diagnosis") -> None:
    console.print(
        f"{MARKS[diagnosis.state]} {diagnosis.name + ':':<13}{diagnosis.found}"
    )
    if diagnosis.remedy:
        console.print(f"     {'':<13}{diagnosis.remedy}")
