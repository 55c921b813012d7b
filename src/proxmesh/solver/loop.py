"""The one loop: step, evaluate now and then, stop for a reason."""

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, final

import networkx as nx
import torch

from proxmesh.checks import require_whole
from proxmesh.errors import InputError, LostRankError, Notice, unknown
from proxmesh.graphs import Graph, as_graph
from proxmesh.metrics import HIGHER_IS_BETTER, Metric, measure, measure_alone
from proxmesh.network import TIMEOUT
from proxmesh.solver.arguments import (
    require_callable,
    require_columns,
    require_evaluation,
    require_metrics,
    require_parts,
    require_start,
    require_width,
)
from proxmesh.solver.compile_gradients import (
    CompiledGradients,
    compiled_gradients,
)
from proxmesh.solver.compile_step import CompiledStep, compiled, pays_off
from proxmesh.solver.costs import Ledger
from proxmesh.solver.divergence import BLOW_UP, is_sound, post_mortem
from proxmesh.solver.last_good import LastGood
from proxmesh.solver.malloc import reuse_large_blocks
from proxmesh.solver.prepare import (
    facts_of,
    initial_rows,
    joined,
    local_part,
    roots_rows,
    telling,
    with_constants_of,
)
from proxmesh.solver.result import Outcome, Result, RunFolder, ordered, table
from proxmesh.solver.signals import Patience
from proxmesh.theory import Monitor, settled
from proxmesh.types import Algorithm, Problem, World

__all__ = ["Callback", "Observer", "solve"]

DEFAULT_EVALUATIONS = 40
SECONDS_BETWEEN_GLANCES = 0.05
SIZES = ("stationarity", "consensus", "norm", "density")  # the first tells a blow-up

Callback: TypeAlias = Callable[[Mapping[str, float], Any], bool | None]
"""``callback(row, state)`` after every evaluation; returning True stops the run."""

Step: TypeAlias = Callable[[Any], Any]


class Observer(Protocol):
    """Watches a run without touching it: a progress bar, a log."""

    def on_compile(self, seconds: float) -> None:
        """The step was compiled, in so many seconds."""
        ...

    def on_step(self, k: int, seconds: float) -> None:
        """Iteration k is finished, after these seconds of computing.

        Told a few times a second, not at every iteration.
        """
        ...

    def on_row(self, row: Mapping[str, float]) -> None:
        """A row was added to the history."""
        ...


def solve(
    problem: Any,
    algorithm: Algorithm[Any],
    graph: "Graph | nx.Graph[Any]",
    steps: int,
    *,
    state: Any = None,
    x0: torch.Tensor | None = None,
    init: str = "same",
    engine: str | World = "auto",
    timeout: float = TIMEOUT,
    eval_every: int | None = None,
    evaluation: Literal["mean", "local"] = "mean",
    target: Mapping[str, float] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    kkt: bool = True,
    monitor: Literal["theory"] | None = None,
    callbacks: Sequence[Callback] = (),
    observer: Observer | None = None,
    compile: bool | Literal["auto"] = "auto",  # noqa: A002 - torch's own word for it
    out: str | Path | None = None,
    config: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Result:
    """Train: run an algorithm on a problem over a graph.

    Parameters
    ----------
    problem, algorithm, graph
        What to minimize, how, and who talks to whom (a networkx graph is fine).
    steps
        Iterations to make; with `state`, further ones.
    state
        Where to go on from: an earlier result, or its `state`. Counts of gradients
        and traffic go on, the clock starts anew. Constants that were found stay with
        the result; with a bare state give ``result.algorithm``.
    x0, init
        Initial rows, or how the problem makes them: ``"same"`` or ``"different"``.
    engine, timeout
        See `proxmesh.connect`; or a world that it returned.
    eval_every
        Iterations between evaluations; a fortieth of `steps` if not given.
    evaluation
        ``"mean"``: at the average model, which takes reductions over all agents.
        ``"local"``: each agent at its own model, with nothing reduced; the history has
        a row for each agent of this process, and there is no average model.
    target
        Stop at the first evaluation after the start where a column has reached a
        value, such as ``{"stationarity": 1e-3}``; accuracies come from below. Of
        several targets one is enough.
    metrics
        Own columns, ``name -> f(state, problem)``; f sees this process's agents, and
        the column is the mean of what the agents' processes find.
    kkt
        Evaluate the KKT residual too, one more pass over the training data.
    monitor
        ``"theory"``: at every evaluation but the first also the quantities of the
        paper's analysis, and whether its inequalities hold; in ``result.monitor``.
    callbacks, observer
        ``callback(row, state)`` is called after every evaluation but the first; when
        one returns True the run stops with the outcome `target reached`. The observer
        is told every row, and a few times a second how far the run is.
    compile
        Compile the whole step first: True, False, or ``"auto"``, when a run of this
        length is likely to win more time than that takes. Results agree to rounding;
        say True or False where they must agree to the bit. On a distributed engine
        the gradients are compiled, since messages are part of the step.
    out, config, force
        Run folder to write as the run goes, the config to keep in it, and whether to
        overwrite a run that is there. In a distributed run the root writes it.

    Returns
    -------
    Result
        ``history``, ``outcome``, ``message``, ``model``, ``sparse_model``, ``state``,
        and ``algorithm`` with the constants that were in force.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> data = pm.datasets.breast_cancer()
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy, data.split(4),
    ...     test=data.test, regularizer=pm.L1(1e-3),
    ... )
    >>> result = pm.solve(problem, pm.HSMADMM(), pm.graphs.ring(4), steps=100)
    >>> str(result.outcome), result.final["test_accuracy"] > 0.9
    ('finished', True)
    """
    require_whole("", 1, steps=steps, eval_every=eval_every)
    every = max(1, steps // DEFAULT_EVALUATIONS) if eval_every is None else eval_every
    if isinstance(state, Result):
        compile = state.compiled if compile == "auto" else compile  # noqa: A001
        algorithm = with_constants_of(state.algorithm, algorithm)
        state = state.state
    if compile not in {True, False, "auto"}:
        raise unknown("value", compile, ["True", "False", "auto"], "`compile`")
    require_start(state, x0, algorithm)
    require_callable(metrics or {}, callbacks)
    require_parts(problem, algorithm)
    require_metrics(target or {}, metrics or {})
    require_evaluation(evaluation, target or {}, metrics or {}, monitor)
    rows = x0 if state is None else state.x
    world = joined(problem, graph, engine, rows, timeout)
    with telling(world):
        if out is not None and world.is_root:
            RunFolder.require_free(Path(out), force)
        problem = local_part(problem, world)
        if x0 is not None and len(x0) == world.n:
            rows = x0[list(world.agents)]
        start = initial_rows(problem, init) if rows is None else rows
        require_width(start, problem, world, "x0" if state is None else "state.x")
        world.agree(
            {
                "algorithm": repr(algorithm),
                **facts_of(problem, start),
                "start": f"iteration {0 if state is None else int(state.k)}",
                "steps": str(steps),
                "eval_every": str(every),
                "evaluation": evaluation,
                "target": str(dict(target or {})),
                "kkt": str(kkt),
                "monitor": str(monitor),
                "metrics": str(sorted(metrics or {})),
                "number of callbacks": str(len(callbacks)),
            }
        )
        if rows is None and init == "same":
            start = roots_rows(start, world)
        if state is None:
            found = settled(algorithm, problem, world, as_graph(graph), start)
            algorithm = found.algorithm
            state = algorithm.init(start, problem, world)
        del start
        reuse_large_blocks(state.x)

        if compile == "auto":
            compile = pays_off(algorithm, problem, steps)  # noqa: A001
        fast, training = _compiled(compile, algorithm, problem, world, state)
        if fast is not None and observer is not None:
            observer.on_compile(fast.seconds)

        def step(current: Any) -> Any:
            return algorithm.step(current, training, world)

        if config is not None and "run" in config:
            mode = "off" if fast is None else "on"  # what the run is really made with
            config = {**config, "run": {**config["run"], "compile": mode}}

        run = _Run(
            step=fast if isinstance(fast, CompiledStep) else step,
            compiled=fast is not None,
            algorithm=algorithm,
            problem=problem,
            world=world,
            patience=Patience(world),
            ledger=Ledger.up_to(int(state.k), algorithm, problem, world, state.x),
            evaluation=evaluation,
            target=target or {},
            own=metrics or {},
            kkt=kkt,
            monitor=_monitor(monitor, algorithm, problem, world, graph),
            callbacks=callbacks,
            observer=observer,
            folder=None if out is None else Path(out),
            force=force,
            config=config,
        )
        states = [state]
        del state  # the loop must be the only one to hold it: it is large
        with run.patience.kept():
            return run.go(states.pop(), steps, every)


@final
@dataclass(slots=True)
class Stopwatch:
    """Seconds of computing, evaluations left out."""

    before: float = 0.0
    since: float | None = None  # None while it stands

    def start(self) -> None:
        """Let it run."""
        self.since = time.perf_counter()

    def stop(self) -> None:
        """Let it stand."""
        self.before, self.since = self.seconds, None

    @property
    def seconds(self) -> float:
        """What it shows."""
        running = 0.0 if self.since is None else time.perf_counter() - self.since
        return self.before + running


@final
@dataclass(slots=True)
class _Run:
    """One run in progress."""

    step: Step
    compiled: bool
    algorithm: Algorithm[Any]
    problem: Problem
    world: World
    patience: Patience
    ledger: Ledger
    evaluation: str
    target: Mapping[str, float]
    own: Mapping[str, Metric]
    kkt: bool
    monitor: Monitor | None
    callbacks: Sequence[Callback]
    observer: Observer | None
    folder: Path | None
    force: bool
    config: Mapping[str, Any] | None
    run_folder: RunFolder | None = None
    rows: list[Mapping[str, float]] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    clock: Stopwatch = field(default_factory=Stopwatch)
    seen: float = 0.0  # seconds at which the observer was last told
    limit: float = math.inf  # stationarity beyond which the run has blown up

    def go(self, state: Any, steps: int, every: int) -> Result:
        """Run the loop and turn its end into a result."""
        good = LastGood()
        good.keep(state)
        begin = int(state.k)
        end = begin + steps
        try:
            if not self._evaluate(state):
                return self._diverged(state, begin)
            self.clock.start()
            for k in range(begin + 1, end + 1):
                state = self.step(state)
                self.ledger.add(k)
                if self.patience.is_over(k):
                    return self._interrupted(state, end)
                if (k - begin) % every and k != end:
                    self._glance(k)
                    continue
                self.clock.stop()
                if self.observer is not None:
                    self.observer.on_step(k, self.clock.seconds)
                if int(state.k) != k:
                    raise InputError(
                        f"`{type(self.algorithm).__name__}.step` must return a state "
                        f"with k + 1; after iteration {k} it has {int(state.k)}."
                    )
                if not self._evaluate(state):
                    return self._diverged(good.get(), k)
                good.keep(state)
                if self.monitor is not None:
                    self.monitor.look(state)
                reason = self._reason_to_stop(state)
                if reason:
                    return self._result(Outcome.TARGET_REACHED, reason, state)
                self.clock.start()
        except KeyboardInterrupt:
            if self.world.engine != "simulated":
                raise  # not agreed on: the others are elsewhere
            return self._interrupted(state, end)
        except LostRankError as error:
            error.iteration = int(state.k)
            raise
        return self._result(Outcome.FINISHED, f"{end} iterations.", state)

    def _interrupted(self, state: Any, end: int) -> Result:
        """Stop here, after one more look."""
        self.clock.stop()
        self._look_once_more(state)
        message = f"after iteration {int(state.k)} of {end}."
        return self._result(Outcome.INTERRUPTED, message, state)

    def _glance(self, k: int) -> None:
        """Let the observer look, a few times a second: a look costs a small step."""
        if self.observer is None:
            return
        seconds = self.clock.seconds
        if seconds - self.seen > SECONDS_BETWEEN_GLANCES:
            self.observer.on_step(k, seconds)
            self.seen = seconds

    def _evaluate(self, state: Any) -> bool:
        """Add rows to the history; False, and no row, if the state has blown up."""
        rows = self._measured(state)
        sizes = [next(row[n] for n in SIZES if n in row) for row in rows]
        small = self._everywhere(all(size <= self.limit for size in sizes))
        if not (small and is_sound(state, self.world)):
            return False
        if not self.rows:
            self.columns = ordered(list(rows[0]))
            self.limit = BLOW_UP * max(1.0, *sizes)
            require_columns(self.target, self.columns)
            self._open_folder()  # only now: what was wrong has been found
        for row in rows:
            self.rows.append(row)
            if self.run_folder is not None:
                self.run_folder.append(row, self.columns)
            if self.observer is not None:
                self.observer.on_row(row)
        return True

    def _measured(self, state: Any) -> list[dict[str, float]]:
        """One row, the root's on every rank; or one for each agent that lives here."""
        counts = {"iteration": int(state.k), **self.ledger.row()}
        counts["seconds"] = self.clock.seconds
        if self.evaluation == "local":
            found = measure_alone(state, self.problem, self.world.agents)
            return [{**counts, **row} for row in found]
        row = measure(state, self.problem, self.world, self.own, self.kkt)
        return [self.world.share({**counts, **row})]

    def _everywhere(self, flag: bool) -> bool:
        """Whether it holds on every rank, so that all take the same decision."""
        here = torch.full((len(self.world.agents),), float(flag))
        return bool(self.world.reduce(here, "min"))

    def _look_once_more(self, state: Any) -> None:
        """Evaluate an interrupted run where it stands; a second Ctrl-C skips it."""
        if self.rows and self.rows[-1]["iteration"] == int(state.k):
            return
        with contextlib.suppress(KeyboardInterrupt):
            self._evaluate(state)

    def _reason_to_stop(self, state: Any) -> str | None:
        row = self.rows[-1]
        for name, value in self.target.items():
            above = name in HIGHER_IS_BETTER
            if row[name] >= value if above else row[name] <= value:
                sign = ">=" if above else "<="
                return (
                    f"{name} {row[name]:.3g} {sign} {value:g} at iteration "
                    f"{row['iteration']:.0f}."
                )
        for callback in self.callbacks:
            stop = bool(callback(row, state))
            if not self._everywhere(not stop):
                name = getattr(callback, "__name__", type(callback).__name__)
                return f"stopped by `{name}` at iteration {row['iteration']:.0f}."
        return None

    def _open_folder(self) -> None:
        if self.folder is None:
            return
        if self.world.is_root:
            self.run_folder = RunFolder.create(self.folder, self.force)
            if self.config is not None:
                self.run_folder.write_config(self.config)
        if self.evaluation == "local":
            agents = self.world.agents
            self.run_folder = RunFolder.of_agents(self.folder, agents, self.force)

    def _diverged(self, good: Any, last: int) -> Result:
        def step(state: Any) -> Any:
            return self.algorithm.step(state, self.problem, self.world)

        remedy = getattr(self.algorithm, "remedy", lambda: "Shorten the step.")()
        message = post_mortem(good, step, last, self.world, remedy)
        if self.observer is None:  # nobody watches: a returned result is easily unread
            warnings.warn(f"the run diverged {message}", Notice, stacklevel=4)
        return self._result(Outcome.DIVERGED, message, good)

    def _result(self, outcome: Outcome, message: str, state: Any) -> Result:
        columns = self.columns or ["iteration"]
        result = Result(
            history=table(self.rows, columns),
            outcome=outcome,
            message=message,
            state=state,
            problem=self.problem,
            compiled=self.compiled,
            algorithm=self.algorithm,
            monitor=self.monitor,
            means=self._means(state),
        )
        if self.run_folder is not None:
            self.run_folder.write_result(result, summary=self.world.is_root)
        return result

    def _means(self, state: Any) -> dict[str, torch.Tensor]:
        if self.evaluation == "local":
            return {}
        return {
            name: self.world.reduce(getattr(state, name), "mean")
            for name in ("x", "sparse")
            if hasattr(state, name)
        }


def _monitor(
    wanted: str | None, algorithm: Any, problem: Any, world: World, graph: Any
) -> Monitor | None:
    """Who watches the theory, if anybody does."""
    if wanted is None:
        return None
    return Monitor(algorithm, problem, world, as_graph(graph))


def _compiled(
    wanted: bool, algorithm: Any, problem: Any, world: World, state: Any
) -> tuple[CompiledStep | CompiledGradients | None, Any]:
    """What was compiled, and the problem to train with.

    Messages cannot be compiled: on a distributed engine only the gradients are.
    """
    if not wanted:
        return None, problem
    if world.engine == "simulated":
        return compiled(algorithm, problem, world, state), problem
    gradients = compiled_gradients(algorithm, problem, world, state)
    return gradients, gradients or problem
