"""The numbers of a page: one document, read from run folders, ready for JSON."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scipy.special import stdtrit

from proxmesh import __version__
from proxmesh.algorithms import ALGORITHMS
from proxmesh.errors import InputError, shortened
from proxmesh.metrics import COLUMNS, HIGHER_IS_BETTER
from proxmesh.report.page_about import about_run, task_in_words
from proxmesh.report.page_network import drawn_layer, drawn_network, followed
from proxmesh.report.page_tables import table_of_runs
from proxmesh.report.page_tuning import is_tuning, tuning_group
from proxmesh.report.palette import lines_of
from proxmesh.report.runs import RUNNING, FinishedRun, collect
from proxmesh.report.thinning import kept_iterations, points_for, rounded
from proxmesh.runs.config import task_of
from proxmesh.runs.record import command_in

__all__ = ["NUMBERS", "document_of", "groups_in", "runs_group"]

NUMBERS: Final = 150_000  # in all curves of a page: with plotly it stays below 3 MB
NUMBERS_OF_AGENTS: Final = 40_000
MOST_RUNS: Final = 400
MOST_FOLLOWED: Final = 12  # networks and first layers
COUNTED = (
    "iteration",
    "gradients",
    "vectors_sent",
    "bytes_sent",
    "seconds",
    "simulated_seconds",
)
LABELS = {
    "iteration": "iterations",
    "gradients": "gradient evaluations per agent",
    "vectors_sent": "vectors sent per agent",
    "bytes_sent": "bytes sent over all edges",
    "seconds": "seconds of computing",
    "simulated_seconds": "seconds on this network",
    "train_loss": "training loss",
    "density": "share of nonzeros, average model",
    "density_y": "share of nonzeros",
    "consensus": "consensus error",
    "norm": "norm of the proximal gradient step",
    "kkt": "KKT residual",
}
SHORT = {  # in lists of columns, where there is less room than along an axis
    "gradients": "gradient evaluations",
    "vectors_sent": "vectors sent",
    "bytes_sent": "bytes sent",
    "seconds": "computing seconds",
    "density": "nonzeros of the average",
    "norm": "proximal gradient",
}
ON_LOG_SCALES = {"stationarity", "norm", "consensus", "kkt"}


def document_of(
    groups: Sequence[Mapping[str, Any]], title: str = "", live: bool = False
) -> dict[str, Any]:
    """All that a page knows; `groups`: one for each task, or tuning."""
    columns = dict.fromkeys(
        name
        for group in groups
        for run in group.get("runs", ())
        for name in run["columns"]
    )
    seeds = max((len(group.get("runs", ())) for group in groups), default=0)
    now = datetime.datetime.now(datetime.UTC)
    return {
        "title": title or _title_of(groups),
        "subtitle": "" if len(groups) != 1 else groups[0].get("subtitle", ""),
        "made": now.isoformat(timespec="minutes"),
        "version": __version__,
        "live": live,
        "columns": {name: _column(name) for name in columns},
        "t95": _student(max(1, seeds)),
        "groups": list(groups),
    }


def groups_in(folders: Sequence[Path], numbers: int = NUMBERS) -> list[dict[str, Any]]:
    """A group for each tuning, and for each task of the runs, ended or not."""
    tunings = [folder for folder in folders if is_tuning(folder)]
    others = [folder for folder in folders if not is_tuning(folder)]
    tasks: dict[str, list[FinishedRun]] = {}
    for run in in_usual_order(collect(others, unended=True)) if others else ():
        tasks.setdefault(repr(sorted(task_of(run.config).items())), []).append(run)
    groups = [tuning_group(folder) for folder in tunings]
    share = numbers // max(1, len(tasks))
    return [*groups, *(runs_group(runs, numbers=share) for runs in tasks.values())]


def in_usual_order(runs: Iterable[FinishedRun]) -> list[FinishedRun]:
    """Methods as the registry lists them, then others as they come."""
    order = {name: place for place, name in enumerate(ALGORITHMS)}
    return sorted(runs, key=lambda run: order.get(run.label, len(order)))


def runs_group(
    runs: Sequence[FinishedRun], title: str = "", numbers: int = NUMBERS
) -> dict[str, Any]:
    """Curves, table, networks and facts of runs of one task."""
    shown = [run for run in runs if len(run.history)][:MOST_RUNS]
    columns = max((len(run.history.columns) for run in shown), default=1)
    most = points_for(numbers, len(shown) * columns)
    kept = kept_iterations((run.history for run in shown), most)
    labels = list(dict.fromkeys(run.label for run in runs))
    lines = lines_of(labels)
    first = followed(runs)
    data, task = task_in_words(next((r.config for r in runs if r.config), {}))
    return {
        "kind": "runs",
        "title": title or ", ".join(filter(None, (data, task))),
        "data": data,
        "subtitle": task,
        "methods": [
            {
                "label": label,
                "light": line.light,
                "dark": line.dark,
                "dash": line.dash,
                "width": line.width,
            }
            for label, line in lines.items()
        ],
        "runs": [_curves(run, kept) for run in shown],
        "left_out": len([run for run in runs if len(run.history)]) - len(shown),
        "thinned": 0 if kept is None else most,
        "table": table_of_runs(runs),
        "command": _command_of(runs),
        "about": [about_run(run) for run in first],
        "agents": _of_agents(first),
    }


def _command_of(runs: Sequence[FinishedRun]) -> str:
    """What makes the comparison again that these runs are, if they are one."""
    folders = {run.folder.parent.parent for run in runs}
    try:
        return command_in(folders.pop()) if len(folders) == 1 else ""
    except InputError:  # a malformed file
        return ""


def _curves(run: FinishedRun, kept: set[float] | None) -> dict[str, Any]:
    rows = run.history.drop_duplicates("iteration", keep="last")
    if kept is not None:
        rows = rows[rows["iteration"].isin(kept)]
    return {
        "label": run.label,
        "seed": run.seed,
        "outcome": run.outcome,
        "end": "" if run.is_good else run.end,
        "counts": run.is_good or run.outcome == RUNNING,
        "rows": len(run.history),
        "columns": {
            shortened(name): rounded(rows[name].to_numpy(float)) for name in rows
        },
    }


def _of_agents(runs: Sequence[FinishedRun]) -> list[dict[str, Any]]:
    """Networks and first layers, of one run for each method."""
    chosen = runs[:MOST_FOLLOWED]
    share = NUMBERS_OF_AGENTS // max(1, len(chosen))
    found = []
    for run in chosen:
        try:
            network, layer = drawn_network(run, share), drawn_layer(run)
        except InputError:  # a malformed file: the curves are worth a page without it
            continue
        if network or layer:
            about = {"label": run.label, "seed": run.seed}
            found.append({**about, "network": network, "layer": layer})
    return found


def _column(name: str) -> dict[str, Any]:
    label = LABELS.get(name, name.replace("_", " "))
    return {
        "label": label,
        "short": SHORT.get(name, label),
        "about": COLUMNS.get(name, ""),
        "cost": name in COUNTED,
        "log": name in ON_LOG_SCALES,
        "higher": name in HIGHER_IS_BETTER,
    }


def _student(most: int) -> list[float]:
    """The factor of the 95 % interval of a mean, by degrees of freedom from 1 on."""
    return [round(float(stdtrit(freedom, 0.975)), 4) for freedom in range(1, most + 1)]


def _title_of(groups: Sequence[Mapping[str, Any]]) -> str:
    if len(groups) != 1:
        return f"{len(groups)} tasks"
    (group,) = groups
    if group["kind"] == "tuning":
        return str(group["title"])
    labels = [method["label"] for method in group["methods"]]
    if not labels:
        return "No numbers yet"
    told = labels[0] if len(labels) == 1 else f"{len(labels)} methods"
    return f"{told} on {group['data']}" if group["data"] else told
