"""`proxmesh paper`: the paper's experiments, and the ones it should have had."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxmesh.cli.console import console, require_folder, show_notices
from proxmesh.errors import unknown

if TYPE_CHECKING:
    from proxmesh.paper.comparisons import Comparison
    from proxmesh.report.runs import FinishedRun

__all__ = ["paper"]


def paper(
    figure: Annotated[
        str | None, typer.Argument(help="Which; without one, list them; or all.")
    ] = None,
    scale: Annotated[
        str, typer.Option(help="small (minutes), standard, or full (the papers').")
    ] = "standard",
    data_dir: Annotated[
        str | None, typer.Option(help="Folder of MNIST and the like.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs at a time [cores / threads].", min=1)
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Folder of figures [paper/SCALE].")
    ] = None,
    runs: Annotated[
        str | None, typer.Option(help="Folder of runs; kept and reused [OUT/runs].")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print files only.")] = False,
) -> int:
    """Make a figure or table of the paper, or one it should have had."""
    show_notices()
    from proxmesh.paper import FIGURES
    from proxmesh.paper.comparisons import COMPARISONS, SCALES

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
        found = {
            needed: _made(
                needed, COMPARISONS[needed], scale, kept, data_dir, jobs, quiet
            )
            for needed in FIGURES[name].needs
        }
        folder = top / name
        folder.mkdir(parents=True, exist_ok=True)
        for needed, mine in found.items():
            _write_configs(
                COMPARISONS[needed], scale, mine, top / "comparisons", needed
            )
        FIGURES[name].make(found, folder)
        for file in ("figure.png", "table.md"):
            if (folder / file).exists():
                console.print(str(folder / file))
    return 0


def _made(
    name: str,
    comparison: "Comparison",
    scale: str,
    kept: Path,
    data_dir: str | None,
    jobs: int | None,
    quiet: bool,
) -> "list[FinishedRun]":
    """Make the runs of a comparison that are not there, and read them all."""
    from proxmesh.cli.pool_progress import carry_out
    from proxmesh.report.runs import read_runs
    from proxmesh.runs.build import build
    from proxmesh.runs.compare import planned, single_threaded

    task = build(single_threaded(comparison.config(scale, data_dir))).tree()
    plan = planned(
        task,
        comparison.labels,
        range(comparison.size(scale).seeds),
        comparison.parameters(),
        kept / name,
    )
    if not quiet:
        there = f", {len(plan.done)} are there already" if plan.done else ""
        total = len(plan.todo) + len(plan.done)
        console.print(f"[bold]{name}[/]: {comparison.title}; {total} runs{there}")
    carry_out(plan.todo, jobs, quiet)
    order = comparison.labels.index
    return sorted(read_runs(plan.folders), key=lambda run: (order(run.label), run.seed))


def _write_configs(
    comparison: "Comparison",
    scale: str,
    runs: "list[FinishedRun]",
    folder: Path,
    name: str,
) -> None:
    """Keep what reruns the comparison: its task, and the constants of each label."""
    import tomli_w

    from proxmesh.report.tables import last_rows
    from proxmesh.solver.folder import without_empty

    folder.mkdir(exist_ok=True)
    task = comparison.config(scale).tree()
    del task["algorithm"]
    parameters = comparison.parameters()
    methods = {label: parameters.section(label) for label in comparison.labels}
    for section in methods.values():
        section["algorithm"] = section.pop("name")
    (folder / f"{name}-task.toml").write_text(tomli_w.dumps(without_empty(task)))
    (folder / f"{name}-methods.toml").write_text(
        tomli_w.dumps(without_empty({"methods": methods}))
    )
    last_rows(runs).to_csv(folder / f"{name}-runs.csv", index=False)
