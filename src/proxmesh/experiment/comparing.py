"""Several methods and seeds on one task: which runs, and which are made already."""

import dataclasses
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pandas as pd
import tomli_w

from proxmesh.errors import InputError
from proxmesh.experiment.assemble import build_algorithm
from proxmesh.experiment.config import Config, flattened
from proxmesh.experiment.crew import Errand
from proxmesh.experiment.ledger import Ledger
from proxmesh.experiment.parameters import Parameters
from proxmesh.experiment.results import Outcome, without_empty

__all__ = ["Plan", "is_whole", "planned", "request", "steps_within", "task_of"]

NOT_THE_TASK = (  # how long, how closely and on what a task is run
    "data.dir",
    "run.compile",
    "run.device",
    "run.engine",
    "run.eval_every",
    "run.kkt",
    "run.steps",
    "run.target",
    "run.threads",
    "run.vectorize",
)
NOT_THE_RESULT = (
    "data.dir",
    "run.compile",
    "run.engine",
    "run.threads",
    "run.vectorize",
)


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """Runs to make, and those that the folder holds already."""

    todo: list[Errand]
    done: list[Errand]
    redone: list[Errand]  # half-written ones among those to do


def planned(
    base: Config,
    labels: Sequence[str],
    seeds: Sequence[int],
    parameters: Parameters,
    out: Path,
    *,
    gradients: int | None = None,
    shard_size: float = 0.0,
) -> Plan:
    """List every run; refuse a folder that holds other ones.

    With `gradients`, a method makes as many steps as that many sample gradients of
    each agent pay for, in place of the config's steps.
    """
    errands = []
    for label in labels:
        section = parameters.section(label)
        for seed in seeds:
            config = request(base, section, seed)
            if gradients is not None:
                algorithm = build_algorithm(config)
                batch = config.run.batch
                steps = steps_within(gradients, algorithm, batch, shard_size)
                config = _with_steps(config, steps)
            folder = out / label / f"seed-{seed}"
            errands.append(Errand(f"{label} seed {seed}", _complete(config), folder))
    done = [e for e in errands if is_whole(e.folder)]
    for errand in done:
        _require_same(errand)
    todo = [e for e in errands if e not in done]
    redone = [e for e in todo if (e.folder / "history.csv").exists()]
    return Plan(todo, done, redone)


def steps_within(
    gradients: int, algorithm: Any, batch_size: int, shard_size: float
) -> int:
    """Steps that an agent can make with this many sample gradients, init included."""
    ledger = Ledger(algorithm, batch_size, shard_size, vector_bytes=0)
    ledger.add(0)
    k = 0
    while True:
        ledger.add(k + 1)
        if ledger.gradients > gradients:
            break
        k += 1
    if k == 0:
        raise InputError(
            f"a budget of {gradients:,} gradients does not pay for one step of "
            f"`{type(algorithm).__name__}`, which takes {ledger.gradients:,}. Raise it."
        )
    return k


def is_whole(folder: Path) -> bool:
    """Whether a folder holds a run that came to its own end."""
    try:
        summary = json.loads((folder / "summary.json").read_text())
        tomllib.loads((folder / "config.toml").read_text())
        history = pd.read_csv(folder / "history.csv")
    except (OSError, ValueError, pd.errors.ParserError):
        return False
    ended: bool = summary.get("outcome") != Outcome.INTERRUPTED and len(history) > 0
    return ended


def task_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What two runs must share to be compared, as dotted keys."""
    return {
        key: value
        for key, value in flattened(config).items()
        if key != "seed"
        and not key.startswith("algorithm.")
        and not key.startswith(NOT_THE_TASK)
    }


def request(base: Config, section: Mapping[str, Any], seed: int) -> Config:
    """Return the config of one run: another method and seed, one thread if not told."""
    tree = base.model_dump()
    tree["algorithm"], tree["seed"] = dict(section), seed
    tree["run"]["threads"] = tree["run"]["threads"] or 1
    return Config.model_validate(tree)


def _with_steps(config: Config, steps: int) -> Config:
    tree = config.model_dump()
    tree["run"]["steps"] = steps
    return Config.model_validate(tree)


def _complete(config: Config) -> dict[str, Any]:
    """The config with every option of its method, as a run folder keeps it."""
    tree = config.model_dump()
    tree["algorithm"] |= dataclasses.asdict(build_algorithm(config))
    return without_empty(tree)


def _require_same(errand: Errand) -> None:
    """Refuse a folder whose run is not the one that was asked for."""
    there = flattened(tomllib.loads((errand.folder / "config.toml").read_text()))
    asked = flattened(tomllib.loads(tomli_w.dumps(errand.config)))
    for key, value in asked.items():
        if there.get(key) != value and key not in NOT_THE_RESULT:
            raise InputError(
                f"folder `{errand.folder}` holds another run: its `{key}` is "
                f"{there.get(key)!r}, asked for is {value!r}. Choose another `--out`, "
                "or remove that folder."
            )
