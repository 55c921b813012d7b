"""The network and the first layer of a run, as a page draws them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proxmesh.errors import InputError
from proxmesh.graphs import CONSTRUCTORS, Graph, from_edges
from proxmesh.network.connecting import connect
from proxmesh.network.links import LinkedWorld
from proxmesh.network.links.plan import FAILING
from proxmesh.report.layout import placed, wrapping_edges
from proxmesh.report.runs import FinishedRun
from proxmesh.report.thinning import rounded, some_of
from proxmesh.runs.build import build_graph, build_links
from proxmesh.runs.config import Config
from proxmesh.solver.folder import RunFolder

__all__ = ["drawn_layer", "drawn_network", "followed", "graph_of", "lost_shares"]

MOST_AGENTS, MOST_EDGES = 500, 6000  # that can be told apart in a drawing
MOST_SNAPSHOTS = 60
MOST_LOOKED_AT = 300  # iterations, for what links lose
MOST_CELLS = 60_000  # of all pictures of a layer
AGENT_COLUMNS = ("train_loss", "consensus")


def followed(runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """One run of each label, to be looked at closely: its first good seed, if any."""
    first: dict[str, FinishedRun] = {}
    for run in sorted(runs, key=lambda run: not run.is_good):
        first.setdefault(run.label, run)
    return [first[label] for label in dict.fromkeys(run.label for run in runs)]


def drawn_network(run: FinishedRun, numbers: int) -> dict[str, Any] | None:
    """Agents with their places, edges and, over time, their numbers.

    None where the graph cannot be known from the config, or is too large to be seen.
    """
    graph = graph_of(run.config)
    if graph is None or graph.n > MOST_AGENTS or len(graph.edges) > MOST_EDGES:
        return None
    places = placed(graph)
    arcs = set(wrapping_edges(graph, places))
    return {
        "name": graph.name,
        "places": [[round(c, 3) for c in places[agent]] for agent in range(graph.n)],
        "edges": [[i, j, int((i, j) in arcs)] for i, j in graph.edges],
        "lost": lost_shares(run.config, graph),
        "degrees": graph.degrees.tolist(),
        "over_time": _over_time(run, graph.n, numbers),
    }


def lost_shares(config: Mapping[str, Any], graph: Graph) -> list[float] | None:
    """How often each edge was down or lost something, of the first iterations.

    What is lost is a function of seeds and iterations: it is found again, not kept.
    None where nothing is lost, or the links are not in the config.
    """
    try:
        models = build_links(Config.model_validate(dict(config)))
        if not any(isinstance(model, FAILING) for model in models):
            return None
        world = connect(graph, "simulated", links=models)
    except (InputError, ValueError, TypeError):
        return None
    steps = min(MOST_LOOKED_AT, config.get("run", {}).get("steps") or MOST_LOOKED_AT)
    ends = zip(world.edges.agent.tolist(), world.edges.neighbor.tolist(), strict=True)
    lost = dict.fromkeys(graph.edges, 0.0)
    total = torch.stack(list(_silences(world, steps))).sum(0)
    for (i, j), share in zip(ends, (total / steps).tolist(), strict=True):
        lost[min(i, j), max(i, j)] += share / 2
    return [round(lost[edge], 3) for edge in graph.edges]


def _silences(world: LinkedWorld, steps: int) -> Iterator[Tensor]:
    """1 for every directed edge over which nothing came in an iteration, else 0."""
    failures, nothing = world.failures, torch.zeros(len(world.edges))
    bursts = torch.zeros(len(world.edges), len(failures.chains))
    for k in map(torch.tensor, range(1, steps + 1)):
        if failures.chains:
            bursts = failures.bursts_after(k, bursts)
        heard = failures.heard(k, 0, bursts)
        yield nothing if heard is None else 1 - heard.float()


def drawn_layer(run: FinishedRun) -> dict[str, Any] | None:
    """Pictures of the first layer: the share of nonzeros in each cell, in percent."""
    layer = RunFolder(run.folder).first_layer()
    if layer is None or not layer.iterations:
        return None
    density = np.nan_to_num(np.asarray(layer.density, float), posinf=1.0, neginf=0.0)
    size = math.prod(density.shape[1:])
    if density.ndim != 3 or not 0 < size <= MOST_CELLS:
        return None
    most = min(MOST_SNAPSHOTS, max(1, MOST_CELLS // size))
    kept = [int(place) for place in some_of(range(len(density)), most)]
    percent = (100 * density.clip(0, 1)).round().astype(int)
    return {
        "iterations": [int(layer.iterations[place]) for place in kept],
        "rows": density.shape[1],
        "columns": density.shape[2],
        "percent": [percent[place].ravel().tolist() for place in kept],
    }


def _over_time(run: FinishedRun, n: int, numbers: int) -> dict[str, Any] | None:
    """What each agent had at some iterations; None if the run kept no such numbers."""
    table = RunFolder(run.folder).agents()
    if table is None or not len(table):
        return None
    columns = [column for column in AGENT_COLUMNS if column in table]
    found = sorted(set(table["iteration"]))
    most = min(MOST_SNAPSHOTS, max(2, numbers // (n * max(1, len(columns)))))
    kept = some_of(found, most)
    values = {
        column: table.pivot_table(index="iteration", columns="agent", values=column)
        .reindex(index=kept, columns=range(n))
        .to_numpy(float)
        for column in columns
    }
    return {
        "iterations": [int(k) for k in kept],
        "columns": {
            column: [rounded(row, 4) for row in rows] for column, rows in values.items()
        },
    }


def graph_of(config: Mapping[str, Any]) -> Graph | None:
    """The graph that a config names, unless it is large, in a file, or malformed."""
    section = config.get("graph", {})
    agents = section.get("agents")
    if not isinstance(agents, int) or agents > MOST_AGENTS:
        return None
    try:
        if isinstance(section.get("edges"), str):
            return _written_out(section["edges"], agents, section.get("name", "edges"))
        if section.get("name") in CONSTRUCTORS:
            known = {"seed": config.get("seed", 0), "graph": dict(section)}
            return build_graph(Config.model_validate(known))
    except (InputError, ValueError, TypeError, ArithmeticError):
        return None
    return None


def _written_out(edges: str, agents: int, name: str) -> Graph:
    pairs = [pair.split("-") for pair in edges.split()]
    graph = from_edges([(int(i), int(j)) for i, j in pairs], agents)
    if name in CONSTRUCTORS:  # its shape is known by that name
        options = {"rows": _rows(graph)} if name in {"grid", "torus"} else {}
        return Graph(agents, graph.edges, name, options)
    return graph


def _rows(graph: Graph) -> int:
    """How many rows a grid has: its second row begins below agent 0."""
    below = [j for i, j in graph.edges if i == 0 and j > 1]
    width = min(below, default=graph.n)
    return graph.n // width if graph.n % width == 0 else 1
