"""The same search budget for every method, each trial a run folder of its own."""

import datetime
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final, get_args

import pandas as pd
import tomli_w

from proxmesh import __version__
from proxmesh.algorithms import ALGORITHMS
from proxmesh.errors import InputError, unknown
from proxmesh.runs.compare import (
    built_method,
    require_same,
    run_config,
    steps_within,
)
from proxmesh.runs.config import flattened, task_of
from proxmesh.runs.pool import Ended, PlannedRun
from proxmesh.runs.spaces import Choice, Space
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.outcome import Outcome
from proxmesh.types import finds_constants

if TYPE_CHECKING:
    import optuna

__all__ = [
    "Budget",
    "Sampler",
    "Search",
    "Tuning",
    "searches",
    "trial_table",
    "write_parameters",
]

Sampler: TypeAlias = Literal["tpe", "grid"]

OBJECTIVES = ("stationarity", "norm", "objective", "train_loss", "test_loss")
RANDOM_TRIALS = 6  # before TPE takes over; fixed, so that more trials extend a search


@final
@dataclass(frozen=True, slots=True)
class Budget:
    """What every method gets."""

    trials: int
    gradients: int  # sample gradients of each agent in a trial
    objective: str = "stationarity"
    sampler: Sampler = "tpe"
    seed: int = 0  # of the search, not of the runs

    def __post_init__(self) -> None:
        if self.sampler not in get_args(Sampler):
            raise unknown("sampler", self.sampler, get_args(Sampler))
        if self.objective not in OBJECTIVES:
            raise unknown("objective", self.objective, OBJECTIVES)


@final
@dataclass(frozen=True, slots=True)
class _Asked:
    """A point of the space that is being tried."""

    trial: "optuna.Trial | None"  # None for the method's automatic constants
    options: dict[str, Any]


@final
@dataclass(slots=True)
class Search:
    """The trials of one method; its defaults come first if they lie in the space."""

    task: Mapping[str, Any]  # a complete config
    space: Space
    budget: Budget
    shard_size: float
    folder: Path
    study: "optuna.Study"
    size: int  # trials to make
    begins_with_defaults: bool
    automatic: bool  # the defaults are found in each run: no point of the space
    trials: list[dict[str, Any]] = field(default_factory=list)
    _open: dict[str, _Asked] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The method."""
        return self.space.label

    def next(self) -> PlannedRun | None:
        """The next trial that is not in the folder already; None when all are made."""
        while len(self.trials) < self.size:
            trial = None if self._is_automatic_next() else self._asked()
            options = self.space.options(trial.params) if trial else {}
            name, folder = f"{self.label} automatic", self.folder / "automatic"
            if trial is not None:
                name = f"{self.label} trial {trial.number}"
                folder = self.folder / f"trial-{trial.number:02d}"
            try:
                run = PlannedRun(name, self.config_of(options), folder)
            except InputError as error:  # values that the method refuses
                self._note(
                    _Asked(trial, options),
                    outcome="failed",
                    value=math.inf,
                    steps=0,
                    message=str(error),
                )
                continue
            self._open[run.name] = _Asked(trial, options)
            if not RunFolder(folder).is_whole():
                return run
            require_same(run)
            summary = RunFolder(folder).summary()
            self.tell(run, summary["outcome"], summary["final"], summary["message"])
        return None

    def tell(
        self, run: PlannedRun, outcome: str, final: Mapping[str, float], message: str
    ) -> None:
        """Take note of how a trial ended."""
        asked = self._open.pop(run.name)
        good = outcome in {kind for kind in Outcome if kind.is_good}
        value = final.get(self.budget.objective, math.inf) if good else math.inf
        steps = run.config["run"]["steps"]
        self._note(asked, outcome=outcome, value=value, steps=steps, message=message)

    @property
    def best(self) -> tuple[dict[str, Any], float]:
        """The options that reached the least, and what they reached."""
        searched = [t.value for t in self.study.trials if t.value is not None]
        least = min(searched, default=math.inf)
        own = self.defaults if self.automatic else None
        if own is not None and own <= least:
            return {}, own  # no constant given: the automatic ones
        return self.space.options(self.study.best_params), self.study.best_value

    @property
    def found(self) -> bool:
        """Whether a trial came to a number."""
        return math.isfinite(self.best[1])

    def _is_automatic_next(self) -> bool:
        """Whether the method's automatic constants are to be tried next."""
        tried = any(asked.trial is None for asked in self._open.values())
        return self.automatic and not self.trials and not tried

    @property
    def defaults(self) -> float | None:
        """What the method's own defaults reached; None if they were not tried."""
        if not self.begins_with_defaults:
            return None
        reached: float = self.trials[0][self.budget.objective]
        return reached

    def _asked(self) -> "optuna.Trial":
        trial = self.study.ask()
        for name, dimension in self.space.dimensions.items():
            if isinstance(dimension, Choice):
                trial.suggest_categorical(name, dimension.choices)
            else:
                low, high = dimension.low, dimension.high
                trial.suggest_float(name, low, high, log=dimension.log)
        return trial

    def config_of(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The config of a trial; refuse values that do not fit method or budget."""
        section = {"name": self.label, **options}
        algorithm, batch = built_method(section), self.task["run"]["batch"]
        steps = steps_within(self.budget.gradients, algorithm, batch, self.shard_size)
        changes = {"steps": steps, "eval_every": steps, "kkt": False}
        seed = self.task["seed"]
        return run_config(self.task, section, algorithm, seed, **changes)

    def _note(
        self, asked: _Asked, *, outcome: str, value: float, steps: int, message: str
    ) -> None:
        trial = asked.trial
        if trial is not None:
            self.study.tell(trial, value)
        self.trials.append(
            {
                "method": self.label,
                "trial": "automatic" if trial is None else trial.number,
                "outcome": outcome,
                "steps": steps,
                self.budget.objective: value,
                **flattened(asked.options),
                "message": message,
            }
        )


@final
@dataclass(frozen=True, slots=True)
class Tuning:
    """The searches of several methods, whose trials run side by side."""

    searches: Sequence[Search]

    def first(self) -> list[PlannedRun]:
        """The first trial of each method that is not in its folder already."""
        return _without_none(search.next() for search in self.searches)

    def after(self, ended: Ended) -> list[PlannedRun]:
        """Take note of how a trial ended; return what is to be tried next."""
        run = ended.run
        search = next(s for s in self.searches if s.folder == run.folder.parent)
        search.tell(run, ended.outcome, ended.final, ended.message)
        return _without_none([search.next()])

    @property
    def remaining(self) -> int:
        """How many trials are still to be made."""
        return sum(search.size - len(search.trials) for search in self.searches)

    def write(self, folder: Path, config: Mapping[str, Any], command: str) -> Path:
        """Write trials.csv and params.toml; return the latter."""
        trial_table(self.searches).to_csv(folder / "trials.csv", index=False)
        file = folder / "params.toml"
        write_parameters(file, self.searches, config, command)
        return file


def _without_none(runs: Iterable[PlannedRun | None]) -> list[PlannedRun]:
    return [run for run in runs if run is not None]


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
        if space is None or not space.dimensions:
            raise InputError(
                f"the search space of `{label}` is empty. Give it a table "
                f"[{label}] with `--space FILE`, or leave the method out."
            )
        sampler = optuna.samplers.TPESampler(
            seed=budget.seed, n_startup_trials=RANDOM_TRIALS
        )
        study = optuna.create_study(sampler=sampler)
        method = built_method({"name": label})
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
        search.config_of(space.options(own or space.grid(1)[0]))  # wrong budgets now
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
