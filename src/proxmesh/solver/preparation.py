"""Prepare a run, once: check, join the network, settle what is automatic, start."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import networkx as nx
import torch
from torch import Tensor

from proxmesh.display.progress import watching
from proxmesh.errors import InputError
from proxmesh.graphs import Graph, as_graph
from proxmesh.metrics import Metric
from proxmesh.network import TIMEOUT, connect
from proxmesh.solver.arguments import (
    require_parts,
    require_room,
    require_start,
    require_width,
    require_wishes,
)
from proxmesh.solver.checkpoint import Checkpoint
from proxmesh.solver.compile_step import pays_off
from proxmesh.solver.continuing import (
    as_before,
    as_saved,
    found_before,
    restored,
    state_in,
    with_constants_of,
)
from proxmesh.solver.epochs import with_steps
from proxmesh.solver.facts import deciding
from proxmesh.solver.failures import announcing_failure
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.journal import Journal
from proxmesh.solver.malloc import reuse_large_blocks
from proxmesh.solver.method_as_text import from_written
from proxmesh.solver.result import Result
from proxmesh.solver.run import Run
from proxmesh.solver.settings import Callback, Hooks, Observer, Settings, joined_before
from proxmesh.solver.threads import ThreadWatch
from proxmesh.theory import Settled, settled
from proxmesh.types import (
    Algorithm,
    Problem,
    World,
    can_be_divided,
    chooses_a_way,
    facts_of,
    finds_constants,
    starts_itself,
)

__all__ = ["prepare", "prepared", "solve"]

P = ParamSpec("P")
S = TypeVar("S")


def prepare(
    problem: Problem,
    algorithm: Algorithm[S],
    graph: "Graph | nx.Graph[Any]",
    steps: int | None = None,
    *,
    epochs: float | None = None,
    state: Any = None,
    x0: Tensor | None = None,
    init: str = "same",
    engine: str | World = "auto",
    timeout: float = TIMEOUT,
    eval_every: int | None = None,
    evaluation: Literal["mean", "local"] = "mean",
    target: Mapping[str, float] | None = None,
    patience: int | Mapping[str, int] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    kkt: bool = True,
    monitor: Literal["theory"] | None = None,
    callbacks: Sequence[Callback] = (),
    observer: Observer | None = None,
    progress: bool | Literal["auto"] = "auto",
    compile: bool | Literal["auto"] = "auto",  # noqa: A002 - torch's own word for it
    checkpoint_every: int | str | None = None,
    threads: int | None = None,
    out: str | Path | None = None,
    config: Mapping[str, Any] | Callable[[Run], Mapping[str, Any]] | None = None,
    force: bool = False,
) -> Run[S]:
    """Make a run ready, to look at it before it goes.

    The network is joined, this process's part of the problem kept, constants that were
    left out are found, the first state is built; nothing is written yet. In a
    distributed run every process prepares it.

    Parameters
    ----------
    problem, algorithm, graph, steps
        What to minimize, how, who talks to whom, and how many iterations.
    epochs, state, x0, init, engine, timeout, eval_every, evaluation, target, \
patience, metrics, kkt, monitor, callbacks, observer, progress, compile, \
checkpoint_every, threads, out, config, force
        See `proxmesh.solve`, which is ``prepare(...).go()``.

    Returns
    -------
    Run
        ``run.algorithm`` has its constants, ``run.certificate()`` tells whether the
        steps are stable on this graph, ``run.cost()`` what it will send and compute;
        ``run.go()`` carries it out.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(4))
    >>> run = pm.prepare(problem, pm.HSMADMM(), pm.graphs.ring(4), steps=100)
    >>> run.settled.automatic, run.cost().vectors
    (('c_rho', 'c_eta', 'c_a', 'smoothness'), 101)
    >>> str(run.go().outcome)
    'finished'
    """
    given = dict(locals())  # the signature is the list of settings and hooks
    settings, hooks = Settings.of_keywords(given), Hooks.of_keywords(given)
    world = joined_before(given)
    return prepared(
        problem, algorithm, graph, settings=settings, hooks=hooks, world=world
    )


def _with_the_keywords_of(
    source: Callable[P, Run[S]],
) -> Callable[[Callable[..., Result]], Callable[P, Result[S]]]:
    """Give a function the signature of another, for people and for type checkers."""

    def decorate(function: Callable[..., Result]) -> Callable[P, Result[S]]:
        @wraps(function)
        def same(*args: P.args, **kwargs: P.kwargs) -> Result[S]:
            return function(*args, **kwargs)

        shown = signature(source).replace(return_annotation=Result)
        same.__signature__ = shown  # type: ignore[attr-defined]
        return same

    return decorate


@_with_the_keywords_of(prepare)
def solve(*args: Any, **kwargs: Any) -> Result:
    """Train: run an algorithm on a problem over a graph.

    The same as ``prepare(...).go()``, with the same arguments.

    Parameters
    ----------
    problem, algorithm, graph
        What to minimize, how, and who talks to whom (a networkx graph is fine).
    steps
        Iterations to make; with `state`, further ones.
    epochs
        In place of `steps`, and not only whole ones: an epoch is as many iterations as
        the agents have minibatches on average, their mean number of samples divided by
        the batch size; the product is rounded.
    state
        Where to go on from: an earlier result, or its `state`. Counts of gradients
        and traffic go on, the clock starts again at 0. Constants that were found stay
        with the result; with a bare state give ``result.algorithm``.
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
    patience
        Stop after so many evaluations in a row without a better value of a column:
        ``{"test_loss": 10}``; a number alone is of the stationarity. See
        `proxmesh.EarlyStopping`.
    metrics
        Columns of your own, ``name -> f(state, problem)``; f sees this process's
        agents, and the column is the mean of what the agents' processes find.
    kkt
        Evaluate the KKT residual too, one more pass over the training data.
    monitor
        ``"theory"``: at every evaluation but the first also the quantities of the
        paper's analysis, and whether its inequalities hold; in ``result.monitor``.
    callbacks, observer
        ``callback(row, state)`` is called after every evaluation but the first; when
        one returns True the run ends with the outcome `stopped early`. Among them may
        stand `proxmesh.EarlyStopping` and `proxmesh.loggers`. The observer is told
        every row, a few times a second how far the run is, and before that which stage
        of preparing has begun.
    progress
        Show the run on stderr: a bar on a terminal, a bar in a notebook, one line per
        evaluation elsewhere; and before iteration 0 what is being done. ``"auto"``: on
        a terminal and in a notebook, if there is no observer.
    compile
        Compile the whole step first: True, False, or ``"auto"``, when a run of this
        length is likely to win more time than that takes. Results agree to rounding;
        say True or False where they must agree to the bit. On a distributed engine
        the gradients are compiled, since messages are part of the step.
    checkpoint_every
        Iterations, or minutes of computing (``"10min"``), between checkpoints in the
        run folder, from which `proxmesh.resume` goes on; ``"off"`` makes none. If not
        given: a minute, more where one takes longer than a hundredth of that.
    threads
        CPU threads of this process, from now on. If not given: as many as torch uses,
        and fewer, with a notice, where other programs keep them waiting for each other.
    out, config, force
        Run folder to write as the run goes, the config to keep in it (or a function
        that makes it from the prepared run), and whether to overwrite a run that is
        there. In a distributed run the root writes it.

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
    return prepare(*args, **kwargs).go()


def prepared(
    problem: Problem,
    algorithm: Algorithm[Any],
    graph: "Graph | nx.Graph[Any]",
    *,
    settings: Settings,
    hooks: Hooks,
    world: World | None = None,
    checkpoint: Checkpoint | None = None,
) -> Run:
    """Prepare a run from settings and hooks, and show that if it is wanted.

    `world`: a network joined before; `checkpoint`: where the run goes on.
    """
    watcher = watching(hooks.progress, settings.steps)
    if watcher is not None:
        hooks = replace(hooks, observer=watcher)
    with nullcontext() if watcher is None else watcher.shown():
        return _prepared(problem, algorithm, graph, settings, hooks, world, checkpoint)


def _prepared(  # noqa: PLR0917 - it is `prepared`
    problem: Problem,
    algorithm: Algorithm[Any],
    graph: "Graph | nx.Graph[Any]",
    settings: Settings,
    hooks: Hooks,
    world: World | None,
    checkpoint: Checkpoint | None,
) -> Run:
    state = hooks.state
    if isinstance(state, Result):
        settings = as_before(settings, state)
        algorithm = with_constants_of(state.algorithm, algorithm)
        state = state_in(state)
    if checkpoint is not None:
        saved = checkpoint.manifest
        settings = as_saved(settings, saved.settings)
        algorithm = with_constants_of(from_written(saved.algorithm), algorithm)
    require_start(state, hooks.x0, algorithm)
    require_parts(problem, algorithm)
    require_wishes(settings, hooks)
    given = hooks.x0 if state is None else state.x
    world = world or _joined(problem, graph, given, settings)
    threads = ThreadWatch.over(settings.threads)
    graph = as_graph(graph)
    with announcing_failure(world):
        if hooks.out is not None and world.is_root:
            RunFolder(hooks.out).require_unlocked()
            RunFolder(hooks.out).require_free(hooks.force or checkpoint is not None)
        if checkpoint is not None and chooses_a_way(problem):
            problem = problem.taken_in(checkpoint.manifest.problem)
        _tell(hooks, "opening the data")
        problem = _local_part(problem, world)
        require_room(algorithm, problem, world)
        if checkpoint is not None:
            state = restored(checkpoint, algorithm, problem, world)
            given = state.x
        rows = _first_rows(problem, world, given, hooks)
        require_width(rows, problem, world, "x0" if state is None else "state.x")
        settings = with_steps(settings, problem, world)
        start = 0 if state is None else int(state.k)
        facts = deciding(algorithm, problem, rows, settings, hooks)
        world.agree({**facts, "start": f"iteration {start}"})
        found = Settled(algorithm, automatic=found_before(checkpoint))
        if state is None:
            if given is None and hooks.init == "same":
                rows = _rows_of_root(rows, world)
            found = _settled(algorithm, problem, world, graph, rows, hooks=hooks)
            state = found.algorithm.init(rows, problem, world)
        del rows, given  # the state must be the only one to hold them: they are large
        reuse_large_blocks(state.x)
        if settings.compile == "auto":
            wanted = pays_off(found.algorithm, problem, settings.steps)
            settings = settings.changed(compile="on" if wanted else "off")
        run = Run(
            problem,
            graph,
            world,
            settings=settings,
            hooks=hooks,
            settled=found,
            state=state,
            journal=Journal(begin=start),
            threads=threads,
        )
        if checkpoint is not None:
            checkpoint.require_same(run.facts)
            run.journal = checkpoint.journal(world.agents)
        return run


def _settled(
    algorithm: Algorithm[Any],
    problem: Problem,
    world: World,
    graph: Graph,
    rows: Tensor,
    *,
    hooks: Hooks,
) -> Settled:
    """Find what is missing; afterwards the first gradients are taken."""
    if finds_constants(algorithm) and algorithm.missing:
        _tell(hooks, "finding constants")
    found = settled(algorithm, problem, world, graph, rows)
    _tell(hooks, "taking the first gradients")
    return found


def _tell(hooks: Hooks, stage: str) -> None:
    """Let the observer know what begins."""
    if hooks.observer is not None:
        hooks.observer.on_prepare(stage)


def _joined(
    problem: Problem, graph: Any, rows: Tensor | None, settings: Settings
) -> World:
    """Join the network in the precision of the rows."""
    like = facts_of(problem) if rows is None else rows
    return connect(
        graph,
        settings.engine,
        dtype=like.dtype,
        device=like.device,
        timeout=settings.timeout,
    )


def _local_part(problem: Problem, world: World) -> Problem:
    """Keep our agents' part of the problem."""
    agents = facts_of(problem).num_agents
    if agents not in {None, world.n}:
        raise InputError(
            f"`{type(problem).__name__}` holds {agents} agents but the network has "
            f"{world.n}. Split the data into {world.n}, or change the graph."
        )
    return problem.local(world.agents) if can_be_divided(problem) else problem


def _first_rows(
    problem: Problem, world: World, given: Tensor | None, hooks: Hooks
) -> Tensor:
    """Our agents' rows at the start: given, or as the problem makes them."""
    if given is not None:
        whole = hooks.x0 is not None and len(given) == world.n
        return given[list(world.agents)] if whole else given
    if not (starts_itself(problem) and callable(problem.x0)):
        raise InputError(
            f"`{type(problem).__name__}` has no method `x0`; give initial rows: "
            "`solve(..., x0=rows)`."
        )
    return problem.x0(hooks.init)


def _rows_of_root(rows: Tensor, world: World) -> Tensor:
    """The root's model for all agents: each rank has drawn weights of its own."""
    if not world.distributed:
        return rows
    first = torch.zeros_like(rows)
    if world.is_root:
        first[0] = rows[0]
    return world.reduce(first, "sum").repeat(len(rows), 1)
