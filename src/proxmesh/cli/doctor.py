"""`proxmesh doctor`: is this machine ready, or this set of machines."""

from typing import TYPE_CHECKING, Annotated

import typer

from proxmesh.cli.console import console
from proxmesh.launchers import launched

if TYPE_CHECKING:
    from proxmesh.doctor import Finding

__all__ = ["doctor"]

MARKS = {"ok": "[green]ok[/]  ", "note": "[yellow]note[/]", "bad": "[red]bad[/] "}


def doctor(
    timeout: Annotated[
        float, typer.Option(help="Seconds until a silent rank is lost.")
    ] = 60.0,
) -> int:
    """Check MPI, gloo, names, ports, threads; under a launcher, all ranks together."""
    from proxmesh.doctor import examine, examine_together

    launch = launched()
    if launch.size > 1:
        findings = examine_together(launch.engine, timeout)
        if launch.rank == 0:
            for finding in findings:
                _print(finding)
    else:
        findings = []
        for finding in examine():
            _print(finding)
            findings.append(finding)
    return 2 if any(finding.state == "bad" for finding in findings) else 0


def _print(finding: "Finding") -> None:
    console.print(f"{MARKS[finding.state]} {finding.name + ':':<13}{finding.found}")
    if finding.remedy:
        console.print(f"     {'':<13}{finding.remedy}")
