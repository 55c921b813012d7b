"""`proxmesh run`: one method on one task."""

import json
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proxmesh.cli.console import console, show_notices
from proxmesh.errors import InputError

if TYPE_CHECKING:
    from proxmesh.experiment.assemble import Job
    from proxmesh.experiment.results import Result

__all__ = ["run"]

EXIT_CODES = {"finished": 0, "target reached": 0, "diverged": 4, "interrupted": 130}
COLORS = {
    "finished": "green",
    "target reached": "green",
    "diverged": "red",
    "interrupted": "yellow",
}


def run(
    algorithm: Annotated[str | None, typer.Option(help="Method [hsm-admm].")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Name or own .npz, .csv, LIBSVM file [a9a].")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="mlp, logistic or lenet [suits the data].")
    ] = None,
    graph: Annotated[
        str | None, typer.Option(help="Topology, or a file of edges [ring].")
    ] = None,
    agents: Annotated[int | None, typer.Option(help="Number of agents [8].")] = None,
    steps: Annotated[int | None, typer.Option(help="Iterations [2000].")] = None,
    batch: Annotated[
        int | None, typer.Option(help="Samples a minibatch and agent [64].")
    ] = None,
    l1: Annotated[float | None, typer.Option(help="Weight of |x|_1 [1e-4].")] = None,
    regularizer: Annotated[
        str | None, typer.Option(help="l1, none, group-lasso, box, ... [l1].")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="contiguous, shuffled, by-label, dirichlet, unequal [contiguous]."
        ),
    ] = None,
    init: Annotated[
        str | None, typer.Option(help="Initial models: same or different [same].")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Feeds graph, initial values, sampling [0].")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="auto or simulated [auto].")
    ] = None,
    eval_every: Annotated[
        int | None, typer.Option(help="Iterations between evaluations [steps/40].")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(help="Stop at METRIC=VALUE, such as stationarity=1e-3."),
    ] = None,
    compile: Annotated[
        str | None, typer.Option(help="torch.compile the step: on or off [off].")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads [1 for small models].")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32 or float64 [float32].")
    ] = None,
    device: Annotated[str | None, typer.Option(help="torch device [cpu].")] = None,
    data_dir: Annotated[
        str | None, typer.Option(help="Folder of MNIST and the like.")
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="TOML file; flags win over it.")
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option(help="Anything else: section.key=value, as in the TOML file."),
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Run folder [a new one under runs/].")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a run in --out.")
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
    from proxmesh.experiment.assemble import assemble
    from proxmesh.experiment.config import load_config

    if l1 is not None and regularizer not in {None, "l1"}:
        raise InputError(
            f"`--l1` is the weight of the regularizer `l1`, but `--regularizer` is "
            f"`{regularizer}`. Use `--set regularizer.KEY=VALUE`."
        )
    flags = {
        "seed": seed,
        "algorithm.name": algorithm,
        "graph.name": graph,
        "graph.agents": agents,
        "data.name": dataset,
        "data.dir": data_dir,
        "data.split": split,
        "model.name": model,
        "model.init": init,
        "regularizer.name": regularizer if l1 is None else "l1",
        "regularizer.weight": l1,
        "run.steps": steps,
        "run.batch": batch,
        "run.eval_every": eval_every,
        "run.target": _targets(target),
        "run.compile": compile,
        "run.threads": threads,
        "run.engine": engine,
        "run.dtype": dtype,
        "run.device": device,
    }
    job = assemble(load_config(config, flags, set or []))
    folder = Path(out) if out else _new_folder(job)
    return _carried_out(job, folder, force, quiet=quiet, as_json=as_json)


def _carried_out(
    job: "Job", folder: Path, force: bool, *, quiet: bool, as_json: bool
) -> int:
    from proxmesh.cli.progress import progress
    from proxmesh.experiment.results import RunFolder
    from proxmesh.report.figures import draw_run

    RunFolder.require_free(folder, force)
    title = _title(job)
    silent = quiet or as_json
    if not silent:
        console.print(f"[bold]{title}[/]")
    received: list[int] = []
    _stop_at_sigterm(received)
    with progress(job.config["run"]["steps"], silent) as observer:
        result = job.run(folder, force, observer)
    if len(result.history) > 1:
        draw_run(folder, title)
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


def _targets(texts: list[str] | None) -> dict[str, float] | None:
    if not texts:
        return None
    targets = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            targets[name.strip()] = float(value)
        except ValueError as error:
            raise InputError(
                f"`--target {text}` is not METRIC=VALUE, such as stationarity=1e-3."
            ) from error
    return targets


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
    console.print(f"[{COLORS[result.outcome]}]{result.outcome}[/]: {result.message}")
    console.print(f"results in {folder}")
