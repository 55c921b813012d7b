"""`proxmesh bench`: the speed of this machine against the work it has to do."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxmesh.cli.console import (
    complain,
    console,
    print_wide,
    require_folder,
    show_notices,
)
from proxmesh.errors import InputError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxmesh.bench.report import Finding

__all__ = ["bench"]

RESULTS = "benchmarks/results"


def bench(
    only: Annotated[
        str | None,
        typer.Option(help="Of step,lenet,logistic,growth,memory,startup [all]."),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Measurements of each time.")] = 15,
    out: Annotated[str, typer.Option(help="Folder of the JSON files.")] = RESULTS,
) -> int:
    """Measure this machine; all times on one core, in turns, medians."""
    show_notices()
    if rounds < 1:
        raise InputError(f"`--rounds` must be at least 1, got {rounds}.")
    wanted = [name.strip() for name in (only or "").split(",") if name.strip()]
    wanted = list(dict.fromkeys(wanted))
    if only is not None and not wanted:
        raise InputError(f"`--only {only}` names no measurement. Write a,b,c.")
    require_folder(Path(out))
    measurements = _measurements()
    for name in wanted:
        if name not in measurements:
            raise unknown("measurement", name, measurements)
    from proxmesh.bench.report import machine, write
    from proxmesh.bench.timing import on_one_core
    from proxmesh.solver.compile_step import NotCompiledError

    here = machine()
    for name in wanted or measurements:
        try:
            with on_one_core():
                finding = measurements[name](rounds)
        except (NotCompiledError, OSError, RuntimeError) as error:
            complain(f"`{name}` could not be measured: {error}")
            continue
        _print(finding)
        file = write(finding, Path(out), here)
        console.print(f"written to {file}\n")
    return 0


def _measurements() -> "dict[str, Callable[[int], Finding]]":
    from proxmesh.bench.decent import against_decent_bench
    from proxmesh.bench.growth import growth
    from proxmesh.bench.memory import memory
    from proxmesh.bench.startup import startup
    from proxmesh.bench.steps import convolutional_step, dense_step

    return {
        "step": dense_step,
        "lenet": convolutional_step,
        "logistic": against_decent_bench,
        "growth": growth,
        "memory": memory,
        "startup": startup,
    }


def _print(finding: "Finding") -> None:
    from rich.table import Table

    console.print(f"[bold]{finding.title}[/]")
    times = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", finding.unit, "middle half"):
        times.add_column(name, justify="left" if not name else "right")
    for name, spread in finding.measured.items():
        half = f"{spread.low:.3g} - {spread.high:.3g}"
        times.add_row(name, f"{spread.median:.3g}", half)
    print_wide(times)
    ratios = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "ratio", "limit", ""):
        ratios.add_column(name, justify="right" if name == "ratio" else "left")
    for ratio in finding.ratios:
        verdict = {None: "", True: "[green]holds[/]", False: "[red]missed[/]"}
        ratios.add_row(
            ratio.name, f"{ratio.value:.2f}", ratio.limit, verdict[ratio.holds]
        )
    print_wide(ratios)
    for note in finding.notes:
        console.print(note)
