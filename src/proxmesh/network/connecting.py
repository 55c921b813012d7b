"""Choose the engine and join the graph."""

from typing import Any

import networkx as nx
import torch

from proxmesh.errors import InputError, unknown
from proxmesh.graphs import Graph, from_networkx
from proxmesh.network.simulated import SimulatedWorld
from proxmesh.types import World

__all__ = ["ENGINES", "connect"]

ENGINES = ("auto", "simulated")


def connect(
    graph: "Graph | nx.Graph[Any]",
    engine: str = "auto",
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> World:
    """Join the network of a graph with the given engine.

    Parameters
    ----------
    graph
        A `Graph`, or any undirected networkx graph.
    engine
        ``"simulated"``: all agents stacked in this process. ``"auto"`` takes it too.
    dtype, device
        Of the states that will be exchanged; torch's defaults if not given.

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
    if isinstance(graph, nx.Graph):
        graph = from_networkx(graph)
    if not isinstance(graph, Graph):
        raise InputError(
            f"`graph` is a {type(graph).__name__}. Use `pm.graphs.ring(8)` or another "
            "topology, or a networkx graph."
        )
    return SimulatedWorld(
        graph, dtype or torch.get_default_dtype(), torch.device(device or "cpu")
    )
