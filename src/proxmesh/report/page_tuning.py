"""The trials of a tuning, as a page shows them."""

import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from proxmesh.errors import InputError, shortened
from proxmesh.files import parsed_toml
from proxmesh.report.page_about import task_in_words
from proxmesh.report.page_tables import plain_table
from proxmesh.report.palette import lines_of
from proxmesh.report.thinning import rounded
from proxmesh.runs.config import put
from proxmesh.runs.tuned_file import compare_command
from proxmesh.solver.reading import one_line, text_in

__all__ = ["is_tuning", "tuning_group"]

TRIALS, BEST = "trials.csv", "params.toml"
MOST_TRIALS = 3000
ALWAYS = ("method", "trial", "outcome", "steps", "message")


def is_tuning(folder: Path) -> bool:
    """Whether `tune` wrote this folder."""
    return (folder / TRIALS).is_file()


def tuning_group(folder: Path) -> dict[str, Any]:
    """Trials, the best so far of each method, and what was found."""
    trials = _trials_in(folder / TRIALS).head(MOST_TRIALS)
    found = _found_in(folder / BEST)
    tuned = found.get("tuned", {}) if isinstance(found.get("tuned"), dict) else {}
    task = found.get("task", {}) if isinstance(found.get("task"), dict) else {}
    objective = str(tuned.get("objective") or _objective_of(trials))
    if objective not in trials or "method" not in trials:
        raise InputError(f"`{shortened(folder / TRIALS)}` is not a table of trials.")
    values = pd.to_numeric(trials[objective], errors="coerce")
    labels = [shortened(label) for label in trials["method"].astype(str)]
    lines = lines_of(list(dict.fromkeys(labels)))
    methods = []
    for label, line in lines.items():
        mine = values[[name == label for name in labels]].reset_index(drop=True)
        finite = mine.where(mine.abs() < math.inf)
        methods.append(
            {
                "label": label,
                "light": line.light,
                "dark": line.dark,
                "dash": line.dash,
                "width": line.width,
                "values": rounded(finite),
                "best": rounded(finite.cummin().ffill()),
            }
        )
    finite = values.where(values.abs() < math.inf).dropna()
    least = finite.groupby(trials["method"].astype(str)).idxmin()
    best = {(int(row), objective) for row in least}
    shown = [c for c in trials if trials[c].notna().any() and c != "message"]
    return {
        "kind": "tuning",
        "title": f"Tuning of {', '.join(lines)}",
        "subtitle": ", ".join(filter(None, task_in_words(_nested(task)))),
        "objective": objective,
        "methods": methods,
        "table": plain_table(trials[shown], "trials", best),
        "command": one_line(str(tuned.get("command", "")), 500),
        "use": one_line(compare_command(folder / BEST, task), 500),
        "found": _text_of(folder / BEST),
    }


def _nested(task: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of a config, from their dotted keys."""
    tree: dict[str, Any] = {}
    for key, value in task.items():
        put(tree, key, value)
    return tree


def _objective_of(trials: pd.DataFrame) -> str:
    """The column between the fixed ones and the values: `tune` writes it fifth."""
    free = [str(column) for column in trials if column not in ALWAYS]
    return free[0] if free else ""


def _trials_in(file: Path) -> pd.DataFrame:
    text = text_in(file)
    try:
        return pd.read_csv(io.StringIO(text), index_col=False)
    except (ValueError, OverflowError) as error:
        raise InputError(f"`{shortened(file)}` is not a table of trials.") from error


def _found_in(file: Path) -> dict[str, Any]:
    return parsed_toml(_text_of(file), f"`{shortened(file)}`")


def _text_of(file: Path) -> str:
    return text_in(file) if file.is_file() else ""
