"""The one loop: step, evaluate now and then, stop for a reason."""

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, final

import networkx as nx
import torch

from proxmesh.errors import InputError, Notice, unknown
from proxmesh.experiment.allocator import return_large_blocks
from proxmesh.experiment.keeping import LastGood
from proxmesh.experiment.results import Outcome, Result, RunFolder, ordered, table
from proxmesh.graphs import Graph
from proxmesh.metrics import COLUMNS, HIGHER_IS_BETTER, Metric, measure
from proxmesh.network import connect
from proxmesh.types import Algorithm, Problem, World

__all__ = ["Callback", "Observer", "solve"]

BLOW_UP = 1e10
"""Growth of the stationarity over its start (or 1) that counts as divergence."""

DEFAULT_EVALUATIONS = 40

Callback: TypeAlias = Callable[[Mapping[str, float], Any], bool | None]
"""``callback(row, state)`` after every evaluation; returning True stops the run."""

Step: TypeAlias = Callable[[Any], Any]


class Observer(Protocol):
    """Watches a run without touching it: a progress bar, a log."""

    def on_step(self, k: int) -> None:
        """Iteration k is finished."""
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
    engine: str = "auto",
    eval_every: int | None = None,
    target: Mapping[str, float] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    kkt: bool = True,
    callbacks: Sequence[Callback] = (),
    observer: Observer | None = None,
    compile: bool = False,  # noqa: A002 - torch's own word for it
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
        Where to go on from: the `state` of an earlier result.
    x0, init
        Initial rows, or how the problem makes them: ``"same"`` or ``"different"``.
    engine
        See `proxmesh.connect`.
    eval_every
        Iterations between evaluations; a fortieth of `steps` if not given.
    target
        Stop at the evaluation where a column reaches a value, such as
        ``{"stationarity": 1e-3}``; accuracies from below, others from above.
    metrics
        Own columns, ``name -> f(state, problem)``.
    kkt
        Evaluate the KKT residual too, one more pass over the training data.
    callbacks, observer
        Called after every evaluation; watching every step.
    compile
        Compile the whole step with `torch.compile` first.
    out, config, force
        Run folder to write as the run goes, the config to keep in it, and whether to
        overwrite a run that is there.

    Returns
    -------
    Result
        ``history``, ``outcome``, ``message``, ``model``, ``sparse_model``, ``state``.

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
    steps = _whole("steps", steps)
    every = _whole("eval_every", eval_every or max(1, steps // DEFAULT_EVALUATIONS))
    _require_methods(problem)
    _require_target(target, metrics)
    rows = x0 if state is None else state.x
    world, problem = _joined(problem, graph, engine, rows)
    if state is None:
        state = algorithm.init(problem.x0(init) if x0 is None else x0, problem, world)
    return_large_blocks(state.x)
    folder = None if out is None else RunFolder.create(Path(out), force)
    if folder is not None:
        folder.write_config(config or {})

    def step(current: Any) -> Any:
        return algorithm.step(current, problem, world)

    run = _Run(
        step=_compiled(step, state) if compile else step,
        algorithm=algorithm,
        problem=problem,
        world=world,
        ledger=_Ledger.up_to(int(state.k), algorithm, problem, world, state.x),
        target=target or {},
        own=metrics or {},
        kkt=kkt,
        callbacks=callbacks,
        observer=observer,
        folder=folder,
    )
    states = [state]
    del state  # the loop must be the only one to hold it: it is large
    return run.go(states.pop(), steps, every)


@final
@dataclass(slots=True)
class _Ledger:
    """Adds up what the algorithm declares for each iteration."""

    algorithm: Algorithm[Any]
    batch_size: int
    vector_bytes: int  # of one vector over every directed edge
    gradients: int = 0
    vectors: int = 0

    @staticmethod
    def up_to(
        k: int, algorithm: Algorithm[Any], problem: Any, world: World, x: torch.Tensor
    ) -> "_Ledger":
        ledger = _Ledger(
            algorithm=algorithm,
            batch_size=getattr(problem, "batch_size", 1),
            vector_bytes=x.shape[1] * x.element_size() * world.num_links,
        )
        for iteration in range(k + 1):
            ledger.add(iteration)
        return ledger

    def add(self, k: int) -> None:
        cost = self.algorithm.cost(k)
        self.gradients += cost.gradients * (cost.batch or self.batch_size)
        self.vectors += cost.vectors

    def row(self) -> dict[str, float]:
        return {
            "gradients": self.gradients,
            "vectors_sent": self.vectors,
            "bytes_sent": self.vectors * self.vector_bytes,
        }


@final
@dataclass(slots=True)
class _Run:
    """One run in progress."""

    step: Step
    algorithm: Algorithm[Any]
    problem: Problem
    world: World
    ledger: _Ledger
    target: Mapping[str, float]
    own: Mapping[str, Metric]
    kkt: bool
    callbacks: Sequence[Callback]
    observer: Observer | None
    folder: RunFolder | None
    rows: list[Mapping[str, float]] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    seconds: float = 0.0
    limit: float = math.inf  # stationarity beyond which the run has blown up

    def go(self, state: Any, steps: int, every: int) -> Result:
        """Run the loop and turn its end into a result."""
        good = LastGood()
        good.keep(state)
        begin = int(state.k)
        end = begin + steps
        try:
            self._evaluate(state)
            for k in range(begin + 1, end + 1):
                clock = time.perf_counter()
                state = self.step(state)
                self.seconds += time.perf_counter() - clock
                self.ledger.add(k)
                if self.observer is not None:
                    self.observer.on_step(k)
                if (k - begin) % every and k != end:
                    continue
                if not self._evaluate(state):
                    state = good.get()
                    message = self._post_mortem(state, k)
                    return self._result(Outcome.DIVERGED, message, state)
                good.keep(state)
                reason = self._reason_to_stop(state)
                if reason:
                    return self._result(Outcome.TARGET_REACHED, reason, state)
        except KeyboardInterrupt:
            self._look_once_more(state)
            message = f"after iteration {int(state.k)} of {end}."
            return self._result(Outcome.INTERRUPTED, message, state)
        return self._result(Outcome.FINISHED, f"{end} iterations.", state)

    def _evaluate(self, state: Any) -> bool:
        """Add a row to the history; False, and no row, if the state has blown up."""
        measured = measure(state, self.problem, self.world, self.own, self.kkt)
        row = {
            "iteration": int(state.k),
            **self.ledger.row(),
            "seconds": self.seconds,
            **measured,
        }
        size = row.get("stationarity", row["consensus"])
        if not (size <= self.limit and _is_finite(state, self.world)):
            return False
        if not self.rows:
            self.columns = ordered(list(row))
            self.limit = BLOW_UP * max(1.0, size)
            _require_columns(self.target, self.columns)
        self.rows.append(row)
        if self.folder is not None and self.world.is_root:
            self.folder.append(row, self.columns)
        if self.observer is not None:
            self.observer.on_row(row)
        return True

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
            if callback(row, state):
                name = getattr(callback, "__name__", type(callback).__name__)
                return f"stopped by `{name}` at iteration {row['iteration']:.0f}."
        return None

    def _post_mortem(self, state: Any, last: int) -> str:
        """Replay from the last good state to name the iteration and the agent."""
        while int(state.k) < last:
            state = self.algorithm.step(state, self.problem, self.world)
            size = state.x.square().sum(1)
            sick = (~(size <= self.limit)).nonzero()[:, 0].tolist()
            if sick:
                break
        else:
            sick = [int(state.x.square().sum(1).argmax())]
        agents = ", ".join(str(self.world.agents[i]) for i in sick[:5])
        more = f" and {len(sick) - 5} more" if len(sick) > 5 else ""
        remedy = getattr(self.algorithm, "remedy", lambda: "Shorten the step.")()
        return f"at iteration {int(state.k)}, first at agent {agents}{more}. {remedy}"

    def _result(self, outcome: Outcome, message: str, state: Any) -> Result:
        columns = self.columns or ["iteration"]
        result = Result(
            history=table(self.rows, columns),
            outcome=outcome,
            message=message,
            state=state,
            problem=self.problem,
            world=self.world,
        )
        if self.folder is not None and self.world.is_root:
            self.folder.write_result(result)
        return result


def _joined(
    problem: Any, graph: Any, engine: str, rows: torch.Tensor | None
) -> tuple[World, Any]:
    """Join the network in the rows' precision and take our agents' problem."""
    like = problem if rows is None else rows
    dtype, device = getattr(like, "dtype", None), getattr(like, "device", None)
    world = connect(graph, engine, dtype, device)
    agents = getattr(problem, "num_agents", None)
    if agents not in {None, world.n}:
        raise InputError(
            f"`{type(problem).__name__}` holds {agents} agents but the network has "
            f"{world.n}. Split the data into {world.n}, or change the graph."
        )
    if hasattr(problem, "local"):
        problem = problem.local(world.agents)
    if rows is None and not callable(getattr(problem, "x0", None)):
        raise InputError(
            f"`{type(problem).__name__}` has no method `x0`; give initial rows: "
            "`solve(..., x0=rows)`."
        )
    return world, problem


def _compiled(step: Step, state: Any) -> Step:
    """Compile the whole step, outside the clock, or stay eager with a notice."""
    # Isolated: runs of one process must not share a limit on recompilations.
    options: Any = {"fullgraph": True, "dynamic": False, "isolate_recompiles": True}
    compiled: Step = torch.compile(step, **options)
    try:
        compiled(state)
    except Exception as error:  # the compiler's refusals have many types
        reason = str(error).strip().splitlines()[0]
        warnings.warn(
            f"the step runs uncompiled, since torch.compile failed: {reason}",
            Notice,
            stacklevel=3,
        )
        return step
    return compiled


def _is_finite(state: Any, world: World) -> bool:
    local = torch.isfinite(state.x).all(1).to(torch.float64)
    return bool(world.reduce(local, "min").item())


def _whole(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"`{name}` must be a whole number of at least 1, got {value}.")
    return value


def _require_methods(problem: Any) -> None:
    missing = [m for m in ("sample", "grad", "prox") if not hasattr(problem, m)]
    if missing:
        raise InputError(
            f"`{type(problem).__name__}` is not a problem: it has no "
            f"{', '.join(f'`{m}`' for m in missing)}."
        )


def _require_target(
    target: Mapping[str, float] | None, own: Mapping[str, Metric] | None
) -> None:
    for name, value in (target or {}).items():
        if name not in COLUMNS and name not in (own or {}):
            raise unknown("metric", name, [*COLUMNS, *(own or {})], of="`target`")
        if not math.isfinite(value):
            raise InputError(f"`target` of `{name}` must be finite, got {value}.")


def _require_columns(target: Mapping[str, float], columns: Sequence[str]) -> None:
    for name in target:
        if name not in columns:
            raise InputError(
                f"`target` names `{name}`, which this problem and algorithm do not "
                f"provide. Here: {', '.join(columns)}."
            )
