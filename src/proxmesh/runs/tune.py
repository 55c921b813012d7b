"""The same search budget for every method, each trial a run folder of its own."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final, get_args

import pandas as pd

from proxmesh.errors import InputError, unknown
from proxmesh.runs.compare import (
    built_method,
    require_same,
    run_config,
    steps_within,
)
from proxmesh.runs.config import flattened
from proxmesh.runs.methods import method_named
from proxmesh.runs.pool import Ended, PlannedRun
from proxmesh.runs.spaces import Choice, Space
from proxmesh.runs.tuned_file import write_parameters
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.outcome import Outcome
from proxmesh.types import Algorithm, finds_constants

if TYPE_CHECKING:
    import optuna

__all__ = [
    "Budget",
    "Sampler",
    "Search",
    "Tuning",
    "opened",
    "searches",
    "trial_table",
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
    """The trials of one method; its defaults come first if they lie in the space.

    `config_of` makes the config of a trial from options, and refuses those that do not
    fit method or budget.
    """

    space: Space
    budget: Budget
    config_of: Callable[[Mapping[str, Any]], dict[str, Any]]
    folder: Path
    study: "optuna.Study"
    size: int  # trials to make
    begins_with_defaults: bool
    automatic: bool  # the defaults are found in each run: no point of the space
    method: str = ""  # its name, where the label is not
    constants: dict[str, Any] = field(default_factory=dict)  # that were found
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
            self.tell(
                run,
                summary["outcome"],
                summary["final"],
                summary["message"],
                _found_in(folder),
            )
        return None

    def tell(
        self,
        run: PlannedRun,
        outcome: str,
        final: Mapping[str, float],
        message: str,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        """Take note of how a trial ended, and of constants that it found itself."""
        asked = self._open.pop(run.name)
        good = outcome in {kind for kind in Outcome if kind.is_good}
        value = final.get(self.budget.objective, math.inf) if good else math.inf
        steps = run.config["run"]["steps"]
        if asked.trial is None:
            self.constants = dict(constants or {})
            asked = _Asked(None, self.constants)
        self._note(asked, outcome=outcome, value=value, steps=steps, message=message)

    @property
    def best(self) -> tuple[dict[str, Any], float]:
        """The options that reached the least, and what they reached."""
        if self.automatic_is_best:
            assert self.defaults is not None
            return {}, self.defaults  # to be found again in every run
        return self.space.options(self.study.best_params), self.study.best_value

    @property
    def automatic_is_best(self) -> bool:
        """Whether no trial was better than the constants that the method finds."""
        searched = [t.value for t in self.study.trials if t.value is not None]
        own = self.defaults if self.automatic else None
        return own is not None and own <= min(searched, default=math.inf)

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
        search.tell(run, ended.outcome, ended.final, ended.message, ended.constants)
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


def _found_in(folder: Path) -> dict[str, Any]:
    """The constants that the run in a folder found itself."""
    config = RunFolder(folder).config()
    names = config.get("run", {}).get("automatic", ())
    found = {name: config["algorithm"][name] for name in names}
    return {name: v for name, v in found.items() if not isinstance(v, bool)}


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
    names: Mapping[str, str] | None = None,
) -> list[Search]:
    """Open a search for each method on a complete config's task.

    `names`: those of methods that are not called like their labels.
    """
    found = []
    for label in labels:
        name = (names or {}).get(label, label)
        method_named(name)
        space = spaces.get(label)
        if space is None or not space.dimensions:
            raise InputError(
                f"the search space of `{label}` is empty. Give it a table "
                f"[{label}] with `--space FILE`, or leave the method out."
            )
        config_of = partial(_trial_config, task, name, budget, shard_size)
        method = opened(
            built_method({"name": name}),
            space,
            budget,
            config_of,
            out / label,
            name=name,
            papers_form=_papers_form(name),
        )
        found.append(method)
    return found


def _papers_form(name: str) -> Algorithm[Any] | None:
    """The method with its paper's rule, where its defaults are another."""
    values = method_named(name).papers_form
    return built_method({"name": name, **values}) if values else None


def _trial_config(
    task: Mapping[str, Any],
    name: str,
    budget: Budget,
    shard_size: float,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    section = {"name": name, **options}
    algorithm, batch = built_method(section), task["run"]["batch"]
    steps = steps_within(budget.gradients, algorithm, batch, shard_size)
    changes = {"steps": steps, "eval_every": steps, "kkt": False}
    return run_config(task, section, algorithm, task["seed"], **changes)


def opened(
    defaults: Algorithm[Any],
    space: Space,
    budget: Budget,
    config_of: Callable[[Mapping[str, Any]], dict[str, Any]],
    folder: Path,
    *,
    name: str = "",
    papers_form: Algorithm[Any] | None = None,
) -> Search:
    """Open the search of one method: its defaults first, then its paper's form."""
    optuna = _optuna()
    sampler = optuna.samplers.TPESampler(
        seed=budget.seed, n_startup_trials=RANDOM_TRIALS
    )
    study = optuna.create_study(sampler=sampler)
    automatic = finds_constants(defaults) and bool(defaults.missing)
    own = None if automatic else space.point(defaults)
    papers = None if papers_form is None else space.point(papers_form)
    points = [point for point in (own, papers) if point is not None]
    if budget.sampler == "grid":
        points += space.grid(budget.trials - len(points) - automatic)
    for point in points:
        study.enqueue_trial(point)
    config_of(space.options(own or space.grid(1)[0]))  # wrong budgets now
    return Search(
        space=space,
        budget=budget,
        config_of=config_of,
        folder=folder,
        study=study,
        size=budget.trials if budget.sampler == "tpe" else len(points) + automatic,
        begins_with_defaults=automatic or own is not None,
        automatic=automatic,
        method=name or space.label,
    )


def trial_table(made: Sequence[Search]) -> pd.DataFrame:
    """Every trial of every method."""
    return pd.DataFrame([row for search in made for row in search.trials])


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
