"""`proxmesh tune`: the same search budget for every method."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxmesh.cli.console import console, print_wide, require_folder, show_notices
from proxmesh.cli.options import TaskOptions, describes_a_task, method_names
from proxmesh.errors import InputError
from proxmesh.solver.folder import RunFolder

if TYPE_CHECKING:
    from proxmesh.runs.config import Config
    from proxmesh.runs.tune import Budget, Search

__all__ = ["tune"]

GRADIENTS_PER_STEP = 2  # of the default budget: `--steps` of a method like HSM-ADMM
STEPS, TUNING_SEED = 1000, 1000


@describes_a_task(
    "target", "patience", "epochs", "eval", "eval_every", "timeout", "monitor",
    "asynchronous", "max_staleness",
    threads="CPU threads per run [1].",
    steps="Budget per trial, in steps of two gradients [1000].",
    seed="Seed of the trials; compare on others [1000].",
)  # fmt: skip
def tune(
    task: TaskOptions,
    algorithms: Annotated[
        str | None, typer.Option(help="Methods a,b,FILE.py:CLASS, or all [hsm-admm].")
    ] = None,
    trials: Annotated[int, typer.Option(help="Trials per method.", min=1)] = 24,
    gradients: Annotated[
        int | None,
        typer.Option(help="Budget per trial, in sample gradients per agent.", min=1),
    ] = None,
    objective: Annotated[
        str, typer.Option(help="What to minimize: stationarity, train_loss, ...")
    ] = "stationarity",
    sampler: Annotated[str, typer.Option(help="tpe or grid.")] = "tpe",
    space: Annotated[
        str | None, typer.Option(help="TOML file of ranges to use in place of our own.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs at the same time [cores / threads].", min=1)
    ] = None,
    out: Annotated[
        str, typer.Option(help="Folder for trials and params.toml.")
    ] = "tuning",
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only the file.")
    ] = False,
) -> int:
    """Search hyperparameters, with the same budget for every method.

    `proxmesh compare --params FILE` reads what is found.
    """
    show_notices()
    from proxmesh.cli.pool_progress import carry_out
    from proxmesh.report.writing import REPORT, attempted, report_on
    from proxmesh.runs.build import build
    from proxmesh.runs.compare import single_threaded
    from proxmesh.runs.config import task_of
    from proxmesh.runs.methods import by_label
    from proxmesh.runs.spaces import load_spaces
    from proxmesh.runs.tune import Tuning, searches
    from proxmesh.runs.tuned_file import compare_command

    base = _task_to_tune_on(task)
    wanted = by_label(method_names(algorithms, ("hsm-admm",)))
    budget = _budget(base, trials, gradients, objective, sampler)
    own = {label: name for label, name in wanted.items() if label != name}
    spaces = load_spaces(space, own)
    first = build(single_threaded(base))
    folder = Path(out)
    require_folder(folder)
    run = {**first.tree()["run"], "compile": base.run.compile}  # each trial decides
    tuning = Tuning(
        searches(
            {**first.tree(), "run": run},
            list(wanted),
            spaces,
            budget,
            shard_size=first.problem.num_samples / first.graph.n,
            out=folder,
            names=wanted,
        )
    )
    with RunFolder(folder).locked():
        begun = tuning.first()
        carry_out(begun, jobs, quiet, tuning.after, total=tuning.remaining)
        file = tuning.write(folder, first.tree(), _command())
    report = attempted(lambda: report_on([folder], folder / REPORT))
    if quiet:
        console.print(str(file))
    else:
        _print_best(tuning.searches)
        console.print(f"written to {file}", markup=False)
        command = compare_command(file, task_of(first.tree()))
        console.print(f"to compare: {command}", markup=False)
        if report is not None:
            console.print(f"report: {report}", markup=False)
    return 0


def _task_to_tune_on(task: TaskOptions) -> "Config":
    from proxmesh.runs.config import with_defaults

    config = task.config()
    if config.algorithm.model_fields_set:
        raise InputError(
            "`algorithm` is the section of a single method. Name methods with "
            "`--algorithms`, and what to search with `--space`."
        )
    return with_defaults(config, steps=STEPS, seed=TUNING_SEED)


def _budget(
    base: "Config", trials: int, gradients: int | None, objective: str, sampler: str
) -> "Budget":
    from proxmesh.runs.tune import Budget

    pays = gradients or GRADIENTS_PER_STEP * base.run.steps * base.run.batch
    return Budget(trials, pays, objective, sampler)  # type: ignore[arg-type]


def _print_best(made: "Sequence[Search]") -> None:
    from rich.table import Table

    from proxmesh.runs.config import flattened

    objective = made[0].budget.objective
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("method", f"best {objective}", "defaults", "values"):
        table.add_column(title, no_wrap=True)
    for search in made:
        if not search.found:
            table.add_row(search.label, "-", "-", "every trial diverged or failed")
            continue
        options, value = search.best
        if search.automatic_is_best:
            options = search.constants
        values = ", ".join(f"{k} {v:g}" for k, v in flattened(options).items())
        values += " (automatic)" if search.automatic_is_best else ""
        tried = "-" if search.defaults is None else f"{search.defaults:.3g}"
        table.add_row(search.label, f"{value:.3g}", tried, values)
    print_wide(table)


def _command() -> str:
    return shlex.join(["proxmesh", *sys.argv[1:]])
