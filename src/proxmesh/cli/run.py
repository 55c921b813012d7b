"""`proxmesh run`: one method on one task."""

import json
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proxmesh.cli.check import print_verdict, verdict_of
from proxmesh.cli.console import console, show_notices, warn
from proxmesh.cli.options import TaskOptions, describes_a_task
from proxmesh.errors import InputError
from proxmesh.launchers import launched

if TYPE_CHECKING:
    from proxmesh.runs.build import Job
    from proxmesh.solver.result import Result
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
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print the folder only.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON only.")
    ] = False,
) -> int:
    """Train with one method; all defaults work."""
    show_notices()
    from proxmesh.runs.build import assemble
    from proxmesh.solver.prepare import telling
    from proxmesh.solver.result import RunFolder

    config = task.config({"algorithm.name": algorithm})
    launch = launched()
    if launch.size > 1 and config.run.engine == "simulated":
        raise InputError(
            f"`--engine simulated` runs in one process, but {launch.launcher} started "
            f"{launch.size}. Start it alone, or use `--engine {launch.engine}`."
        )
    job = assemble(config)
    with telling(job.world):
        if out and job.world.is_root:
            RunFolder.require_free(Path(out), force)
        job = job.settled(always=strict or not (quiet or as_json))
        verdict = verdict_of(job)
        if strict and verdict is not None and verdict.verdict == "unstable":
            raise InputError(f"`--strict`: {verdict}")
    folder = Path(job.world.share({"folder": out or str(_new_folder(job))})["folder"])
    silent = quiet or as_json or not job.world.is_root
    if not silent:
        _announce(job, verdict)
    return _carried_out(job, folder, force, quiet=quiet, as_json=as_json)


def _announce(job: "Job", verdict: "Certificate | None") -> None:
    """What is run, by whom, with which constants, and whether it can go well."""
    world = job.world
    console.print(f"[bold]{_title(job)}[/]")
    if hasattr(world, "placement"):
        ranks = len(world.placement.blocks)
        console.print(f"engine {world.engine}, {ranks} ranks: {world.placement}")
    if verdict is not None:
        if job.found is not None and job.found.automatic:
            console.print(f"found {job.found}", highlight=False)
        print_verdict(verdict)
    if verdict is not None and verdict.verdict == "unstable":
        warn(f"this run is likely to diverge. {verdict.remedy}")


def _carried_out(
    job: "Job", folder: Path, force: bool, *, quiet: bool, as_json: bool
) -> int:
    from proxmesh.cli.progress import progress

    world = job.world
    console.quiet = not world.is_root
    title = _title(job)
    silent = quiet or as_json or not world.is_root
    received: list[int] = []
    _stop_at_sigterm(received)
    with progress(job.config["run"]["steps"], silent) as observer:
        result = job.run(folder, force, observer)
    if world.is_root and (folder / "history.csv").exists() and len(result.history) > 1:
        from proxmesh.report.figures import draw_run  # matplotlib: not before the run

        draw_run(folder, title)
        if (folder / "theory.csv").exists():
            from proxmesh.report.theory import draw_theory

            draw_theory(folder, title)
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


def _new_folder(job: "Job") -> Path:
    config = job.config
    data = Path(config["data"]["name"]).stem
    graph = f"{Path(config['graph']['name']).stem}{job.graph.n}"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    base = Path("runs") / f"{stamp}-{config['algorithm']['name']}-{data}-{graph}"
    folder, count = base, 1
    while folder.exists():  # two runs started in the same second
        count += 1
        folder = base.with_name(f"{base.name}-{count}")
    return folder


def _title(job: "Job") -> str:
    config = job.config
    return (
        f"{config['algorithm']['name']} on {Path(config['data']['name']).stem}: "
        f"{config['model']['name']} with {job.problem.layout.p:,} parameters, "
        f"{config['graph']['name']} of {job.graph.n} agents, "
        f"batch {config['run']['batch']}, seed {config['seed']}"
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
            f"vectors an agent, {final['bytes_sent'] / 1e6:,.1f} MB on all edges, "
            f"{final['seconds']:.1f} s of computing"
        )
    if result.monitor is not None:
        for inequality in result.monitor.counts():
            console.print(str(inequality))
    console.print(f"[{COLORS[result.outcome]}]{result.outcome}[/]: {result.message}")
    console.print(f"results in {folder}")
