"""Several methods and seeds on one task: which runs, and which are made already."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from proxmesh.errors import InputError
from proxmesh.runs.build import build_algorithm
from proxmesh.runs.config import (
    Config,
)
from proxmesh.runs.pool import PlannedRun
from proxmesh.runs.presets import Parameters
from proxmesh.solver.costs import Costs
from proxmesh.solver.folder import RunFolder, without_empty
from proxmesh.types import Algorithm

__all__ = [
    "Plan",
    "built_method",
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

    todo: list[PlannedRun]
    done: list[PlannedRun]
    incomplete: list[PlannedRun]  # those to do that were begun before

    @property
    def folders(self) -> list[Path]:
        """The folder of every run, made or not."""
        return [run.folder for run in (*self.done, *self.todo)]


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
    each agent pay for, and is evaluated as many times as the others. Whether to
    compile is decided for each method, if `compile` leaves that open.
    """
    runs = []
    for label in labels:
        section = parameters.section(label)
        algorithm = built_method(section)
        changes: dict[str, Any] = {"compile": compile}
        if gradients is not None:
            batch = task["run"]["batch"]
            steps = steps_within(gradients, algorithm, batch, shard_size)
            evaluations = task["run"]["steps"] / task["run"]["eval_every"]
            every = max(1, round(steps / evaluations))
            changes |= {"steps": steps, "eval_every": every}
        for seed in seeds:
            config = run_config(task, section, algorithm, seed, **changes)
            folder = out / label / f"seed-{seed}"
            runs.append(PlannedRun(f"{label} seed {seed}", config, folder))
    done = [run for run in runs if RunFolder(run.folder).is_whole()]
    for run in done:
        require_same(run)
    todo = [run for run in runs if run not in done]
    incomplete = [run for run in todo if RunFolder(run.folder).is_begun()]
    return Plan(todo, done, incomplete)


def built_method(section: Mapping[str, Any]) -> Algorithm[Any]:
    """Build the method of a section `algorithm` of a config."""
    algorithm: Algorithm[Any] = build_algorithm(
        Config.model_validate({"algorithm": section})
    )
    return algorithm


def run_config(
    task: Mapping[str, Any],
    section: Mapping[str, Any],
    algorithm: Algorithm[Any],
    seed: int,
    **run: Any,
) -> dict[str, Any]:
    """Return the complete config of one run: this method and seed on the task.

    `algorithm` is what `built_method` makes of the section; its constants are all
    written down. Keywords replace values of the section `run`.
    """
    changed = {"seed": seed, "algorithm": section, "run": {**task["run"], **run}}
    tree = Config.model_validate({**task, **changed}).tree()
    tree["algorithm"] |= dataclasses.asdict(algorithm)  # type: ignore[call-overload]
    return without_empty(tree)


def single_threaded(config: Config) -> Config:
    """Give runs that stand side by side one thread each, unless told otherwise."""
    threads = config.run.threads or 1
    run = config.run.model_copy(update={"threads": threads})
    return config.model_copy(update={"run": run})


def steps_within(
    gradients: int, algorithm: Algorithm[Any], batch_size: int, shard_size: float
) -> int:
    """Steps that an agent can make with this many sample gradients, init included."""
    costs = Costs(algorithm, batch_size, shard_size)
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


def require_same(run: PlannedRun) -> None:
    """Refuse a folder whose run is not the one that was asked for."""
    difference = run.difference()
    if difference is not None:
        raise InputError(
            f"folder `{run.folder}` holds another run: {difference}. Choose another "
            "folder, or remove that one."
        )
