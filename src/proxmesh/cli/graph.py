"""`proxmesh graph`: describe and draw a topology."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxmesh.cli.console import console
from proxmesh.errors import InputError, shortened

if TYPE_CHECKING:
    from proxmesh.graphs import Graph

__all__ = ["graph"]

LARGE = 2000  # agents from which on a search from each of them takes too long


def graph(
    name: Annotated[str | None, typer.Argument(help="Topology or edge file.")] = None,
    graph: Annotated[str | None, typer.Option(help="The same as NAME [ring].")] = None,
    agents: Annotated[int | None, typer.Option(help="Number of agents [8].")] = None,
    seed: Annotated[int | None, typer.Option(help="For random topologies [0].")] = None,
    set: Annotated[
        list[str] | None, typer.Option(help="Options, such as graph.prob=0.3.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Draw it to this .png, .svg or .pdf.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the picture in --out.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Describe and draw a topology; without a name, list all topologies."""
    from proxmesh.graphs import CONSTRUCTORS
    from proxmesh.runs.build import build_graph
    from proxmesh.runs.config import load_config

    if name and graph and name != graph:
        raise InputError(f"`{name}` and `--graph {graph}` differ. Give only one.")
    chosen = name or graph
    if chosen is None and not (agents or set or out):
        for known, build in sorted(CONSTRUCTORS.items()):
            first = (build.__doc__ or "").splitlines()[0]
            console.print(f"{known:16}  {first.removeprefix('Return ')}")
        return
    if out and os.path.lexists(out) and not force:
        raise InputError(
            f"picture `{shortened(out)}` exists already. Choose another name, or "
            "overwrite it with `--force`."
        )
    flags = {"graph.name": chosen, "graph.agents": agents, "seed": seed}
    built = build_graph(load_config(None, flags, set or []))
    if out:
        from proxmesh.report.figures import draw_graph

        draw_graph(built, Path(out))
    facts = _facts(built)
    if as_json:
        console.print_json(json.dumps(facts))
    else:
        for key, value in facts.items():
            text = f"{value:.6g}" if isinstance(value, float) else value
            console.print(f"{key:24}  {text}", markup=False)
        if out:
            console.print(f"drawn to {out}", markup=False)


def _facts(graph: "Graph") -> dict[str, str | int | float]:
    degrees = graph.degrees
    mean = float(degrees.mean())
    return {
        "graph": str(graph),
        "agents": graph.n,
        "edges": len(graph.edges),
        "smallest degree": int(degrees.min()),
        "mean degree": mean,
        "largest degree": graph.max_degree,
        "(d_max + 1) / (mean + 1)": (graph.max_degree + 1) / (mean + 1),
        **_diameter(graph),
        "algebraic connectivity": graph.algebraic_connectivity,
        "second eigenvalue of W": graph.mixing_lambda,
        "spectral gap of W": 1 - graph.mixing_lambda,
    }


def _diameter(graph: "Graph") -> dict[str, str | int | float]:
    """The longest way between two agents; of a large graph a way that is found soon."""
    import networkx as nx

    linked = graph.to_networkx()
    if graph.n <= LARGE:
        return {"diameter": nx.diameter(linked)}
    return {"diameter, at least": nx.approximation.diameter(linked)}
