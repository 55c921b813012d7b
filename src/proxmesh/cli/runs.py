"""`proxmesh runs`: find earlier runs again."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from proxmesh.cli.console import console, print_wide

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from proxmesh.runs.listing import Details, ListedRun

__all__ = ["app"]

DEFAULT = "runs"  # where `proxmesh run` makes folders
SHOWN = 50
COLORS = {"finished": "green", "target reached": "green", "stopped early": "green"}
COLORS |= dict.fromkeys(("diverged", "failed", "unreadable"), "red")


class ListsByDefault(TyperGroup):
    """Takes ``runs FOLDER`` for ``runs list FOLDER``."""

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        """Put in the command that was left out."""
        if not arguments or arguments[0] not in {*self.commands, "-h", "--help"}:
            arguments = ["list", *arguments]
        return super().parse_args(context, arguments)


app = typer.Typer(
    cls=ListsByDefault,
    help="Find earlier runs: `runs [FOLDER]` lists them, `runs show RUN` shows one.",
    rich_markup_mode=None,
)


@app.command("list")
def list_(
    folder: Annotated[str | None, typer.Argument(help="Where to look [runs].")] = None,
    algorithm: Annotated[str | None, typer.Option(help="Only this method.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Only this data set.")] = None,
    outcome: Annotated[
        str | None, typer.Option(help="Only those with this outcome, such as diverged.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="A date, or an age: 30min, 12h, 7d, 2w.")
    ] = None,
    resumable: Annotated[
        bool, typer.Option("--resumable", help="Only those that can go on.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(help="Most to show [50; all with --json].", min=1)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """List the runs in and below a folder, the newest first."""
    from proxmesh.runs.listing import RunFilter, listed_runs, point_in_time

    earliest = None if since is None else point_in_time(since)
    wanted = RunFilter(algorithm, dataset, outcome, earliest, resumable)
    place = Path(folder or DEFAULT)
    nothing_yet = folder is None and not place.exists()
    found = [] if nothing_yet else listed_runs(place, wanted)
    if as_json:
        _print_json([run.tree() for run in found[:limit]])
        return
    shown = found[: limit or SHOWN]
    if not found:
        kind = "run" if wanted == RunFilter() else "such run"
        _say(f"no {kind} in {_clean(place)}")
        return
    _print_table(shown)
    for run in shown:
        if run.outcome == "unreadable":
            _say(f"unreadable: {run.message}")
    if len(shown) < len(found):
        _say(f"{len(shown)} of {len(found)} runs; `--limit {len(found)}` shows all")


@app.command("show")
def show(
    run: Annotated[str, typer.Argument(help="Its folder, or a part of the name.")],
    folder: Annotated[
        str, typer.Argument(help="Folder to look in for a part of a name.")
    ] = DEFAULT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Show one run: what it was, how it went, its files, how to make it again."""
    from proxmesh.runs.listing import details_of, found_run

    details = details_of(found_run(run, Path(folder)))
    if as_json:
        _print_json(details.tree())
    else:
        _print_details(details)


def _print_table(runs: "Sequence[ListedRun]") -> None:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("when", "method", "task"):
        table.add_column(title, no_wrap=True)
    for title in ("steps", "stationarity"):
        table.add_column(title, no_wrap=True, justify="right")
    for title in ("outcome", "resumable", "folder"):
        table.add_column(title, no_wrap=True)
    for run in runs:
        cells = (
            f"{run.date:%Y-%m-%d %H:%M}",
            run.algorithm or "-",
            run.task or "-",
            _steps(run, "/") or "-",
            "-" if run.stationarity is None else f"{run.stationarity:.3g}",
        )
        table.add_row(
            *map(Text, cells),
            Text(run.outcome, style=COLORS.get(run.outcome, "yellow")),
            Text("yes" if run.resumable else ""),
            Text(_clean(run.folder)),
        )
    print_wide(table)


def _print_details(details: "Details") -> None:
    run = details.run
    _say(_clean(run.folder), style="bold")
    end = Text(run.outcome, style=COLORS.get(run.outcome, "yellow"))
    console.print(end + Text(f": {run.message}" if run.message else ""))
    about = {
        "when": f"{run.date:%Y-%m-%d %H:%M:%S}",
        "method": _method(details.config),
        "task": _task(run, details.config),
        "steps": _steps(run, " of "),
        "files": ", ".join(details.files),
        "versions": ", ".join(f"{k} {v}" for k, v in details.versions.items()),
        **details.commands,
    }
    for name, value in about.items():
        if value:
            _say(f"{name:10} {value}")
    for reason in details.unreadable:
        if reason != run.message:
            _say(f"unreadable: {reason}")
    if details.rows:
        _print_rows(details)


def _print_rows(details: "Details") -> None:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for name in details.rows:
        table.add_column(name, justify="right")
    for column in next(iter(details.rows.values())):
        values = (row[column] for row in details.rows.values())
        title = _clean(column).replace("_", " ")
        table.add_row(Text(title), *(f"{value:,.4g}" for value in values))
    print_wide(table)


def _method(config: Any) -> str:
    """Its name and constants; those that the run found itself are marked."""
    section = dict(config.get("algorithm", {}))
    found = config.get("run", {}).get("automatic", [])
    name = section.pop("name", "")
    told = [
        f"{key}={value}{' (found)' if key in found else ''}"
        for key, value in _leaves(section)
    ]
    return _clean(f"{name} with {', '.join(told)}" if told else name)


def _leaves(tree: "Mapping[str, Any]", above: str = "") -> "Iterator[tuple[str, Any]]":
    """Names and values; those of a schedule with its name before them."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _task(run: "ListedRun", config: Any) -> str:
    more = {
        "batch": config.get("run", {}).get("batch"),
        "split": config.get("data", {}).get("split"),
        "seed": run.seed,
    }
    told = [f"{name} {value}" for name, value in more.items() if value is not None]
    return _clean(", ".join(filter(None, (run.task, *told))))


def _steps(run: "ListedRun", between: str) -> str:
    known = [str(steps) for steps in (run.done, run.planned) if steps is not None]
    return between.join(known) if run.done is not None else ""


def _clean(text: object) -> str:
    from proxmesh.solver.reading import one_line

    return one_line(str(text), 1000)


def _say(text: str, style: str | None = None) -> None:
    """Print a line whose words come from files: brackets are brackets."""
    console.print(Text(text), style=style)


def _print_json(tree: Any) -> None:
    console.print_json(json.dumps(tree, allow_nan=False))
