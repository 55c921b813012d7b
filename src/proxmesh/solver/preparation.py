"""Prepare a run, once: check, join the network, settle what is automatic, start."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import networkx as nx
import torch
from torch import Tensor

from proxmesh.algorithms.asynchronous import asynchronous_form, made_asynchronous
from proxmesh.display.progress import watching
from proxmesh.display.stages import Watcher
from proxmesh.errors import InputError
from proxmesh.graphs import Graph, as_graph
from proxmesh.network import connect
from proxmesh.solver.arguments import (
    require_parts,
    require_room,
    require_start,
    require_width,
    require_wishes,
)
from proxmesh.solver.asynchronous_wishes import (
    require_asynchronous,
    require_asynchronous_world,
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
from proxmesh.solver.settings import Hooks, Settings
from proxmesh.solver.suiting import suited
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
    started,
    starts_itself,
)

__all__ = ["prepared"]


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
    settings, algorithm, state = _gone_on(settings, algorithm, hooks, checkpoint)
    require_start(state, hooks.x0, algorithm)
    require_parts(problem, algorithm)
    require_wishes(settings, hooks)
    require_asynchronous(settings, hooks, state)
    given = hooks.x0 if state is None else state.x
    world = world or _joined(problem, graph, given, settings, hooks)
    threads = ThreadWatch.over(settings.threads)
    graph = as_graph(graph)
    with announcing_failure(world):
        require_asynchronous_world(settings, hooks, world)
        if hooks.out is not None and world.is_root:
            RunFolder(hooks.out).require_unlocked()
            RunFolder(hooks.out).require_free(hooks.force or checkpoint is not None)
        if checkpoint is not None and chooses_a_way(problem):
            problem = problem.taken_in(checkpoint.manifest.problem)
        _tell(hooks, "opening the data")
        problem = _local_part(problem, world)
        require_room(algorithm, problem, world)
        algorithm, fitted = suited(algorithm, problem, world, given)
        if checkpoint is not None:
            state = restored(checkpoint, algorithm, problem, world, settings)
            given = state.x
        rows = _first_rows(problem, world, given, hooks)
        require_width(rows, problem, world, "x0" if state is None else "state.x")
        settings = _counted(settings, problem, world, hooks)
        start = 0 if state is None else int(state.k)
        facts = deciding(algorithm, problem, rows, settings, hooks)
        world.agree({**facts, "start": f"iteration {start}"})
        found = Settled(algorithm, automatic=found_before(checkpoint) or fitted)
        if state is None:
            if given is None and hooks.init == "same":
                rows = _rows_of_root(rows, world)
            found = _settled(
                algorithm, problem, world, graph, rows, hooks=hooks, fitted=fitted
            )
            state = _started(found.algorithm, rows, problem, world, settings)
        del rows, given  # the state must be the only one to hold them: they are large
        reuse_large_blocks(state.x)  # also where a run goes on
        if settings.compile == "auto":
            wanted = not settings.asynchronous and pays_off(
                found.algorithm, problem, settings.steps
            )
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


def _gone_on(
    settings: Settings,
    algorithm: Algorithm[Any],
    hooks: Hooks,
    checkpoint: Checkpoint | None,
) -> tuple[Settings, Algorithm[Any], Any]:
    """What an earlier run hands on: how it was computed, its constants, its state."""
    state = hooks.state
    if settings.asynchronous:
        algorithm = made_asynchronous(algorithm)
    if isinstance(state, Result):
        settings = as_before(settings, state)
        algorithm = with_constants_of(state.algorithm, algorithm)
        state = state_in(state)
    if checkpoint is not None:
        saved = checkpoint.manifest
        settings = as_saved(settings, saved.settings)
        algorithm = with_constants_of(from_written(saved.algorithm), algorithm)
    return settings, algorithm, state


def _started(
    algorithm: Algorithm[Any],
    rows: Tensor,
    problem: Problem,
    world: World,
    settings: Settings,
) -> Any:
    """The first state, of the method or of its asynchronous form."""
    if settings.asynchronous:
        return asynchronous_form(algorithm).start(rows, problem)
    return started(algorithm, rows, problem, world)


def _settled(
    algorithm: Algorithm[Any],
    problem: Problem,
    world: World,
    graph: Graph,
    rows: Tensor,
    *,
    hooks: Hooks,
    fitted: tuple[str, ...],
) -> Settled:
    """Find what is missing; afterwards the first gradients are taken."""
    reuse_large_blocks(rows)
    if finds_constants(algorithm) and algorithm.missing:
        _tell(hooks, "finding constants")
    found = settled(algorithm, problem, world, graph, rows)
    _tell(hooks, "taking the first gradients")
    return replace(found, automatic=(*found.automatic, *fitted))


def _counted(
    settings: Settings, problem: Problem, world: World, hooks: Hooks
) -> Settings:
    """The settings with a number of steps, which whoever shows the run is told."""
    settings = with_steps(settings, problem, world)
    if isinstance(hooks.observer, Watcher):
        hooks.observer.expect(settings.steps)
    return settings


def _tell(hooks: Hooks, stage: str) -> None:
    """Let the observer know what begins."""
    if hooks.observer is not None:
        hooks.observer.on_prepare(stage)


def _joined(
    problem: Problem,
    graph: Any,
    rows: Tensor | None,
    settings: Settings,
    hooks: Hooks,
) -> World:
    """Join the network in the precision of the rows."""
    like = facts_of(problem) if rows is None else rows
    return connect(
        graph,
        settings.engine,
        dtype=like.dtype,
        device=like.device,
        timeout=settings.timeout,
        links=() if settings.asynchronous else hooks.links,
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
