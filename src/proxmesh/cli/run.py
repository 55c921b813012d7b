"""`proxmesh run`: one method on one task."""

import json
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proxmesh.cli.check import print_verdict
from proxmesh.cli.console import console, show_notices, warn
from proxmesh.cli.options import TaskOptions, describes_a_task
from proxmesh.errors import InputError
from proxmesh.launchers import launched

if TYPE_CHECKING:
    from proxmesh.runs.build import Built
    from proxmesh.solver.result import Result
    from proxmesh.solver.run import Run
    from proxmesh.theory import Certificate

__all__ = ["run"]

EXIT_CODES = {"finished": 0, "target reached": 0, "diverged": 4, "interrupted": 130}
COLORS = {
    "finished": "green",
    "target reached": "green",
    "diverged": "red",
    "interrupted": "yellow",
}


@describes_a_task()
def run(
    task: TaskOptions,
    algorithm: Annotated[str | None, typer.Option(help="Method [hsm-admm].")] = None,
    out: Annotated[
        str | None, typer.Option(help="Run folder [a new one under runs/].")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a run in --out.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse constants that are unstable.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print the whole certificate.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print the folder only.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON only.")
    ] = False,
) -> int:
    """Train with one method; all defaults work."""
    show_notices()
    from proxmesh.runs.build import build
    from proxmesh.solver.failures import announcing_failure

    config = task.config({"algorithm.name": algorithm})
    launch = launched()
    if launch.size > 1 and config.run.engine == "simulated":
        raise InputError(
            f"`--engine simulated` runs in one process, but {launch.launcher} started "
            f"{launch.size}. Start it alone, or use `--engine {launch.engine}`."
        )
    built = build(config)
    world = built.world
    silent = quiet or as_json
    folder = Path(world.share({"folder": out or str(_new_folder(built))})["folder"])
    prepared = built.prepare(folder, force)
    with announcing_failure(world):
        verdict = prepared.certificate() if strict or not silent else None
        if strict and verdict is not None and verdict.verdict == "unstable":
            raise InputError(f"`--strict`: {verdict}")
    if not silent and world.is_root:
        _announce(built, prepared, verdict, verbose)
    return _carried_out(built, prepared, quiet=quiet, as_json=as_json)


def _announce(
    built: "Built", prepared: "Run", verdict: "Certificate | None", verbose: bool
) -> None:
    """What is run, by whom, with which constants, and whether it can go well."""
    console.print(f"[bold]{_title(built)}[/]")
    where = built.world.describe()
    if where:
        console.print(where)
    if verdict is None:
        return
    if prepared.settled.automatic:
        console.print(f"found {prepared.settled}", highlight=False)
    print_verdict(verdict, verbose)
    if verdict.verdict == "unstable":
        warn(f"this run is likely to diverge. {verdict.remedy}")


def _carried_out(built: "Built", prepared: "Run", *, quiet: bool, as_json: bool) -> int:
    from proxmesh.cli.progress import progress

    is_root, folder = built.world.is_root, prepared.hooks.out
    assert folder is not None
    console.quiet = not is_root
    received: list[int] = []
    _stop_at_sigterm(received)
    silent = quiet or as_json or not is_root
    with progress(prepared.settings.steps, silent) as observer:
        result = prepared.go(observer)
    if is_root:
        from proxmesh.report.pictures import draw_what_is_there

        draw_what_is_there(folder, _title(built))
    if as_json:
        console.print_json(json.dumps({**result.summary(), "folder": str(folder)}))
    elif quiet:
        console.print(str(folder))
    else:
        _print_summary(result, folder)
    return 128 + received[0] if received else EXIT_CODES[result.outcome]


def _stop_at_sigterm(received: list[int]) -> None:
    """Treat SIGTERM like Ctrl-C: the run stops and keeps what it has."""

    def stop(number: int, frame: Any) -> None:
        del frame
        received.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


def _new_folder(built: "Built") -> Path:
    config = built.config
    data = Path(built.data_name).stem
    graph = f"{Path(config.graph.name).stem}{built.graph.n}"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    base = Path("runs") / f"{stamp}-{config.algorithm.name}-{data}-{graph}"
    folder, count = base, 1
    while folder.exists():  # two runs started in the same second
        count += 1
        folder = base.with_name(f"{base.name}-{count}")
    return folder


def _title(built: "Built") -> str:
    config = built.config
    return (
        f"{config.algorithm.name} on {Path(built.data_name).stem}: "
        f"{built.model} with {built.problem.layout.p:,} parameters, "
        f"{config.graph.name} of {built.graph.n} agents, "
        f"batch {config.run.batch}, seed {config.seed}"
    )


def _print_summary(result: "Result", folder: Path) -> None:
    from rich.table import Table

    from proxmesh.metrics import HIGHER_IS_BETTER

    history = result.history
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("", "start", "end", "best"):
        table.add_column(name, justify="left" if not name else "right")
    if "agent" in history:  # `--eval local`
        history = history[history["agent"] == history["agent"].iloc[0]]
    shown = [
        "stationarity", "norm", "consensus", "kkt", "objective", "train_loss",
        "test_loss", "train_accuracy", "test_accuracy", "density", "density_y",
    ]  # fmt: skip
    for name in [c for c in shown if c in history]:
        column = history[name]
        best = column.max() if name in HIGHER_IS_BETTER else column.min()
        values = (column.iloc[0], column.iloc[-1], best)
        table.add_row(name.replace("_", " "), *(f"{v:.4g}" for v in values))
    console.print(table)
    final = result.final
    if final:
        console.print(
            f"{final['gradients']:,.0f} gradients and {final['vectors_sent']:,.0f} "
            f"vectors per agent, {final['bytes_sent'] / 1e6:,.1f} MB on all edges, "
            f"{final['seconds']:.1f} s of computing"
        )
    if result.monitor is not None:
        for inequality in result.monitor.counts():
            console.print(str(inequality))
    console.print(f"[{COLORS[result.outcome]}]{result.outcome}[/]: {result.message}")
    console.print(f"results in {folder}")
