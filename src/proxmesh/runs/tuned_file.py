"""params.toml: the best values of a tuning, and what made them."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from proxmesh import __version__
from proxmesh.errors import InputError
from proxmesh.runs.config import task_of

if TYPE_CHECKING:
    from proxmesh.runs.tune import Search

__all__ = ["write_parameters"]


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
