"""Several methods and seeds on one task: which runs, and which are made already."""

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import tomli_w

from proxmesh.errors import InputError
from proxmesh.runs.build import build_algorithm
from proxmesh.runs.config import (
    HOW_IT_IS_COMPUTED,
    Config,
    flattened,
)
from proxmesh.runs.pool import Errand
from proxmesh.runs.presets import Parameters
from proxmesh.solver.costs import Costs
from proxmesh.solver.folder import RunFolder, without_empty

__all__ = [
    "Plan",
    "planned",
    "require_same",
    "run_config",
    "single_threaded",
    "steps_within",
]


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """Runs to make, and those that the folder holds already."""

    todo: list[Errand]
    done: list[Errand]
    redone: list[Errand]  # half-written ones among those to do

    @property
    def folders(self) -> list[Path]:
        """The folder of every run, made or not."""
        return [errand.folder for errand in (*self.done, *self.todo)]


def planned(
    task: Mapping[str, Any],
    labels: Sequence[str],
    seeds: Sequence[int],
    parameters: Parameters,
    out: Path,
    *,
    compile: str = "auto",  # noqa: A002 - as in the config
    gradients: int | None = None,
    shard_size: float = 0.0,
) -> Plan:
    """List every run of a complete config's task; refuse a folder of other ones.

    With `gradients`, a method makes as many steps as that many sample gradients of
    each agent pay for, and is looked at as many times as the others. Whether to
    compile is decided for each method, if `compile` leaves that open.
    """
    errands = []
    for label in labels:
        section = parameters.section(label)
        run: dict[str, Any] = {"compile": compile}
        if gradients is not None:
            algorithm = build_algorithm(_config(task, section, 0))
            batch = task["run"]["batch"]
            steps = steps_within(gradients, algorithm, batch, shard_size)
            looks = task["run"]["steps"] / task["run"]["eval_every"]
            run |= {"steps": steps, "eval_every": max(1, round(steps / looks))}
        for seed in seeds:
            config = run_config(task, section, seed, **run)
            folder = out / label / f"seed-{seed}"
            errands.append(Errand(f"{label} seed {seed}", config, folder))
    done = [e for e in errands if RunFolder(e.folder).is_whole()]
    for errand in done:
        require_same(errand)
    todo = [e for e in errands if e not in done]
    redone = [e for e in todo if RunFolder(e.folder).is_begun()]
    return Plan(todo, done, redone)


def run_config(
    task: Mapping[str, Any], section: Mapping[str, Any], seed: int, **run: Any
) -> dict[str, Any]:
    """Return the complete config of one run: this method and seed on the task."""
    config = _config(task, section, seed, **run)
    tree = config.tree()
    tree["algorithm"] |= dataclasses.asdict(build_algorithm(config))
    return without_empty(tree)


def single_threaded(config: Config) -> Config:
    """Give runs that stand side by side one thread each, unless told otherwise."""
    threads = config.run.threads or 1
    run = config.run.model_copy(update={"threads": threads})
    return config.model_copy(update={"run": run})


def steps_within(
    gradients: int, algorithm: Any, batch_size: int, shard_size: float
) -> int:
    """Steps that an agent can make with this many sample gradients, init included."""
    costs = Costs(algorithm, batch_size, shard_size, vector_bytes=0)
    costs.add(0)
    k = 0
    while True:
        costs.add(k + 1)
        if costs.gradients > gradients:
            break
        k += 1
    if k == 0:
        raise InputError(
            f"a budget of {gradients:,} gradients does not pay for one step of "
            f"`{type(algorithm).__name__}`, which takes {costs.gradients:,}. Raise it."
        )
    return k


def require_same(errand: Errand) -> None:
    """Refuse a folder whose run is not the one that was asked for."""
    there = flattened(RunFolder(errand.folder).config())
    asked = flattened(tomllib.loads(tomli_w.dumps(errand.config)))
    found = {f"algorithm.{name}" for name in there.get("run.automatic", ())}
    ignored = {*HOW_IT_IS_COMPUTED, "run.automatic", *(found - set(asked))}
    for key in sorted({*there, *asked} - ignored):
        if there.get(key) != asked.get(key):
            raise InputError(
                f"folder `{errand.folder}` holds another run: its `{key}` is "
                f"{there.get(key)!r}, asked for is {asked.get(key)!r}. Choose another "
                "folder, or remove that one."
            )


def _config(
    task: Mapping[str, Any], section: Mapping[str, Any], seed: int, **run: Any
) -> Config:
    return Config.model_validate(
        {**task, "seed": seed, "algorithm": section, "run": {**task["run"], **run}}
    )
