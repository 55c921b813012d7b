"""params.toml: the best values of a tuning, and what made them."""

import datetime
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from proxmesh import __version__
from proxmesh.errors import InputError
from proxmesh.runs.config import task_of
from proxmesh.runs.presets import load_parameters

if TYPE_CHECKING:
    from proxmesh.runs.tune import Search

__all__ = ["compare_command", "write_parameters"]

FLAGS = {
    "data.name": "--dataset",
    "model.name": "--model",
    "graph.name": "--graph",
    "graph.agents": "--agents",
    "run.batch": "--batch",
    "data.split": "--split",
    "model.init": "--init",
}
USUAL = "a9a-ring"  # the preset of the task that every default is for


def compare_command(file: Path, task: Mapping[str, Any]) -> str:
    """The command that compares with what was found, on the task it was found on.

    Examples
    --------
    >>> compare_command(Path("tuning/params.toml"), {"graph.name": "star"})
    'proxmesh compare --params tuning/params.toml --graph star'
    """
    usual = load_parameters(USUAL).task
    words = ["proxmesh", "compare", "--params", str(file)]
    for key, value in task.items():
        if value == usual.get(key):
            continue
        text = value if isinstance(value, str) else _toml_value(value)
        flag = FLAGS.get(key)
        words += [flag, text] if flag else ["--set", f"{key}={_toml_value(value)}"]
    return shlex.join(words)


def _toml_value(value: Any) -> str:
    """A value as it stands in a TOML file."""
    return tomli_w.dumps({"value": value}).partition("=")[2].strip()


def write_parameters(
    file: Path, made: Sequence["Search"], config: Mapping[str, Any], command: str
) -> None:
    """Write the best values, and the command, budget and date that made them."""
    budget = made[0].budget
    made = [search for search in made if search.found]
    if not made:
        raise InputError(
            f"every trial diverged or failed, see `{file.parent / 'trials.csv'}`. "
            "Widen the search space, or allow shorter steps in it."
        )
    tree = {
        "tuned": {
            "command": command,
            "date": datetime.datetime.now(datetime.UTC).date(),
            "version": __version__,
            "trials": budget.trials,
            "gradients": budget.gradients,
            "objective": budget.objective,
            "sampler": budget.sampler,
            "seed": config["seed"],
            "reached": {s.label: s.best[1] for s in made},
            "defaults_reached": {
                s.label: s.defaults for s in made if s.defaults is not None
            },
            "automatic": {  # constants that no trial was better than
                s.label: list(s.constants) for s in made if s.automatic_is_best
            },
        },
        "task": task_of(config),
        "methods": {search.label: _section(search) for search in made},
    }
    file.write_text(tomli_w.dumps(tree))


def _section(search: "Search") -> dict[str, Any]:
    named = {} if search.method == search.label else {"algorithm": search.method}
    return {**named, **search.best[0]}
