"""Choose the engine and connect the agents of a graph."""

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any, overload

import networkx as nx
import torch

from proxmesh import __version__
from proxmesh.checks import require_positive
from proxmesh.errors import InputError, unknown
from proxmesh.graphs import Graph, as_graph
from proxmesh.launchers import launched, threads_allowed
from proxmesh.network.blocks import BlockWorld
from proxmesh.network.exits import end_on_error, join_deadline
from proxmesh.network.handshake import agree
from proxmesh.network.links import Link, LinkedWorld, Plan
from proxmesh.network.mpi import MPITransport, require_mpi
from proxmesh.network.orphans import end_with_launcher
from proxmesh.network.placement import place
from proxmesh.network.simulated import SimulatedWorld
from proxmesh.network.timeouts import Watch
from proxmesh.network.transport import Transport
from proxmesh.types import World

__all__ = ["ENGINES", "TIMEOUT", "connect", "join_ranks"]

ENGINES = ("auto", "simulated", "mpi", "torch")
TIMEOUT = 60.0


@overload
def connect(
    graph: "Graph | nx.Graph[Any]",
    engine: str = "auto",
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    timeout: float = TIMEOUT,
) -> World: ...


@overload
def connect(
    graph: "Graph | nx.Graph[Any]",
    engine: str = "auto",
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    timeout: float = TIMEOUT,
    links: Sequence[Link],
) -> LinkedWorld: ...


def connect(
    graph: "Graph | nx.Graph[Any]",
    engine: str = "auto",
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    timeout: float = TIMEOUT,
    links: Sequence[Link] = (),
) -> World | LinkedWorld:
    """Connect the agents of a graph with the given engine.

    Parameters
    ----------
    graph
        A `Graph`, or any undirected networkx graph.
    engine
        ``"simulated"``: all agents stacked in this process. ``"mpi"``: blocks of agents
        on the ranks of ``mpiexec``. ``"torch"``: on the processes of ``torchrun``.
        ``"auto"``: the one of the launcher that started this process.
    dtype, device
        Of the states that will be exchanged; torch's defaults if not given.
    timeout
        Seconds to wait for another process before it counts as lost, which raises
        `LostRankError`.
    links
        What is wrong with the links, as models of `proxmesh.links`.

    Returns
    -------
    World
        The network; with `links`, a `proxmesh.links.LinkedWorld`.

    Examples
    --------
    >>> import torch
    >>> from proxmesh import graphs
    >>> world = connect(graphs.path(3), dtype=torch.float64)
    >>> world.exchange(torch.tensor([[0.0], [1.0], [5.0]]).double()).laplacian()
    tensor([[-1.],
            [-3.],
            [ 4.]], dtype=torch.float64)
    """
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    require_positive("", timeout=timeout)
    graph = as_graph(graph)
    dtype = dtype or torch.get_default_dtype()
    device = torch.device(device or "cpu")
    chosen = launched().engine if engine == "auto" else engine
    models = _models(links)
    Plan(models).require_graph(graph)
    world: World
    if chosen == "simulated":
        world = SimulatedWorld(graph, dtype, device)
    else:
        world = _distributed_world(graph, chosen, dtype, device, timeout)
    if not models:
        return world
    world.agree({"links": repr(models)})
    return LinkedWorld(world, models)


def _models(links: Any) -> tuple[Link, ...]:
    """A list of models, or one line on what was given in its place."""
    if isinstance(links, str) or not isinstance(links, Sequence):
        raise InputError(
            f"`links` must be a list of models of `proxmesh.links`, got {links!r}."
        )
    return tuple(links)


def _distributed_world(
    graph: Graph, engine: str, dtype: torch.dtype, device: torch.device, timeout: float
) -> BlockWorld:
    """Join the other ranks, check that all have the same graph, take our agents."""
    watch = _watch(engine, device, timeout)
    edges = hashlib.sha256(repr(graph.edges).encode()).hexdigest()[:12]
    facts = {
        "version of proxmesh": __version__,
        "version of torch": torch.__version__,
        "graph": f"{graph}, edges {edges}",
        "dtype": str(dtype),
    }
    agree(watch, facts)
    placement = place(graph, watch.transport.size)
    agree(watch, {"placement of agents (version of networkx?)": str(placement)})
    watch.placement = placement
    with join_deadline(watch.transport.size, timeout):
        return BlockWorld(placement, watch, dtype, device)


def join_ranks(engine: str, timeout: float = TIMEOUT) -> Watch:
    """Join the other processes of a launcher, without a graph.

    Parameters
    ----------
    engine
        ``"mpi"`` or ``"torch"``.
    timeout
        Seconds to wait for another process before it counts as lost.
    """
    return _watch(engine, torch.device("cpu"), timeout)


@cache
def _watch(engine: str, device: torch.device, timeout: float) -> Watch:
    """Join the other ranks, once per process."""
    end_with_launcher()
    if engine == "mpi":
        require_mpi()
        with join_deadline(launched().size, timeout):
            transport: Transport = _mpi_transport()
    else:
        from proxmesh.network.torchdist import TorchTransport, require_torch

        require_torch()
        transport = TorchTransport(device, timeout)
    watch = Watch(transport, timeout)
    end_on_error(watch)
    torch.set_num_threads(min(torch.get_num_threads(), threads_allowed()))
    return watch


@cache
def _mpi_transport() -> MPITransport:
    """Make one per process: all calls of MPI go through its lock."""
    return MPITransport()
