"""`proxmesh paper`: the paper's experiments, and the ones it should have had."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxmesh.cli.console import console, require_folder, show_notices
from proxmesh.errors import unknown
from proxmesh.solver.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxmesh.paper.budget import PaperSearch
    from proxmesh.paper.comparisons import Comparison
    from proxmesh.report.runs import FinishedRun
    from proxmesh.runs.compare import Plan

__all__ = ["paper"]


def paper(
    figure: Annotated[
        str | None, typer.Argument(help="Figure or table, or all [list them].")
    ] = None,
    scale: Annotated[
        str, typer.Option(help="small (minutes), standard, or full (as in the papers).")
    ] = "standard",
    data_dir: Annotated[str | None, typer.Option(help="Folder with MNIST.")] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs at the same time [cores / threads].", min=1)
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Folder for figures [paper/SCALE].")
    ] = None,
    runs: Annotated[
        str | None, typer.Option(help="Folder for runs, which are reused [OUT/runs].")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only the files.")
    ] = False,
) -> int:
    """Make a figure or table of the paper, or one it should have had."""
    show_notices()
    from proxmesh.cli.pool_progress import carry_out
    from proxmesh.paper import FIGURES
    from proxmesh.paper.comparisons import COMPARISONS, SCALES
    from proxmesh.report.runs import read_runs

    if figure is None:
        for name, known in FIGURES.items():
            console.print(f"{name:18}  {known.about}")
        return 0
    if figure != "all" and figure not in FIGURES:
        raise unknown("figure", figure, [*FIGURES, "all"])
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    top = Path(out or Path("paper") / scale)
    kept = Path(runs) if runs else top / "runs"
    require_folder(top)
    require_folder(kept)
    for name in FIGURES if figure == "all" else [figure]:
        search = FIGURES[name].search
        if search is not None:
            _searched(search, name, scale, top, kept / name, jobs, quiet)
            continue
        found = {}
        for needed in FIGURES[name].needs:
            comparison = COMPARISONS[needed]
            plan = comparison.plan(scale, kept / needed, data_dir)
            if not quiet:
                _announce(needed, comparison, plan)
            with RunFolder(kept / needed).locked():
                carry_out(plan.todo, jobs, quiet)
            found[needed] = read_runs(plan.folders, comparison.labels)
        for file in FIGURES[name].write(found, scale, top, name):
            console.print(str(file))
        report = _reported(found, FIGURES[name].about, top / name)
        if report is not None:
            console.print(str(report))
    return 0


def _searched(
    search: "PaperSearch",
    name: str,
    scale: str,
    top: Path,
    kept: Path,
    jobs: int | None,
    quiet: bool,
) -> None:
    """Make the trials of a search that are still missing, its figure and its page."""
    from proxmesh.cli.pool_progress import carry_out
    from proxmesh.report.writing import REPORT, attempted, report_on

    tuning = search.opened(scale, kept)
    begun = tuning.first()
    if not quiet:
        console.print(f"[bold]{name}[/]: {tuning.remaining} trials to make")
    kept.mkdir(parents=True, exist_ok=True)
    with RunFolder(kept).locked():
        carry_out(begun, jobs, quiet, tuning.after, total=tuning.remaining)
        tuning.write(
            kept, search.config().tree(), f"proxmesh paper {name} --scale {scale}"
        )
    for file in search.write(tuning, top / name):
        console.print(str(file))
    report = attempted(lambda: report_on([kept], top / name / REPORT))
    if report is not None:
        console.print(str(report))


def _reported(
    found: "Mapping[str, Sequence[FinishedRun]]", title: str, folder: Path
) -> Path | None:
    """The page of a figure: a task for each of its comparisons."""
    from proxmesh.paper.comparisons import COMPARISONS
    from proxmesh.report.writing import REPORT, attempted, report_on_runs

    tasks = {COMPARISONS[name].title: runs for name, runs in found.items()}
    return attempted(lambda: report_on_runs(tasks, folder / REPORT, title.rstrip(".")))


def _announce(name: str, comparison: "Comparison", plan: "Plan") -> None:
    there = f", {len(plan.done)} of them already there" if plan.done else ""
    total = len(plan.todo) + len(plan.done)
    console.print(f"[bold]{name}[/]: {comparison.title}; {total} runs{there}")
