"""The same search budget for every method, each trial a run folder of its own."""

import datetime
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, final

import pandas as pd
import tomli_w

from proxmesh import __version__
from proxmesh.algorithms import ALGORITHMS
from proxmesh.errors import InputError, unknown
from proxmesh.runs.build import build_algorithm
from proxmesh.runs.compare import (
    require_same,
    run_config,
    steps_within,
)
from proxmesh.runs.config import Config, flattened, task_of
from proxmesh.runs.pool import Errand
from proxmesh.runs.spaces import Choice, Space
from proxmesh.solver.folder import RunFolder
from proxmesh.types import finds_constants

__all__ = ["Budget", "Search", "searches", "trial_table", "write_parameters"]

OBJECTIVES = ("stationarity", "norm", "objective", "train_loss", "test_loss")
RANDOM_TRIALS = 6  # before TPE takes over; fixed, so that more trials extend a search


@final
@dataclass(frozen=True, slots=True)
class Budget:
    """What every method gets."""

    trials: int
    gradients: int  # sample gradients of each agent in a trial
    objective: str = "stationarity"
    sampler: Literal["tpe", "grid"] = "tpe"
    seed: int = 0  # of the search, not of the runs

    def __post_init__(self) -> None:
        if self.sampler not in {"tpe", "grid"}:
            raise unknown("sampler", self.sampler, ["tpe", "grid"])
        if self.objective not in OBJECTIVES:
            raise unknown("objective", self.objective, OBJECTIVES)


@final
@dataclass(slots=True)
class Search:
    """The trials of one method; its defaults come first if they lie in the space."""

    task: Mapping[str, Any]  # a complete config
    space: Space
    budget: Budget
    shard_size: float
    folder: Path
    study: Any
    size: int  # trials to make
    begins_with_defaults: bool
    automatic: bool  # the defaults are found for each run, and no point of the space
    trials: list[dict[str, Any]] = field(default_factory=list)
    _open: dict[str, tuple[Any, dict[str, Any]]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The method."""
        return self.space.label

    def next(self) -> Errand | None:
        """The next trial that is not in the folder already; None when all are made."""
        while len(self.trials) < self.size:
            trial = None if self._own_turn() else self._asked()
            options = self.space.options(trial.params) if trial else {}
            name, folder = f"{self.label} automatic", self.folder / "automatic"
            if trial is not None:
                name = f"{self.label} trial {trial.number}"
                folder = self.folder / f"trial-{trial.number:02d}"
            try:
                errand = Errand(name, self._config(options), folder)
            except InputError as error:  # values that the method refuses
                bad: Any = {"outcome": "failed", "value": math.inf, "steps": 0}
                self._note(trial, options, **bad, message=str(error))
                continue
            self._open[errand.name] = trial, options
            if not RunFolder(folder).is_whole():
                return errand
            require_same(errand)
            summary = RunFolder(folder).summary()
            self.tell(errand, summary["outcome"], summary["final"], summary["message"])
        return None

    def tell(
        self, errand: Errand, outcome: str, final: Mapping[str, float], message: str
    ) -> None:
        """Take note of how a trial ended."""
        trial, options = self._open.pop(errand.name)
        good = outcome in {"finished", "target reached"}
        value = final.get(self.budget.objective, math.inf) if good else math.inf
        steps = errand.config["run"]["steps"]
        self._note(
            trial, options, outcome=outcome, value=value, steps=steps, message=message
        )

    @property
    def best(self) -> tuple[dict[str, Any], float]:
        """The options that reached the least, and what they reached."""
        searched = [t for t in self.study.trials if t.value is not None]
        least = min((t.value for t in searched), default=math.inf)
        own = self.defaults if self.automatic else None
        if own is not None and own <= least:
            return {}, own  # no constant given: the automatic ones
        return self.space.options(self.study.best_params), self.study.best_value

    @property
    def found(self) -> bool:
        """Whether a trial came to a number."""
        return math.isfinite(self.best[1])

    def _own_turn(self) -> bool:
        """Whether the method's automatic constants are to be tried next."""
        tried = any(trial is None for trial, _ in self._open.values())
        return self.automatic and not self.trials and not tried

    @property
    def defaults(self) -> float | None:
        """What the method's own defaults reached; None if they were not tried."""
        if not self.begins_with_defaults:
            return None
        reached: float = self.trials[0][self.budget.objective]
        return reached

    def _asked(self) -> Any:
        trial = self.study.ask()
        for name, entry in self.space.entries.items():
            if isinstance(entry, Choice):
                trial.suggest_categorical(name, entry.choices)
            else:
                trial.suggest_float(name, entry.low, entry.high, log=entry.log)
        return trial

    def _config(self, options: Mapping[str, Any]) -> dict[str, Any]:
        section, seed = {"name": self.label, **options}, self.task["seed"]
        config = run_config(self.task, section, seed)
        algorithm = build_algorithm(Config.model_validate(config))
        batch = self.task["run"]["batch"]
        steps = steps_within(self.budget.gradients, algorithm, batch, self.shard_size)
        return run_config(
            self.task, section, seed, steps=steps, eval_every=steps, kkt=False
        )

    def _note(
        self,
        trial: Any,
        options: Mapping[str, Any],
        *,
        outcome: str,
        value: float,
        steps: int,
        message: str,
    ) -> None:
        if trial is not None:
            self.study.tell(trial, value)
        self.trials.append(
            {
                "method": self.label,
                "trial": "automatic" if trial is None else trial.number,
                "outcome": outcome,
                "steps": steps,
                self.budget.objective: value,
                **flattened(options),
                "message": message,
            }
        )


def searches(
    task: Mapping[str, Any],
    labels: Sequence[str],
    spaces: Mapping[str, Space],
    budget: Budget,
    *,
    shard_size: float,
    out: Path,
) -> list[Search]:
    """Open a search for each method on a complete config's task."""
    optuna = _optuna()
    found = []
    for label in labels:
        if label not in ALGORITHMS:
            raise unknown("algorithm", label, ALGORITHMS)
        space = spaces.get(label)
        if space is None or not space.entries:
            raise InputError(
                f"the tuning space of `{label}` is empty. Give it a table "
                f"[{label}] with `--space FILE`, or leave the method out."
            )
        sampler = optuna.samplers.TPESampler(
            seed=budget.seed, n_startup_trials=RANDOM_TRIALS
        )
        study = optuna.create_study(sampler=sampler)
        config = run_config(task, {"name": label}, task["seed"])
        method = build_algorithm(Config.model_validate(config))
        automatic = finds_constants(method) and bool(method.missing)
        own = None if automatic else space.point(method)
        points = [] if own is None else [own]
        if budget.sampler == "grid":
            points += space.grid(budget.trials - len(points) - automatic)
        for point in points:
            study.enqueue_trial(point)
        search = Search(
            task=task,
            space=space,
            budget=budget,
            shard_size=shard_size,
            folder=out / label,
            study=study,
            size=budget.trials if budget.sampler == "tpe" else len(points) + automatic,
            begins_with_defaults=automatic or own is not None,
            automatic=automatic,
        )
        search._config(space.options(own or space.grid(1)[0]))  # wrong budgets now
        found.append(search)
    return found


def trial_table(made: Sequence[Search]) -> pd.DataFrame:
    """Every trial of every method."""
    return pd.DataFrame([row for search in made for row in search.trials])


def write_parameters(
    file: Path, made: Sequence[Search], config: Mapping[str, Any], command: str
) -> None:
    """Write the best values, and the command, budget and date that made them."""
    budget = made[0].budget
    made = [search for search in made if search.found]
    if not made:
        raise InputError(
            f"every trial diverged or failed, see `{file.parent / 'trials.csv'}`. "
            "Widen the space, or lower its steps."
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
        },
        "task": task_of(config),
        "methods": {search.label: search.best[0] for search in made},
    }
    file.write_text(tomli_w.dumps(tree))


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise InputError(
            "`tune` needs Optuna, which is not installed. Run "
            "`pip install 'proxmesh[tune]'`."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna
