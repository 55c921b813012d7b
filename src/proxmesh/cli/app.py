"""Commands and how they end.

Exit code 0 done, 2 bad input, 3 a lost rank, 4 diverged (`check`: would diverge),
129/130/143 interrupted.
"""

import os
import sys
from itertools import pairwise
from typing import Annotated, Any, NoReturn

import typer

from proxmesh import __version__
from proxmesh.cli import (
    bench,
    check,
    compare,
    data,
    doctor,
    graph,
    new,
    paper,
    plot,
    predict,
    report,
    resume,
    run,
    runs,
    tune,
)
from proxmesh.cli import list as listing
from proxmesh.cli.catalog import methods_epilog
from proxmesh.cli.console import complain
from proxmesh.errors import InputError, LostRankError, shortened
from proxmesh.launchers import launched
from proxmesh.limits import in_one_line

__all__ = ["app", "main"]

# typer brings its own click or imports the package, depending on its version.
UsageError: Any = typer.BadParameter.__base__

ONE_PROCESS = {
    "bench", "check", "compare", "data", "graph", "list", "new", "paper", "plot",
    "predict", "report", "runs", "tune",
}  # fmt: skip
METHODS = methods_epilog()

app = typer.Typer(
    name="proxmesh",
    help="Train one model across a network of peers; each keeps its data to itself.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", epilog=METHODS)(run.run)
app.command("resume")(resume.resume)
app.command("check", epilog=METHODS)(check.check)
app.command("compare", epilog=METHODS)(compare.compare)
app.command("tune", epilog=METHODS)(tune.tune)
app.command("paper")(paper.paper)
app.command("plot")(plot.plot)
app.command("predict")(predict.predict)
app.command("new")(new.new)
app.command("list")(listing.list_)
app.command("report")(report.report)
app.command("graph")(graph.graph)
app.command("bench")(bench.bench)
app.command("doctor")(doctor.doctor)
app.add_typer(data.app, name="data")
app.add_typer(runs.app, name="runs")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"proxmesh {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    del version
    os.environ["MPLBACKEND"] = "agg"  # pictures are files here, whatever it was
    launch = launched()
    if launch.size > 1 and context.invoked_subcommand in ONE_PROCESS:
        raise InputError(
            f"`proxmesh {context.invoked_subcommand}` starts processes of its own, but "
            f"{launch.launcher} started it {launch.size} times. Start it once."
        )


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit; bad input is one line and code 2."""
    try:
        with in_one_line("proxmesh"):
            code = app(args=arguments, prog_name="proxmesh", standalone_mode=False)
    except InputError as error:
        complain(str(error))
        _leave(2)
    except LostRankError as error:
        complain(str(error), at_once=True)
        _leave(3)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())
            sys.exit(0)
        complain(_one_line(error, sys.argv if arguments is None else arguments))
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt):
        _leave(130)
    sys.exit(code if isinstance(code, int) else 0)


def _leave(code: int) -> NoReturn:
    """Exit; with other ranks about, past MPI's finalizer, which would wait for them."""
    if launched(checked=False).size > 1 and "proxmesh.network" in sys.modules:
        from proxmesh.network.exits import end_process

        end_process(code)
    sys.exit(code)


def _one_line(error: Any, arguments: list[str]) -> str:
    message = " ".join(error.format_message().split())
    parameter = error.param if isinstance(error, typer.BadParameter) else None
    value = _value_of(parameter.opts if parameter else [], arguments)
    got = ""
    if value is not None:
        message = message.replace(value, shortened(value))
        got = "" if shortened(value) in message else f", got '{shortened(value)}'"
    path = error.ctx.command_path if error.ctx else "proxmesh"
    return f"{message.rstrip('.')}{got}. See `{path} --help`."


def _value_of(names: list[str], arguments: list[str]) -> str | None:
    """Find what was typed for an option; typer's messages leave it out."""
    typed = [value for name, value in pairwise(arguments) if name in names]
    return typed[-1] if typed else None
