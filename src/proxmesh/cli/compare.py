"""`proxmesh compare`: several methods and seeds on one task."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from proxmesh.cli.console import console, print_wide, require_folder, show_notices
from proxmesh.cli.live import served
from proxmesh.cli.options import TaskOptions, describes_a_task, method_names
from proxmesh.errors import InputError, unknown
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.reading import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxmesh.report.runs import FinishedRun
    from proxmesh.runs.build import Built
    from proxmesh.runs.compare import Plan
    from proxmesh.runs.config import Config
    from proxmesh.runs.presets import Parameters

__all__ = ["compare"]

GRADIENTS_PER_STEP = 2  # as `proxmesh tune` counts
SEEDS = 3
NAMED = "algorithm"  # the key of a method whose label is not its name


@describes_a_task(
    "target",
    "patience",
    "epochs",
    "eval",
    "timeout",
    "monitor",
    "asynchronous",
    "max_staleness",
    threads="CPU threads per run [1].",
)
def compare(
    task: TaskOptions,
    folders: Annotated[
        list[str] | None,
        typer.Argument(help="Compare the runs in these folders, and make none."),
    ] = None,
    algorithms: Annotated[
        str | None,
        typer.Option(
            help="Methods a,b,FILE.py:CLASS, or all [the paper's and prox-dasa]."
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="Number of seeds, from --seed on [3].", min=1),
    ] = None,
    gradients: Annotated[
        int | None,
        typer.Option(help="Sample gradients per agent, in place of --steps.", min=1),
    ] = None,
    params: Annotated[
        str | None,
        typer.Option(help="Preset, TOML file, or defaults [the preset of the task]."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs at the same time [cores / threads].", min=1)
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(help="Folder; runs in it are reused [comparisons/...]."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Serve the report while the runs go on.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only the folder.")
    ] = False,
) -> int:
    """Compare methods over several seeds: tables and curves."""
    show_notices()
    if folders:
        if algorithms or seeds or gradients or params or live or not out:
            raise InputError(
                "folders of runs are compared as they are: give `--out FOLDER` for the "
                "report, and no methods, seeds, gradients, constants or `--live`."
            )
        return _compare_folders([Path(name) for name in folders], Path(out), quiet)
    from proxmesh.cli.pool_progress import carry_out
    from proxmesh.report.runs import read_runs
    from proxmesh.runs.build import build
    from proxmesh.runs.compare import planned, single_threaded
    from proxmesh.runs.methods import by_label
    from proxmesh.runs.record import record_comparison

    base = _task_to_compare_on(task)
    first = build(single_threaded(base))  # finds what is wrong before anything runs
    names = by_label(method_names(algorithms, _usual_methods()))
    wanted = list(names)
    parameters = _parameters(params, first, names, task.assignments)
    folder = Path(out) if out else Path("comparisons") / _name(first, gradients)
    require_folder(folder)
    plan = planned(
        first.tree(),
        wanted,
        range(base.seed, base.seed + (seeds or SEEDS)),
        parameters,
        folder,
        compile=base.run.compile,
        gradients=gradients,
        shard_size=first.problem.num_samples / first.graph.n,
    )
    if not quiet:
        _announce(first, parameters, wanted, gradients)
        _announce_plan(plan, folder)
    options = ["--seeds", str(seeds or SEEDS)]
    options += ["--gradients", str(gradients)] if gradients else []
    with RunFolder(folder).locked(), served(plan.folders, live, quiet, wanted):
        record_comparison(folder, first.tree(), parameters, wanted, options)
        carry_out(plan.todo, jobs, quiet)
    return _report(read_runs(plan.folders, wanted), folder, _title(first), quiet)


def _compare_folders(folders: list[Path], out: Path, quiet: bool) -> int:
    from proxmesh.report.runs import collect

    require_folder(out)  # not that of a run: its own curves would be lost
    return _report(collect(folders), out, "", quiet)


def _report(
    runs: "Sequence[FinishedRun]", folder: Path, title: str, quiet: bool
) -> int:
    """Write and print the report; code 4 when no run came to a good end."""
    from proxmesh.report.comparison import write_comparison
    from proxmesh.report.writing import REPORT, attempted, report_on_runs

    files = write_comparison(runs, folder, title)
    report = attempted(lambda: report_on_runs({"": runs}, folder / REPORT))
    if quiet:
        console.print(escape(str(folder)))
    else:
        _print_table(runs)
        console.print(f"results in {escape(str(folder))}: {', '.join(files)}")
        if report is not None:
            console.print(f"report: {escape(str(report))}")
    return 0 if any(run.is_good for run in runs) else 4


def _task_to_compare_on(task: TaskOptions) -> "Config":
    config = task.config(leave_out=_is_for_a_method)
    if config.algorithm.model_fields_set:
        raise InputError(
            "`algorithm` is the section of a single method. Name methods with "
            "`--algorithms`, and set their values with `--set METHOD.KEY=VALUE` or "
            "`--params`."
        )
    return config


def _print_table(runs: "Sequence[FinishedRun]") -> None:
    """Print the table of a comparison, the best in bold."""
    from rich.table import Table

    from proxmesh.report.tables import cells

    titles, rows = cells(runs)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for number, title in enumerate(titles):
        outer = number in {0, len(titles) - 1}
        table.add_column(title, justify="left" if outer else "right", no_wrap=True)
    for row in rows:
        texts = [(escape(cell.text), cell.best) for cell in row]
        table.add_row(*(f"[bold]{text}[/]" if best else text for text, best in texts))
    print_wide(table)


def _usual_methods() -> tuple[str, ...]:
    from proxmesh.algorithms import ALGORITHMS

    paper = [name for name, method in ALGORITHMS.items() if method.in_paper]
    return (*paper, "prox-dasa")


def _is_for_a_method(assignment: str) -> bool:
    """Whether ``section.key=value`` names a method in place of a section."""
    from proxmesh.runs.config import Config

    return (
        assignment.split("=", maxsplit=1)[0].split(".", maxsplit=1)[0].strip()
        not in Config.model_fields
    )


def _with_assignments(
    parameters: "Parameters", assignments: list[str], wanted: list[str]
) -> "Parameters":
    from proxmesh.runs.config import Config, assignment, put
    from proxmesh.runs.presets import changed

    methods: dict[str, Any] = {}
    for text in filter(_is_for_a_method, assignments):
        path, value = assignment(text)
        label = path.split(".")[0]
        if label not in wanted:
            known = [*Config.model_fields, *wanted]
            raise unknown("section or method", label, known, of=f"`--set {text}`")
        put(methods, path, value)
    return changed(parameters, methods) if methods else parameters


def _parameters(
    name: str | None,
    first: "Built",
    wanted: dict[str, str],
    assignments: list[str],
) -> "Parameters":
    """The constants: of the preset that fits, or those named, with some set anew."""
    from proxmesh.algorithms import ALGORITHMS
    from proxmesh.runs.methods import is_from_file
    from proxmesh.runs.presets import DEFAULTS, changed, load_parameters, preset_for

    if name is None:
        found = (preset_for(first.tree()) or DEFAULTS).left_automatic()
    else:
        found = load_parameters(name)
    for label, method in wanted.items():
        if is_from_file(method):
            found = changed(found, {label: {"algorithm": method}})
        elif label not in found.methods and label not in ALGORITHMS:
            raise unknown("algorithm", label, [*ALGORITHMS, *found.methods])
    return _with_assignments(found, assignments, list(wanted))


def _announce(
    first: "Built", parameters: "Parameters", wanted: list[str], gradients: int | None
) -> None:
    from proxmesh.runs.presets import AUTOMATIC

    console.print(f"[bold]{escape(_title(first))}[/]")
    date = parameters.tuned.get("date")
    tuned = f", tuned {one_line(str(date), 40)}" if date else ""
    console.print(f"constants: {escape(parameters.source + tuned)}")
    tree = first.tree()
    budget = (
        gradients or GRADIENTS_PER_STEP * tree["run"]["steps"] * tree["run"]["batch"]
    )
    notes = [*parameters.differences(tree), parameters.budget_note(budget)]
    for note in filter(None, notes):
        console.print(f"[yellow]note:[/] {escape(f'{parameters.source}: {note}')}")
    missing = [
        label for label in wanted if not {*parameters.methods.get(label, {})} - {NAMED}
    ]
    found = [label for label in missing if label in AUTOMATIC]
    others = [label for label in missing if label not in found]
    if found:
        console.print(f"found by each run itself: {', '.join(found)}")
    if others and parameters.methods:
        console.print(f"at their defaults: {', '.join(others)}")


def _announce_plan(plan: "Plan", folder: Path) -> None:
    for run in plan.incomplete:
        console.print(f"{escape(run.name)}: incomplete, goes on or starts over")
    if plan.done:
        console.print(f"{len(plan.done)} runs are already in {escape(str(folder))}")


def _title(first: "Built") -> str:
    config = first.tree()
    return (
        f"{Path(config['data']['name']).stem}, {config['model']['name']}, "
        f"{config['graph']['name']} of {first.graph.n} agents, batch "
        f"{config['run']['batch']}, {config['data']['split']} split"
    )


def _name(first: "Built", gradients: int | None) -> str:
    config = first.tree()
    parts = [
        Path(config["data"]["name"]).stem,
        config["model"]["name"],
        f"{Path(config['graph']['name']).stem}{first.graph.n}",
        f"{gradients}-gradients" if gradients else str(config["run"]["steps"]),
    ]
    return "-".join(parts)
