"""Join the network: meet the other ranks, take our agents' part, start alike."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from proxmesh.errors import InputError, LostRankError
from proxmesh.network import connect
from proxmesh.types import World

__all__ = [
    "facts_of",
    "initial_rows",
    "joined",
    "local_part",
    "roots_rows",
    "telling",
    "with_constants_of",
]


def joined(
    problem: Any,
    graph: Any,
    engine: str | World,
    rows: torch.Tensor | None,
    timeout: float,
) -> World:
    """Join the network in the rows' precision."""
    if not isinstance(engine, str):
        return engine
    like = problem if rows is None else rows
    dtype, device = getattr(like, "dtype", None), getattr(like, "device", None)
    return connect(graph, engine, dtype=dtype, device=device, timeout=timeout)


def with_constants_of(made: Any, algorithm: Any) -> Any:
    """The algorithm with what an earlier run of the same kind has found.

    Where one of c_rho and c_eta is given anew, the other keeps its ratio to it.
    """
    missing = getattr(algorithm, "missing", ())
    if type(made) is not type(algorithm) or not missing:
        return algorithm
    found = {name: getattr(made, name) for name in missing}
    for name, other in (("c_rho", "c_eta"), ("c_eta", "c_rho")):
        if name in found and other not in found:
            found[name] *= getattr(algorithm, other) / getattr(made, other)
    return dataclasses.replace(algorithm, **found)


def local_part(problem: Any, world: World) -> Any:
    """Take our agents' part of the problem."""
    agents = getattr(problem, "num_agents", None)
    if agents not in {None, world.n}:
        raise InputError(
            f"`{type(problem).__name__}` holds {agents} agents but the network has "
            f"{world.n}. Split the data into {world.n}, or change the graph."
        )
    if hasattr(problem, "local"):
        problem = problem.local(world.agents)
    return problem


def initial_rows(problem: Any, init: str) -> torch.Tensor:
    """Initial rows as the problem makes them."""
    if not callable(getattr(problem, "x0", None)):
        raise InputError(
            f"`{type(problem).__name__}` has no method `x0`; give initial rows: "
            "`solve(..., x0=rows)`."
        )
    rows: torch.Tensor = problem.x0(init)
    return rows


def roots_rows(start: torch.Tensor, world: World) -> torch.Tensor:
    """The root's model for all agents: each rank has drawn weights of its own."""
    if world.engine == "simulated":
        return start
    first = torch.zeros_like(start)
    if world.is_root:
        first[0] = start[0]
    return world.reduce(first, "sum").repeat(len(start), 1)


@contextlib.contextmanager
def telling(world: World) -> Iterator[None]:
    """Let the other ranks know why this one goes."""
    try:
        yield
    except LostRankError:
        raise  # they know
    except InputError:
        # Its message may quote its data.
        world.announce_exit("InputError, see its own message")
        raise
    except BaseException as error:
        world.announce_exit(f"{type(error).__name__}: {error}")
        raise


def facts_of(problem: Any, start: torch.Tensor) -> dict[str, str]:
    """What must be the same in every process, as far as the problem tells."""
    names = ("dtype", "batch_size", "seed", "regularizer", "sample_shape")
    facts = {
        name.replace("_", " "): str(getattr(problem, name))
        for name in names
        if hasattr(problem, name)
    }
    facts["number of parameters"] = str(start.shape[1])
    return facts
