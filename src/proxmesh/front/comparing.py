"""Several methods and seeds on one problem, from a program."""

import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

import networkx as nx
import pandas as pd

from proxmesh.display.progress import Wanted, watching
from proxmesh.errors import InputError
from proxmesh.front.seeds import GivenProblem, problem_of, seeded
from proxmesh.graphs import Graph
from proxmesh.report.comparison import write_comparison
from proxmesh.report.runs import FinishedRun
from proxmesh.report.tables import as_html, as_text, summarized
from proxmesh.report.writing import REPORT, attempted, report_on_runs
from proxmesh.runs.compare import require_same, steps_within
from proxmesh.runs.loading import load
from proxmesh.runs.pool import PlannedRun
from proxmesh.runs.presets import LABEL
from proxmesh.solver.arguments import require_parts
from proxmesh.solver.folder import RunFolder, without_empty
from proxmesh.solver.method_as_text import as_written
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.result import Result
from proxmesh.solver.solving import prepare
from proxmesh.types import Algorithm, Problem, facts_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Comparison", "compare", "label_of"]

Methods: TypeAlias = Mapping[str, Any] | Sequence[Any]  # a dict of two classes is one


@final
@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """What `proxmesh.compare` found; printed, it is the table.

    Parameters
    ----------
    results
        The result of every seed, by the method's label.
    runs
        The same as the report sees them.
    folder
        Where the report and the run folders are, if they were written.

    Examples
    --------
    >>> Comparison({}, []).table.empty
    True
    """

    results: Mapping[str, Sequence[Result]]
    runs: Sequence[FinishedRun]
    folder: Path | None = None

    @property
    def table(self) -> pd.DataFrame:
        """Mean and standard deviation over seeds, a row for each method."""
        return summarized(self.runs)

    def plot(self, file: str | Path | None = None) -> "Figure":
        """The curves of all methods: a line for the mean, a band for the range.

        Parameters
        ----------
        file
            Where to save the figure, too; its suffix decides the format.
        """
        from proxmesh.report.curves import grid_of_curves

        figure = grid_of_curves(self.runs)
        if file is not None:
            figure.savefig(file, dpi=130)
        return figure

    def __repr__(self) -> str:
        return as_text(self.runs)

    def _repr_html_(self) -> str:
        return as_html(self.runs)


def compare(
    algorithms: Methods,
    problem: GivenProblem,
    graph: "Graph | nx.Graph[Any]",
    steps: int | None = None,
    *,
    gradients: int | None = None,
    seeds: int | Sequence[int] = 3,
    out: str | Path | None = None,
    progress: Wanted = "auto",
    **settings: Any,
) -> Comparison:
    """Compare methods over several seeds on one problem: a table and curves.

    The runs are made one after another, in this process. Methods are paired by seed:
    each sees the same minibatches and the same start.

    Parameters
    ----------
    algorithms
        By label, or a list.
    problem
        A `LearningProblem`, of which every seed draws other minibatches from the same
        start; or, to vary all there is, a function ``seed -> problem``, which is called
        after ``torch.manual_seed``.
    graph
        Who talks to whom.
    steps, gradients
        Iterations of every method; or sample gradients per agent, for which each
        makes as many iterations as they pay for.
    seeds
        How many, from 0 on; or which.
    out
        Folder for the report and for a run folder per method and seed. Runs that are
        there are not made again; other runs in their place are refused.
    progress
        As in `proxmesh.solve`.
    settings
        Further keywords of `proxmesh.solve`, the same for all.

    Returns
    -------
    Comparison
        ``comparison.table``, ``comparison.plot()``, ``comparison.results``.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(3))
    >>> methods = {"short": pm.DSGT(0.01), "long": pm.DSGT(0.1)}
    >>> found = pm.compare(methods, problem, pm.graphs.path(3), steps=20, seeds=2)
    >>> found.table["stationarity", "mean"].idxmin()
    'long'
    """
    named = _named(algorithms)
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not chosen:
        raise InputError("compare: `seeds` is empty. Give at least one.")
    if (steps is None) == (gradients is None):
        raise InputError("compare: give either `steps` or `gradients`.")
    folder = None if out is None else Path(out)
    if folder is not None:
        _require_labels(named)
        RunFolder(folder).require_collection()
    makes = _Runs(graph, steps, gradients, folder, settings, progress)
    problems = {
        seed: problem_of(problem, seed, many=len(chosen) > 1) for seed in chosen
    }
    results: dict[str, list[Result]] = {label: [] for label in named}
    pairs = [(label, seed) for label in named for seed in chosen]
    for number, (label, seed) in enumerate(pairs, 1):
        title = f"{number}/{len(pairs)} {label} seed {seed}"
        result = makes.one(label, named[label], problems[seed], seed, title)
        results[label].append(result)
    runs = [
        _as_reported(label, seed, result)
        for label, found in results.items()
        for seed, result in zip(chosen, found, strict=True)
    ]
    if folder is not None:
        write_comparison(runs, folder)
        place = folder / REPORT
        attempted(lambda: report_on_runs({"": runs}, place))
    return Comparison(results, runs, folder)


@final
@dataclass(frozen=True, slots=True)
class _Runs:
    """Makes the runs of a comparison."""

    graph: Any
    steps: int | None
    gradients: int | None
    folder: Path | None
    settings: Mapping[str, Any]
    progress: Wanted

    def one(
        self,
        label: str,
        algorithm: Algorithm[Any],
        problem: Problem,
        seed: int,
        title: str,
    ) -> Result:
        """Make a run, or read it if it is there."""
        steps = self.steps or steps_paid(self.gradients or 0, algorithm, problem)
        place = None if self.folder is None else self.folder / label / f"seed-{seed}"
        watcher = watching(self.progress, steps, title)
        with nullcontext() if watcher is None else watcher.shown():
            run = prepare(
                problem,
                algorithm,
                self.graph,
                steps,
                observer=watcher,
                progress=False,
                out=place,
                config=seeded(seed),
                force=True,  # what is whole is not touched, what is not starts over
                **self.settings,
            )
        if place is not None and RunFolder(place).is_whole():
            require_same(PlannedRun(title, without_empty(run.config), place))
            return load(place, problem, algorithm=run.algorithm, state=False)
        result = run.go()
        if result.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt  # of all runs, not of one
        return result


def steps_paid(gradients: int, algorithm: Algorithm[Any], problem: Problem) -> int:
    """Iterations that so many sample gradients per agent pay for."""
    known = facts_of(problem)
    if known.batch_size is None:
        raise InputError(
            f"`{type(problem).__name__}` has no `batch_size`, so `gradients` cannot be "
            "counted. Give `steps`."
        )
    agents = len(known.agents or ()) or 1
    shard = (known.num_samples or 0) / agents
    return steps_within(gradients, algorithm, known.batch_size, shard)


def label_of(algorithm: Algorithm[Any]) -> str:
    """What a method is called in tables: its name, or that of its class."""
    name: str | None = as_written(algorithm)["name"]
    return name or type(algorithm).__name__


def _named(algorithms: Methods) -> dict[str, Algorithm[Any]]:
    """Methods by label; those of a list that are alike are numbered."""
    if isinstance(algorithms, Mapping):
        found = dict(algorithms)
    elif isinstance(algorithms, Sequence) and not isinstance(algorithms, str):
        found = {}
        for algorithm in algorithms:
            label, count = label_of(algorithm), 1
            while (label if count == 1 else f"{label}-{count}") in found:
                count += 1
            found[label if count == 1 else f"{label}-{count}"] = algorithm
    else:
        raise InputError(
            "compare: `algorithms` must be a list of methods, or map labels to them, "
            f"got {algorithms!r}."
        )
    if not found:
        raise InputError("compare: `algorithms` is empty. Give at least one.")
    for algorithm in found.values():
        require_parts(None, algorithm)
    return found


def _require_labels(labels: Mapping[str, Any]) -> None:
    for label in labels:
        if not re.fullmatch(LABEL, label):
            raise InputError(
                f"compare: `{label}` cannot name a folder. Use letters, digits, `-`, "
                "`_` and `+`, and dots between them; or do not give `out`."
            )


def _as_reported(label: str, seed: int, result: Result) -> FinishedRun:
    return FinishedRun(
        label=label,
        seed=seed,
        folder=result.folder or Path(),
        config=without_empty(result.config),
        history=result.history,
        outcome=str(result.outcome),
        message=result.message,
    )
