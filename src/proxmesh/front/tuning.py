"""A search for the hyperparameters of one method, from a program."""

import dataclasses
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

import networkx as nx
import pandas as pd

from proxmesh.algorithms import ALGORITHMS
from proxmesh.construct import construct
from proxmesh.display.progress import Wanted, watching
from proxmesh.errors import InputError
from proxmesh.front.comparing import label_of, steps_paid
from proxmesh.front.seeds import GivenProblem, problem_of, seeded
from proxmesh.graphs import Graph
from proxmesh.report.writing import REPORT, attempted, report_on
from proxmesh.runs.spaces import Space, space_of
from proxmesh.runs.tune import Budget, Sampler, Search, Tuning, opened, trial_table
from proxmesh.solver.folder import RunFolder, without_empty
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.run import Run
from proxmesh.solver.solving import prepare
from proxmesh.types import Algorithm, Problem, facts_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Tuned", "tune"]

GivenSpace: TypeAlias = Mapping[
    str, Mapping[str, Any] | tuple[float, float] | list[Any]
]
GRADIENTS_PER_STEP = 2  # as `proxmesh tune` counts
TUNING_SEED = 1000  # one that comparisons do not use


@final
@dataclass(frozen=True, slots=True)
class Tuned:
    """What `proxmesh.tune` found.

    Parameters
    ----------
    best
        The method with the values that reached the least.
    value
        What they reached.
    defaults
        What the method's own values reached; None if they were not tried.
    automatic
        Whether the best values are constants that the method finds itself.
    objective
        The column that was made small.
    trials
        Every trial: its values, outcome, and what it reached.

    Examples
    --------
    >>> import proxmesh as pm
    >>> Tuned(pm.DSGT(0.1), 0.5, None, False, "norm", pd.DataFrame()).best
    DSGT(alpha=0.1)
    """

    best: Any  # of the type that was given
    value: float
    defaults: float | None
    automatic: bool
    objective: str
    trials: pd.DataFrame = field(repr=False)

    @property
    def table(self) -> pd.DataFrame:
        """The trials, the best first."""
        return self.trials.sort_values(self.objective, kind="stable")

    def plot(self, file: str | Path | None = None) -> "Figure":
        """What every trial reached, and the best so far.

        Parameters
        ----------
        file
            Where to save the figure, too; its suffix decides the format.
        """
        from proxmesh.report.curves import drawn_trials

        figure = drawn_trials(self.trials[self.objective], self.objective)
        if file is not None:
            figure.savefig(file, dpi=130)
        return figure


def tune(
    algorithm: Algorithm[Any] | type[Any],
    problem: GivenProblem,
    graph: "Graph | nx.Graph[Any]",
    steps: int = 1000,
    *,
    space: GivenSpace | None = None,
    trials: int = 24,
    gradients: int | None = None,
    objective: str = "stationarity",
    sampler: Sampler = "tpe",
    seed: int = TUNING_SEED,
    out: str | Path | None = None,
    progress: Wanted = "auto",
    **settings: Any,
) -> Tuned:
    """Search the hyperparameters of a method, as `proxmesh tune` does.

    The first trial takes the method's own values, if they lie in the space, or the
    constants that it finds itself. Trials are made one after another, in this process.

    Parameters
    ----------
    algorithm
        A method, whose other values stay as they are; or its class.
    problem, graph
        As in `proxmesh.compare`.
    steps, gradients
        Budget of a trial: iterations of a method that takes two gradients each; or
        sample gradients per agent.
    space
        By the name of a hyperparameter: ``(low, high)`` on a logarithmic scale, a list
        of choices, or ``{"low": 0, "high": 1, "log": False}``. If not given: ours, or
        the class attribute `space` of your own.
    trials, objective, sampler
        How many; the column to make small; ``"tpe"`` or ``"grid"``.
    seed
        Of the runs: one that comparisons do not use.
    out
        Folder for trials.csv, params.toml and a run folder per trial. Trials that are
        there are not made again.
    progress, settings
        As in `proxmesh.solve`, and further keywords of it.

    Returns
    -------
    Tuned
        ``tuned.best``, ready for `proxmesh.solve`; ``tuned.table``, ``tuned.plot()``.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(3))
    >>> tuned = pm.tune(pm.DSGT, problem, pm.graphs.path(3), steps=20, trials=3,
    ...                 space={"alpha": (1e-3, 1.0)})
    >>> 1e-3 <= tuned.best.alpha <= 1.0, len(tuned.table)
    (True, 3)
    """
    method = _Method.of(algorithm)
    mine = problem_of(problem, seed, many=False)
    batch = facts_of(mine).batch_size or 1
    budget = Budget(
        trials, gradients or GRADIENTS_PER_STEP * steps * batch, objective, sampler
    )
    makes = _Trials(method, mine, graph, budget, seed, settings)
    place = _space(method, space)
    if out is not None:
        RunFolder(Path(out)).require_collection()
    with tempfile.TemporaryDirectory() as nowhere:
        folder = Path(out or nowhere)
        search = opened(
            method.built({}),
            place,
            budget,
            makes.config_of,
            folder / method.label,
            papers_form=method.papers_form(),
        )
        makes.all_of(search, progress, written=out is not None)
        if out is not None:
            config = without_empty(makes.last_config)
            Tuning([search]).write(folder, config, f"pm.tune({method.label}, ...)")
            attempted(lambda: report_on([folder], folder / REPORT))
    if not search.found:
        raise InputError(
            f"tune: every trial of `{method.label}` diverged or failed. Widen the "
            "space, or allow shorter steps in it."
        )
    options, value = search.best
    return Tuned(
        best=method.built(options),
        value=value,
        defaults=search.defaults,
        automatic=search.automatic_is_best,
        objective=objective,
        trials=trial_table([search]),
    )


def _space(method: "_Method", given: GivenSpace | None) -> Space:
    found = space_of(method.label, method.space if given is None else given)
    if not found.dimensions:
        raise InputError(
            f"tune: the search space of `{method.label}` is empty. Say what may "
            "change: `space={'alpha': (0.01, 1.0)}`."
        )
    return found


@final
@dataclass(frozen=True, slots=True)
class _Method:
    """A class, and values that a search leaves alone."""

    kind: type[Any]
    label: str
    given: Mapping[str, Any]

    @staticmethod
    def of(algorithm: Any) -> "_Method":
        """From an object or a class."""
        kind = algorithm if isinstance(algorithm, type) else type(algorithm)
        if not dataclasses.is_dataclass(kind):
            raise InputError(
                f"tune: `{kind.__name__}` is not a dataclass, so it cannot be made "
                "with other values. Put `@dataclass(frozen=True)` before it."
            )
        if isinstance(algorithm, type):
            ours = [name for name, m in ALGORITHMS.items() if m.kind is kind]
            label = ours[0] if ours else kind.__name__
            return _Method(kind, label, dict(ALGORITHMS[label].fixed) if ours else {})
        given = {f.name: getattr(algorithm, f.name) for f in dataclasses.fields(kind)}
        return _Method(kind, label_of(algorithm), given)

    @property
    def space(self) -> Mapping[str, Any]:
        """Its own search space."""
        if self.label in ALGORITHMS:
            return ALGORITHMS[self.label].space
        found: Mapping[str, Any] = vars(self.kind).get("space", {})
        return found

    def papers_form(self) -> Algorithm[Any] | None:
        """With its paper's rule, where its defaults are another."""
        if self.label not in ALGORITHMS or not ALGORITHMS[self.label].papers_form:
            return None
        return self.built(ALGORITHMS[self.label].papers_form)

    def built(self, options: Mapping[str, Any]) -> Algorithm[Any]:
        """The method with some values changed."""
        who = f"algorithm `{self.label}`"
        made: Algorithm[Any] = construct(who, self.kind, {**self.given, **options})
        return made


@final
@dataclass(slots=True)
class _Trials:
    """Makes the trials of a search."""

    method: _Method
    problem: Problem
    graph: Any
    budget: Budget
    seed: int
    settings: Mapping[str, Any]
    last_config: Mapping[str, Any] = field(default_factory=dict)
    _prepared: dict[str, Run] = field(default_factory=dict)

    def config_of(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The config of a trial, whose run is prepared for that."""
        algorithm = self.method.built(options)
        steps = steps_paid(self.budget.gradients, algorithm, self.problem)
        run = prepare(
            self.problem,
            algorithm,
            self.graph,
            steps,
            eval_every=steps,
            kkt=False,
            progress=False,
            config=seeded(self.seed),
            **self.settings,
        )
        self.last_config = run.config
        config = without_empty(run.config)
        self._prepared = {str(config): run}  # the last one: rows are large
        return config

    def all_of(self, search: Search, progress: Wanted, written: bool) -> None:
        """Make one trial after another."""
        while (planned := search.next()) is not None:
            run = self._prepared.pop(str(planned.config))
            title = f"{len(search.trials) + 1}/{search.size} {planned.name}"
            result = run.go(watching(progress, run.settings.steps, title))
            if result.outcome is Outcome.INTERRUPTED:
                raise KeyboardInterrupt  # of the search, not of a trial
            if written:
                folder = RunFolder(planned.folder).created(force=True)
                folder.write_config(result.config)
                folder.write_result(result)
            search.tell(
                planned,
                str(result.outcome),
                result.final,
                result.message,
                run.settled.constants,
            )
