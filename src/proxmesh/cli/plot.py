"""`proxmesh plot`: a figure for a paper, from run folders."""

from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.markup import escape

from proxmesh.cli.console import console, show_notices
from proxmesh.errors import InputError, shortened

if TYPE_CHECKING:
    from proxmesh.report.curves import Band
    from proxmesh.report.plotting import LegendPlace

__all__ = ["plot"]


def plot(
    folders: Annotated[
        list[str], typer.Argument(help="Folders of runs, or of a comparison.")
    ],
    x: Annotated[
        str,
        typer.Option(help="iterations, gradients, bytes, seconds, or any column."),
    ] = "iterations",
    y: Annotated[
        str, typer.Option(help="Columns a,b: a panel for each.")
    ] = "stationarity",
    methods: Annotated[
        str | None, typer.Option(help="Which, a,b, in the order of the legend [all].")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="Other names: A,B in their order, or METHOD=NAME,..."),
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(
            help="ieee, ieee-wide, neurips, or 3.5in, 89mm, 252pt [by --style]."
        ),
    ] = None,
    height: Annotated[
        str | None, typer.Option(help="Likewise [what suits the width].")
    ] = None,
    style: Annotated[str, typer.Option(help="paper, talk or dark.")] = "paper",
    band: Annotated[
        str,
        typer.Option(help="ci: 95 % interval of the mean; range of the seeds; none."),
    ] = "ci",
    seeds: Annotated[
        bool, typer.Option("--seeds", help="A thin line for each run, too.")
    ] = False,
    x_scale: Annotated[str, typer.Option(help="auto, linear or log.")] = "auto",
    y_scale: Annotated[
        str, typer.Option(help="The same; a,b for several columns.")
    ] = "auto",
    ylim: Annotated[
        list[str] | None,
        typer.Option(help="Ends of the vertical axis LOW,HIGH; one for each --y."),
    ] = None,
    legend: Annotated[str, typer.Option(help="above, inside or none.")] = "above",
    format: Annotated[
        str | None, typer.Option(help="pdf, svg or png [of --out, or pdf].")
    ] = None,
    out: Annotated[str | None, typer.Option(help="File to write [Y-by-X.pdf].")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the file in --out.")
    ] = False,
) -> None:
    """Draw curves for a paper: exact size, embedded fonts, readable without color."""
    show_notices()
    from proxmesh.front.plotting import plot as draw
    from proxmesh.report.pictures import picture_file

    columns = _parts(y)
    file = picture_file(out, format, force, name=f"{'-'.join(columns)}-by-{x}")
    figure = draw(
        folders,
        x,
        columns,
        methods=None if methods is None else _parts(methods),
        labels=None if labels is None else _labels(labels),
        width=width,
        height=height,
        style=style,
        band=cast("Band", band),  # checked there, as all of them are
        seeds=seeds,
        x_scale=x_scale,
        y_scale=_parts(y_scale),
        ylim=[_pair(text) for text in ylim] if ylim else None,
        legend=cast("LegendPlace", legend),
        out=file,
        force=force,
    )
    wide, high = figure.get_size_inches()
    console.print(f"{escape(str(file))}: {wide:.2f} x {high:.2f} inches")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _labels(text: str) -> list[str] | dict[str, str]:
    """Names in the order of the methods; with `=`, by method."""
    parts = _parts(text)
    if not any("=" in part for part in parts):
        return parts
    pairs = [part.partition("=") for part in parts]
    return {method.strip(): name.strip() for method, _, name in pairs}


def _pair(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise InputError(
            f"plot: `--ylim` must be LOW,HIGH, got `{shortened(text)}`."
        ) from None
    return low, high
