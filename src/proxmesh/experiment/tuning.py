"""The same search budget for every method, each trial a run folder of its own."""

import datetime
import json
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
from proxmesh.experiment.assemble import build_algorithm
from proxmesh.experiment.comparing import is_whole, request, steps_within
from proxmesh.experiment.config import Config, flattened
from proxmesh.experiment.crew import Errand
from proxmesh.experiment.spaces import Choice, Space
from proxmesh.metrics import COLUMNS, HIGHER_IS_BETTER

__all__ = ["Budget", "Search", "searches", "trial_table", "write_parameters"]

TASK_KEYS = (  # what values that were tuned depend on
    "data.name",
    "data.split",
    "model.name",
    "graph.name",
    "graph.agents",
    "regularizer.name",
    "regularizer.weight",
    "run.batch",
)


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
        known = [name for name in COLUMNS if name not in HIGHER_IS_BETTER]
        if self.objective not in known:
            raise unknown("objective", self.objective, known)


@final
@dataclass(slots=True)
class Search:
    """The trials of one method; the first is the method's defaults."""

    base: Config
    space: Space
    budget: Budget
    shard_size: float
    folder: Path
    study: Any
    size: int  # trials to make
    trials: list[dict[str, Any]] = field(default_factory=list)
    _open: dict[str, tuple[Any, dict[str, Any]]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The method."""
        return self.space.label

    def next(self) -> Errand | None:
        """The next trial that is not in the folder already; None when all are made."""
        while len(self.trials) < self.size:
            trial = self._asked()
            options = self.space.options(trial.params)
            errand = self._errand(trial.number, options)
            self._open[errand.name] = trial, options
            if not is_whole(errand.folder):
                return errand
            summary = json.loads((errand.folder / "summary.json").read_text())
            self.tell(errand, summary["outcome"], summary["final"])
        return None

    def tell(self, errand: Errand, outcome: str, final: Mapping[str, float]) -> None:
        """Take note of how a trial ended."""
        trial, options = self._open.pop(errand.name)
        good = outcome in {"finished", "target reached"}
        value = final.get(self.budget.objective, math.inf) if good else math.inf
        self.study.tell(trial, value)
        steps = errand.config["run"]["steps"]
        about = {"method": self.label, "trial": trial.number, "outcome": outcome}
        self.trials.append(
            {
                **about,
                "steps": steps,
                self.budget.objective: value,
                **flattened(options),
            }
        )

    @property
    def best(self) -> tuple[dict[str, Any], float]:
        """The options that reached the least, and what they reached."""
        return self.space.options(self.study.best_params), self.study.best_value

    @property
    def found(self) -> bool:
        """Whether a trial came to a number."""
        return math.isfinite(self.study.best_value)

    @property
    def first(self) -> float:
        """What the method's own defaults reached."""
        found: float = self.trials[0][self.budget.objective]
        return found

    def _asked(self) -> Any:
        trial = self.study.ask()
        for name, entry in self.space.entries.items():
            if isinstance(entry, Choice):
                trial.suggest_categorical(name, entry.choices)
            else:
                trial.suggest_float(name, entry.low, entry.high, log=entry.log)
        return trial

    def _errand(self, number: int, options: Mapping[str, Any]) -> Errand:
        section = {"name": self.label, **options}
        config = request(self.base, section, self.base.seed)
        algorithm = build_algorithm(config)
        batch = config.run.batch
        steps = steps_within(self.budget.gradients, algorithm, batch, self.shard_size)
        tree = config.model_dump()
        tree["run"] |= {"steps": steps, "eval_every": steps, "kkt": False}
        folder = self.folder / f"trial-{number:02d}"
        return Errand(f"{self.label} trial {number}", tree, folder)


def searches(
    base: Config,
    labels: Sequence[str],
    spaces: Mapping[str, Space],
    budget: Budget,
    *,
    shard_size: float,
    out: Path,
) -> list[Search]:
    """Open a search for each method."""
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
            seed=budget.seed, n_startup_trials=max(2, budget.trials // 2)
        )
        study = optuna.create_study(sampler=sampler)
        own = space.point(build_algorithm(request(base, {"name": label}, base.seed)))
        first = [own] if own is not None else []
        points = first if budget.sampler == "tpe" else space.grid(budget.trials)
        for point in points:
            study.enqueue_trial(point)
        trials = budget.trials if budget.sampler == "tpe" else len(points)
        found.append(
            Search(base, space, budget, shard_size, out / label, study, trials)
        )
    return found


def trial_table(made: Sequence[Search]) -> pd.DataFrame:
    """Every trial of every method."""
    return pd.DataFrame([row for search in made for row in search.trials])


def write_parameters(
    file: Path, made: Sequence[Search], config: Mapping[str, Any], command: str
) -> None:
    """Write the best values, and the command, budget and date that made them."""
    flat, budget = flattened(config), made[0].budget
    made = [search for search in made if search.found]
    if not made:
        raise InputError(f"every trial diverged or failed, see `{file.parent}`.")
    tree = {
        "tuned": {
            "command": command,
            "date": datetime.datetime.now(datetime.UTC).date(),
            "version": __version__,
            "trials": budget.trials,
            "gradients": budget.gradients,
            "objective": budget.objective,
            "sampler": budget.sampler,
            "seed": flat["seed"],
            "reached": {s.label: s.best[1] for s in made},
            "defaults_reached": {s.label: s.first for s in made},
        },
        "task": {key: flat[key] for key in TASK_KEYS if flat.get(key) is not None},
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
