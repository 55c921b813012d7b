"""Runs in which nobody waits: beside the one loop, with its history and its ends."""

from collections.abc import Container, Mapping
from typing import Any

from proxmesh.algorithms.asynchronous import asynchronous_form
from proxmesh.graphs import Graph
from proxmesh.solver.asynchronous.alone import AsynchronousAlone
from proxmesh.solver.asynchronous.ranks import AsynchronousRanks
from proxmesh.solver.asynchronous.stopwatch import TurnsWatch
from proxmesh.solver.loop import Loop
from proxmesh.solver.result import Result
from proxmesh.solver.saving import Interval

__all__ = ["go_asynchronously"]

OWN_STEPS = "own steps of ranks 0, 1, ...: "
FIRST_LOOK = 32  # ticks, then twice as many each time


def go_asynchronously(loop: Loop, graph: Graph, state: Any) -> Result:
    """Carry out a prepared run without waiting; the loop only records it.

    Parameters
    ----------
    loop
        Of the prepared run.
    graph
        Who talks to whom.
    state
        Where it begins, of the method's asynchronous form.
    """
    settings, world = loop.settings, loop.world
    looks = _looks(loop, int(state.k))
    marks = _marks(loop, int(state.k), looks)
    loop.costs.count_anew(entry_bytes=8)  # sums are sent in float64
    loop.beside = lambda s: _own_steps(loop, s)
    shared: dict[str, Any] = {
        "max_staleness": settings.max_staleness,
        "marks": marks,
        "looks": looks,
    }
    loop.good.keep(state)
    if not world.distributed:
        loop.clock.before = loop.journal.seconds
        links = loop.hooks.links
        alone = AsynchronousAlone(
            loop, loop.algorithm, loop.problem, graph, links=links, **shared
        )
        return alone.go(state)
    watch: Any = TurnsWatch(loop.journal.seconds)
    loop.clock = watch
    form, engine = asynchronous_form(loop.algorithm), world
    ranks: Any = AsynchronousRanks
    found: Result = ranks(loop, form, loop.problem, engine, **shared).go(state)
    return found


def _looks(loop: Loop, begin: int) -> dict[int, int]:
    """Clocks at which the age of messages is looked at, and from when on it counts."""
    end = loop.journal.begin + loop.settings.steps
    found, gap = {}, FIRST_LOOK
    while begin + gap < end:
        found[begin + gap] = begin + 2 * gap
        gap *= 2
    return found


def _marks(loop: Loop, begin: int, looks: Container[int]) -> list[int]:
    """The clocks at which something is done with all states; the same on every rank."""
    settings = loop.settings
    end = loop.journal.begin + settings.steps
    interval = Interval.of(settings.checkpoint_every)
    every = None if interval is None else interval.iterations
    return [
        k
        for k in range(begin + 1, end + 1)
        if loop.is_to_look_at(k) or k in looks or (every is not None and k % every == 0)
    ]


def _own_steps(loop: Loop, state: Any) -> Mapping[str, float]:
    """How many steps the slowest and the fastest agent have made themselves."""
    if loop.settings.evaluation == "local":  # nothing is reduced then
        return {}
    told = loop.world.gather({"steps": state.count[:, 0].tolist()})
    ranks = [max(one["steps"]) for one in told]
    if loop.world.distributed:
        notes = [note for note in loop.threads.notes if not note.startswith(OWN_STEPS)]
        listed = ", ".join(f"{steps:.0f}" for steps in ranks)
        loop.threads.notes[:] = [*notes, f"{OWN_STEPS}{listed}"]
    return {
        "fewest_steps": min(steps for one in told for steps in one["steps"]),
        "most_steps": max(ranks),
    }
