"""Prepare a run, once: check, join the network, settle what is automatic, start."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, Literal, ParamSpec

import networkx as nx
import torch
from torch import Tensor

from proxmesh.errors import InputError
from proxmesh.graphs import Graph, as_graph
from proxmesh.metrics import Metric
from proxmesh.network import TIMEOUT, connect
from proxmesh.solver.arguments import (
    require_evaluation,
    require_parts,
    require_start,
    require_targets,
    require_width,
)
from proxmesh.solver.checkpoint import Checkpoint
from proxmesh.solver.compile_step import pays_off
from proxmesh.solver.facts import deciding
from proxmesh.solver.failures import announcing_failure
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.journal import Journal
from proxmesh.solver.malloc import reuse_large_blocks
from proxmesh.solver.method_as_text import from_written
from proxmesh.solver.preparing import telling
from proxmesh.solver.result import Result
from proxmesh.solver.run import Run
from proxmesh.solver.settings import Callback, Hooks, Observer, Settings, joined_before
from proxmesh.solver.state import state_of
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


def prepare(
    problem: Problem,
    algorithm: Algorithm[Any],
    graph: "Graph | nx.Graph[Any]",
    steps: int,
    *,
    state: Any = None,
    x0: Tensor | None = None,
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
    checkpoint_every: int | str | None = None,
    out: str | Path | None = None,
    config: Mapping[str, Any] | Callable[[Run], Mapping[str, Any]] | None = None,
    force: bool = False,
) -> Run:
    """Make a run ready, to look at it before it goes.

    The network is joined, this process's part of the problem kept, constants that were
    left out are found, the first state is built; nothing is written yet. In a
    distributed run every process prepares it.

    Parameters
    ----------
    problem, algorithm, graph, steps
        What to minimize, how, who talks to whom, and how many iterations.
    state, x0, init, engine, timeout, eval_every, evaluation, target, metrics, kkt, \
monitor, callbacks, observer, compile, checkpoint_every, out, config, force
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
    source: Callable[P, Run],
) -> Callable[[Callable[..., Result]], Callable[P, Result]]:
    """Give a function the signature of another, for people and for type checkers."""

    def decorate(function: Callable[..., Result]) -> Callable[P, Result]:
        @wraps(function)
        def same(*args: P.args, **kwargs: P.kwargs) -> Result:
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
        one returns True the run stops with the outcome `target reached`. The observer
        is told every row, and a few times a second how far the run is.
    compile
        Compile the whole step first: True, False, or ``"auto"``, when a run of this
        length is likely to win more time than that takes. Results agree to rounding;
        say True or False where they must agree to the bit. On a distributed engine
        the gradients are compiled, since messages are part of the step.
    checkpoint_every
        Iterations, or minutes of computing (``"10min"``), between checkpoints in the
        run folder, from which `proxmesh.resume` goes on; ``"off"`` makes none. If not
        given: a minute, more where one takes longer than a hundredth of that.
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
    """Prepare a run from settings and hooks.

    `world`: a network joined before; `checkpoint`: where the run goes on.
    """
    state = hooks.state
    if isinstance(state, Result):
        settings = _as_before(settings, state)
        algorithm = _with_constants_of(state.algorithm, algorithm)
        state = state.state
    if checkpoint is not None:
        saved = checkpoint.manifest
        settings = _as_saved(settings, saved.settings)
        algorithm = _with_constants_of(from_written(saved.algorithm), algorithm)
    require_start(state, hooks.x0, algorithm)
    require_parts(problem, algorithm)
    require_targets(settings.target, hooks)
    require_evaluation(settings, hooks)
    given = hooks.x0 if state is None else state.x
    world = world or _joined(problem, graph, given, settings)
    graph = as_graph(graph)
    with announcing_failure(world):
        if hooks.out is not None and world.is_root:
            RunFolder(hooks.out).require_unlocked()
            RunFolder(hooks.out).require_free(hooks.force or checkpoint is not None)
        if checkpoint is not None and chooses_a_way(problem):
            problem = problem.taken_in(checkpoint.manifest.problem)
        with telling(hooks.observer, "opening data"):
            problem = _local_part(problem, world)
        if checkpoint is not None:
            state = _restored(checkpoint, algorithm, problem, world)
            given = state.x
        rows = _first_rows(problem, world, given, hooks)
        require_width(rows, problem, world, "x0" if state is None else "state.x")
        start = 0 if state is None else int(state.k)
        facts = deciding(algorithm, problem, rows, settings, hooks)
        world.agree({**facts, "start": f"iteration {start}"})
        found = Settled(algorithm)
        if checkpoint is not None:
            found_before = tuple(saved.algorithm.get("automatic", ()))
            found = Settled(algorithm, automatic=found_before)
        if state is None:
            if given is None and hooks.init == "same":
                rows = _rows_of_root(rows, world)
            found, state = _started(
                algorithm, problem, world, graph=graph, rows=rows, hooks=hooks
            )
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
        )
        if checkpoint is not None:
            checkpoint.require_same(run.facts)
            run.journal = checkpoint.journal(world.agents)
        return run


def _started(
    algorithm: Algorithm[Any],
    problem: Problem,
    world: World,
    *,
    graph: Graph,
    rows: Tensor,
    hooks: Hooks,
) -> tuple[Settled, Any]:
    """The algorithm with all its constants, and its first state."""
    reuse_large_blocks(rows)
    if not (finds_constants(algorithm) and algorithm.missing):
        return Settled(algorithm), algorithm.init(rows, problem, world)
    with telling(hooks.observer, "finding constants"):
        found = settled(algorithm, problem, world, graph, rows)
    return found, found.algorithm.init(rows, problem, world)


def _restored(
    checkpoint: Checkpoint, algorithm: Algorithm[Any], problem: Problem, world: World
) -> Any:
    """Our agents' part of the state that a checkpoint holds."""
    tensors = checkpoint.tensors(world.agents, world.degree.device)
    kind = state_of(algorithm)
    if kind is None:  # it does not say: have it make one
        kind = type(algorithm.init(tensors["x"], problem, world))
    return checkpoint.state(kind, tensors)


def _as_before(settings: Settings, earlier: Result) -> Settings:
    """Compile if the run that is gone on from did, where that is left open."""
    if settings.compile != "auto":
        return settings
    return settings.changed(compile="on" if earlier.compiled else "off")


def _as_saved(settings: Settings, saved: Mapping[str, Any]) -> Settings:
    """Evaluate and compile as before the run was cut off, where that is left open."""
    open_ones = {
        "eval_every": settings.eval_every is None,
        "compile": settings.compile == "auto",
    }
    return settings.changed(**{n: saved[n] for n, left in open_ones.items() if left})


def _with_constants_of(earlier: Any, algorithm: Algorithm[Any]) -> Algorithm[Any]:
    """The algorithm with what an earlier run of the same kind has found."""
    same_kind = type(earlier) is type(algorithm)
    if same_kind and finds_constants(algorithm) and algorithm.missing:
        return algorithm.with_constants_of(earlier)
    return algorithm


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
