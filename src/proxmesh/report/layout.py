"""Where the agents of a graph are drawn: a star as a star, a grid as a grid."""

import math
from collections.abc import Mapping
from typing import TypeAlias

import networkx as nx
import numpy as np

from proxmesh.graphs import Graph

__all__ = ["Place", "placed", "wrapping_edges"]

Place: TypeAlias = tuple[float, float]

ON_A_CIRCLE = frozenset({"ring", "complete", "random-8", "watts-strogatz"})
IN_ROWS = frozenset({"grid", "torus", "ladder", "path"})
CUBE = ((0, 1.0), (90, 1.0), (65, 0.55), (155, 0.55), (175, 0.25), (140, 0.15))
"""Angle and length of the first bits: of 16 agents no two are near each other."""
SPRINGS_UP_TO = 300  # agents; their number of pairs makes more slow
MORE_THAN_OTHERS = 3  # times the mean degree: a hub belongs in the middle


def placed(graph: Graph) -> dict[int, Place]:
    """Where each agent is drawn, in a square from -1 to 1.

    Examples
    --------
    >>> from proxmesh import graphs
    >>> placed(graphs.star(5))[0]
    (0.0, 0.0)
    >>> placed(graphs.grid(4, rows=2))
    {0: (-1.0, 1.0), 1: (1.0, 1.0), 2: (-1.0, -1.0), 3: (1.0, -1.0)}
    """
    if _is_star(graph):
        return _star(graph)
    if graph.name in ON_A_CIRCLE or _is_ring(graph):
        return _circle(list(range(graph.n)))
    return _framed(_shaped(graph))


def _shaped(graph: Graph) -> dict[int, Place]:
    """The shape that a topology is known by, in any size; otherwise by springs."""
    rows = {"ladder": 2, "path": 1}.get(graph.name) or graph.options.get("rows")
    if graph.name in IN_ROWS and rows and graph.n % rows == 0:
        width = graph.n // rows
        return {i: (float(i % width), -float(i // width)) for i in range(graph.n)}
    return _cube(graph.n) if graph.name == "hypercube" else _by_springs(graph)


def wrapping_edges(graph: Graph, places: Mapping[int, Place]) -> list[tuple[int, int]]:
    """The edges of a torus that join two borders: drawn as arcs, or they hide others.

    Examples
    --------
    >>> from proxmesh import graphs
    >>> torus = graphs.torus(9, rows=3)
    >>> len(wrapping_edges(torus, placed(torus)))
    6
    """
    if graph.name != "torus":
        return []
    columns = sorted({x for x, _ in places.values()})
    rows = sorted({y for _, y in places.values()})
    cell = {i: (columns.index(x), rows.index(y)) for i, (x, y) in places.items()}
    return [
        (i, j)
        for i, j in graph.edges
        if abs(cell[i][0] - cell[j][0]) > 1 or abs(cell[i][1] - cell[j][1]) > 1
    ]


def _circle(agents: list[int]) -> dict[int, Place]:
    """Agents clockwise, the first at the top."""
    turn = 2 * math.pi / len(agents)
    return {
        agent: (math.sin(turn * place), math.cos(turn * place))
        for place, agent in enumerate(agents)
    }


def _star(graph: Graph) -> dict[int, Place]:
    hub = int(graph.degrees.argmax())
    leaves = [agent for agent in range(graph.n) if agent != hub]
    return {hub: (0.0, 0.0), **_circle(leaves)}


def _cube(n: int) -> dict[int, Place]:
    """Each bit of an agent's number is a direction: two long, then shorter ones."""
    bits = max(1, (n - 1).bit_length())
    more = ((47.0 * bit, 0.15 * 0.6 ** (bit - 5)) for bit in range(6, bits))
    ways = [
        (size * math.cos(math.radians(angle)), size * math.sin(math.radians(angle)))
        for angle, size in (*CUBE, *more)
    ]
    return {
        i: (
            sum(ways[bit][0] for bit in range(bits) if i >> bit & 1),
            sum(ways[bit][1] for bit in range(bits) if i >> bit & 1),
        )
        for i in range(n)
    }


def _by_springs(graph: Graph) -> dict[int, Place]:
    drawn = graph.to_networkx()
    hubs = graph.degrees > MORE_THAN_OTHERS * graph.degrees.mean()
    if graph.n > SPRINGS_UP_TO:
        order = np.argsort(-graph.degrees, kind="stable").tolist()
        middle, rim = order[: int(hubs.sum())], order[int(hubs.sum()) :]
        inner = {a: (x / 3, y / 3) for a, (x, y) in _circle(middle or [0]).items()}
        return {**_circle(rim), **(inner if middle else {})}
    start = nx.kamada_kawai_layout(drawn) if graph.n <= 100 else None
    found = nx.spring_layout(drawn, seed=1, pos=start, iterations=30 if start else 50)
    return {int(i): (float(x), float(y)) for i, (x, y) in found.items()}


def _is_star(graph: Graph) -> bool:
    """One agent that knows all others, who know nobody else."""
    return graph.n > 2 and len(graph.edges) == graph.n - 1 == graph.max_degree


def _is_ring(graph: Graph) -> bool:
    """Neighbors by number, all the way around."""
    around = {(i, i + 1) for i in range(graph.n - 1)} | {(0, graph.n - 1)}
    return graph.n > 2 and set(graph.edges) == around


def _framed(places: Mapping[int, Place]) -> dict[int, Place]:
    """The same shape, as large as the square allows."""
    x, y = (np.array(side, float) for side in zip(*places.values(), strict=True))
    half = max(np.ptp(x), np.ptp(y), 1e-9) / 2
    x = (x - (x.min() + x.max()) / 2) / half
    y = (y - (y.min() + y.max()) / 2) / half
    return {
        agent: (float(a), float(b)) for agent, a, b in zip(places, x, y, strict=True)
    }
