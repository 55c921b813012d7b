"""`proxmesh bench`: the speed of this machine against the work it has to do."""

import traceback
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

    from proxmesh.bench.report import Measurement
    from proxmesh.bench.timing import Effort

__all__ = ["bench"]

ROUNDS, QUICK_ROUNDS = 15, 1


def bench(
    only: Annotated[
        str | None,
        typer.Option(help="Any of step,lenet,logistic,growth,memory,startup [all]."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help=f"How often each time is measured [{ROUNDS}].")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Small sizes, one round: does everything work?"),
    ] = False,
    out: Annotated[
        str | None, typer.Option(help="Folder for JSON files [none are written].")
    ] = None,
) -> int:
    """Measure how fast proxmesh is on this machine.

    All times are medians on one core, of measurements that take turns.

    What is not installed is left out. When something else keeps a part from being
    measured, the others still are, and the exit code is 1.
    """
    show_notices()
    if rounds is not None and rounds < 1:
        raise InputError(f"`--rounds` must be at least 1, got {rounds}.")
    wanted = [name.strip() for name in (only or "").split(",") if name.strip()]
    wanted = list(dict.fromkeys(wanted))
    if only is not None and not wanted:
        raise InputError(f"`--only {only}` names no measurement. Write a,b,c.")
    if out is not None:
        require_folder(Path(out))
    parts = _parts()
    for name in wanted:
        if name not in parts:
            raise unknown("measurement", name, parts)
    from proxmesh.bench.report import measured_with, write
    from proxmesh.bench.timing import Effort

    effort = Effort(rounds or (QUICK_ROUNDS if quick else ROUNDS), quick)
    machine = measured_with()
    failed = []
    for name in wanted or parts:
        found = _measured(name, parts[name], effort)
        if found is None:
            failed.append(name)
            continue
        _print(found)
        if out is not None and found.measured:
            console.print(f"written to {write(found, Path(out), machine)}")
        console.print()
    if failed:
        complain(f"not measured, see above: {', '.join(failed)}.")
    return 1 if failed else 0


def _parts() -> "dict[str, Callable[[Effort], Measurement]]":
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


def _measured(
    name: str, measure: "Callable[[Effort], Measurement]", effort: "Effort"
) -> "Measurement | None":
    """Measure one part; None after saying why it failed."""
    from proxmesh.bench.report import Measurement
    from proxmesh.bench.timing import on_one_core
    from proxmesh.solver.compile_step import NotCompiledError, why_no_compiler

    try:
        with on_one_core():
            found = measure(effort)
    except NotCompiledError as error:
        if why_no_compiler() is not None:
            return Measurement(name, name, notes=[f"Left out: {error}"])
        complain(f"`{name}` could not be measured: {error}")
    except (InputError, OSError) as error:
        complain(f"`{name}` could not be measured: {error}")
    except Exception:  # ours to mend: say where, and measure the others
        traceback.print_exc()
        complain(f"`{name}` could not be measured, see the traceback above.")
    else:
        return found.without_limits() if effort.quick else found
    return None


def _print(found: "Measurement") -> None:
    from rich.table import Table

    console.print(f"[bold]{found.title}[/]")
    times = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", found.unit, "middle half"):
        times.add_column(name, justify="left" if not name else "right")
    for name, spread in found.measured.items():
        half = f"{spread.low:.3g} - {spread.high:.3g}"
        times.add_row(name, f"{spread.median:.3g}", half)
    print_wide(times)
    ratios = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "ratio", "limit", ""):
        ratios.add_column(name, justify="right" if name == "ratio" else "left")
    for ratio in found.ratios:
        verdict = {None: "", True: "[green]holds[/]", False: "[red]missed[/]"}
        ratios.add_row(
            ratio.name, f"{ratio.value:.2f}", ratio.limit, verdict[ratio.holds]
        )
    print_wide(ratios)
    for note in found.notes:
        console.print(note)
