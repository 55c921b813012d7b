"""`proxmesh run`: one method on one task."""

import json
import math
import signal
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, final

import typer

from proxmesh.cli.check import print_verdict
from proxmesh.cli.console import console, show_notices, warn
from proxmesh.cli.live import served
from proxmesh.cli.options import TaskOptions, describes_a_task
from proxmesh.errors import InputError
from proxmesh.launchers import launched
from proxmesh.solver.reading import method_called

if TYPE_CHECKING:
    from proxmesh.display.stages import Watcher
    from proxmesh.loggers import TensorBoard
    from proxmesh.runs.build import Built
    from proxmesh.runs.config import Config
    from proxmesh.solver.result import Result
    from proxmesh.solver.run import Run
    from proxmesh.theory import Certificate, StepCertificate
    from proxmesh.types import Problem

__all__ = ["Manner", "go_on", "run"]

EXIT_CODES = {"diverged": 4, "interrupted": 130}  # any other outcome: 0
COLORS = {
    "finished": "green",
    "target reached": "green",
    "stopped early": "green",
    "diverged": "red",
    "interrupted": "yellow",
}


@describes_a_task()
def run(
    task: TaskOptions,
    algorithm: Annotated[
        str | None, typer.Option(help="Method, or FILE.py:CLASS [hsm-admm].")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Run folder [a new one under runs/].")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a run in --out.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(
            help="Go on with the run in this folder; auto: the one in --out, if any."
        ),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Log to FOLDER/tensorboard, too.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse constants that are unstable.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="Print the whole certificate and how gradients are taken."
        ),
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Serve the report while the run goes on.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only the folder.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON only.")
    ] = False,
) -> int:
    """Train with one method; all defaults work."""
    show_notices()
    flags = {"algorithm.name": algorithm}
    how = Manner(quiet, as_json, strict, verbose, tensorboard, live)
    going_on = _folder_to_resume(resume, out, force)
    if going_on is not None:
        return go_on(going_on, task.said(flags), how)
    folder = None if out is None else Path(out)
    return _go(task.config(flags), folder, how, force=force or resume == "auto")


@final
@dataclass(frozen=True, slots=True)
class Manner:
    """How a run is talked about, and to whom."""

    quiet: bool = False
    as_json: bool = False
    strict: bool = False
    verbose: bool = False
    tensorboard: bool = False
    live: bool = False

    @property
    def silent(self) -> bool:
        """Whether nothing but a result is printed."""
        return self.quiet or self.as_json


def _folder_to_resume(resume: str | None, out: str | None, force: bool) -> Path | None:
    """The folder whose run is to go on; None: a new run."""
    if resume is None:
        return None
    if force:
        raise InputError("`--resume` and `--force` contradict each other. Choose one.")
    if resume != "auto":
        if out is not None and Path(out) != Path(resume):
            raise InputError(
                f"`--resume {resume}` goes on in that folder, but `--out` is `{out}`. "
                "Leave one of them out."
            )
        return Path(resume)
    if out is None:
        raise InputError("`--resume auto` looks into the run folder: add `--out DIR`.")
    begun = Path(out) / "config.toml"
    return Path(out) if begun.exists() else None


def go_on(folder: Path, said: dict[str, Any], how: Manner) -> int:
    """Go on with the run in a folder, as far as `said` allows."""
    from proxmesh.runs.resuming import nothing_left, saved_config

    config = saved_config(folder, {"run.engine": "auto", **said})
    left = nothing_left(folder, config.run.steps)
    if left is None:
        return _go(config, folder, how, resume=True)
    if launched().rank == 0:
        console.print(str(folder) if how.silent else f"{left} Nothing is left to do.")
    return 0


def _go(
    config: "Config",
    folder: Path | None,
    how: Manner,
    *,
    force: bool = False,
    resume: bool = False,
) -> int:
    from proxmesh.runs.build import build
    from proxmesh.solver.failures import announcing_failure
    from proxmesh.solver.folder import RunFolder

    launch = launched()
    if launch.size > 1 and config.run.engine == "simulated":
        raise InputError(
            f"`--engine simulated` runs in one process, but {launch.launcher} started "
            f"{launch.size}. Start it alone, or use `--engine {launch.engine}`."
        )
    board = _board(how, folder if resume else None)
    watcher = _watcher(config.run.steps, how.silent or launch.rank > 0)
    with nullcontext() if watcher is None else watcher.shown():
        if watcher is not None:
            watcher.on_prepare("reading the data")
        built = build(config)
        world = built.world
        place = str(folder or _new_folder(built))
        folder = Path(world.share({"folder": place})["folder"])
        if board is not None:
            board.folder = folder / RunFolder.EVENTS
        loggers = [] if board is None else [board]
        prepared = built.prepare(folder, force, resume, watcher, loggers)
        with announcing_failure(world):
            verdict = prepared.certificate() if how.strict or not how.silent else None
            if how.strict and verdict is not None and verdict.verdict == "unstable":
                raise InputError(f"`--strict`: {verdict}")
    if not how.silent and world.is_root:
        _announce(built, prepared, verdict, how.verbose)
    return _carried_out(built, prepared, how)


def _board(how: Manner, earlier: Path | None) -> "TensorBoard | None":
    """Who writes for TensorBoard; also where the run that goes on has done so.

    A package that is missing is found before anything is read.
    """
    from proxmesh.solver.folder import RunFolder

    logged = earlier is not None and (earlier / RunFolder.EVENTS).is_dir()
    if not (how.tensorboard or logged):
        return None
    from proxmesh.loggers import TensorBoard

    return TensorBoard(RunFolder.EVENTS)


def _watcher(steps: int, silent: bool) -> "Watcher | None":
    """The observer that suits where stdout goes."""
    from proxmesh.display.progress import LiveProgress, PlainProgress

    if silent:
        return None
    if console.is_terminal:
        return LiveProgress(console, steps)
    return PlainProgress(console, steps)


def _announce(
    built: "Built",
    prepared: "Run",
    verdict: "Certificate | StepCertificate | None",
    verbose: bool,
) -> None:
    """What is run, by whom, with which constants, and whether it can go well."""
    console.print(f"[bold]{_title(built)}[/]")
    where = built.world.describe()
    if where:
        console.print(where)
    if prepared.journal.rows:
        console.print(f"going on after iteration {int(prepared.state.k)}")
    if verbose:
        console.print(_way(prepared.problem), highlight=False)
    if verdict is None:
        return
    if prepared.settled.automatic:
        console.print(f"found {prepared.settled}", highlight=False)
    print_verdict(verdict, verbose)
    if verdict.verdict == "unstable":
        warn(f"this run is likely to diverge. {verdict.remedy}")
    elif verdict.line.startswith("long steps"):
        warn(f"no step this long is known to be stable. {verdict.remedy}")


def _way(problem: "Problem") -> str:
    """How the gradients of all agents are taken, and why."""
    from proxmesh.problems import LearningProblem

    assert isinstance(problem, LearningProblem)
    pairs = "two in one pass" if problem.paired else "one after another"
    return f"gradients by {problem.way}, {pairs}: {problem.reason_for_way}"


def _carried_out(built: "Built", prepared: "Run", how: Manner) -> int:
    from proxmesh.solver.folder import RunFolder

    is_root, folder = built.world.is_root, prepared.hooks.out
    assert folder is not None
    console.quiet = not is_root
    received: list[int] = []
    _stop_at_signals(received)
    with served([folder], how.live and is_root, how.silent):
        result = prepared.go()
    if is_root:
        from proxmesh.report.pictures import draw_what_is_there

        draw_what_is_there(folder, _title(built))
    report = _reported(folder) if is_root else None
    if how.as_json:
        console.print_json(json.dumps({**result.summary(), "folder": str(folder)}))
    elif how.quiet:
        console.print(str(folder))
    else:
        events = folder / RunFolder.EVENTS if prepared.hooks.loggers else None
        _print_summary(result, folder, events)
        if report is not None:
            console.print(f"report: {report}", markup=False)
    return 128 + received[0] if received else EXIT_CODES.get(result.outcome, 0)


def _reported(folder: Path) -> Path | None:
    """The page of the run: what it needs is imported when the run is over."""
    from proxmesh.report.writing import report_of_run

    return report_of_run(folder)


def _stop_at_signals(received: list[int]) -> None:
    """Treat these like Ctrl-C: the run stops and keeps what it has."""

    def stop(number: int, frame: Any) -> None:
        del frame
        received.append(number)
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets SIGHUP
            signal.signal(number, stop)


def _new_folder(built: "Built") -> Path:
    config = built.config
    data = Path(built.data_name).stem
    graph = f"{Path(config.graph.name).stem}{built.graph.n}"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    method = method_called(config.algorithm.name)
    base = Path("runs") / f"{stamp}-{method}-{data}-{graph}"
    folder, count = base, 1
    while folder.exists():  # two runs started in the same second
        count += 1
        folder = base.with_name(f"{base.name}-{count}")
    return folder


def _title(built: "Built") -> str:
    config = built.config
    return (
        f"{method_called(config.algorithm.name)} on {Path(built.data_name).stem}: "
        f"{built.model} with {built.problem.layout.p:,} parameters, "
        f"{config.graph.name} of {built.graph.n} agents, "
        f"batch {config.run.batch}, seed {config.seed}"
    )


def _print_summary(
    result: "Result", folder: Path, tensorboard: Path | None = None
) -> None:
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
        "test_loss", "train_accuracy", "test_accuracy", "train_rmse", "test_rmse",
        "test_r2", "density", "density_y",
    ]  # fmt: skip
    for name in [c for c in shown if c in history]:
        column = history[name]
        later = column.iloc[1:]  # agents that start alike agree best at the start
        best = later.max() if name in HIGHER_IS_BETTER else later.min()
        values = (column.iloc[0], column.iloc[-1], best)
        told = ("" if math.isnan(v) else f"{v:.4g}" for v in values)
        table.add_row(name.replace("_", " "), *told)
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
    if tensorboard:
        console.print(f"look at it with: tensorboard --logdir {tensorboard}")
    console.print(f"results in {folder}")
    if result.outcome == "interrupted":
        console.print(f"go on with: proxmesh resume {folder}")
