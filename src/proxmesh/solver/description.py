"""A run that a program made, in words: what can be written down is written."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from proxmesh.errors import shortened
from proxmesh.graphs import Graph
from proxmesh.solver.checkpoint import fingerprint
from proxmesh.solver.method_as_text import as_written
from proxmesh.solver.reading import MADE_IN_PYTHON
from proxmesh.solver.settings import Hooks, Settings
from proxmesh.theory import Settled
from proxmesh.types import Algorithm, Problem, facts_of

__all__ = ["described"]

MOST_EDGES = 20_000  # written out one by one
LONGEST = 20_000  # characters of a model's layers


def described(
    problem: Problem,
    graph: Graph,
    *,
    settings: Settings,
    hooks: Hooks,
    settled: Settled,
) -> dict[str, Any]:
    """The sections of a config, as far as objects tell what they are.

    It holds what is needed to read and compare runs, not what is needed to build the
    problem again: that is in the program.
    """
    known = facts_of(problem)
    edges = " ".join(f"{i}-{j}" for i, j in graph.edges)
    if len(graph.edges) > MOST_EDGES:
        edges = f"sha256 {fingerprint(graph.edges)}"
    penalty = None if known.regularizer is None else shortened(known.regularizer, 200)
    return {
        "seed": known.seed or 0,
        "algorithm": _method(settled.algorithm),
        "graph": {"name": graph.name, "agents": graph.n, "edges": edges},
        "data": {"sample_shape": _as_lists(known.sample_shape)},
        "model": {
            "name": _first_word(known.architecture),
            "parameters": known.p,
            "init": hooks.init,
            "layers": _cut(known.architecture),
        },
        "regularizer": {"name": penalty},
        "run": {
            **settings.changed(eval_every=settings.every).model_dump(by_alias=True),
            "batch": known.batch_size,
            "dtype": _plain(known.dtype),
            "device": _plain(known.device),
            "automatic": list(settled.automatic),
        },
        MADE_IN_PYTHON: {
            "problem": shortened(problem, 500, write=repr),
            "algorithm": shortened(settled.algorithm, 500, write=repr),
        },
    }


def _method(algorithm: Algorithm[Any]) -> dict[str, Any]:
    """Its name and values; of a class that is not ours, those that are plain."""
    written = as_written(algorithm)
    if written["name"] is not None:
        return {"name": written["name"], **written["options"]}
    values: Mapping[str, Any] = {}
    if dataclasses.is_dataclass(algorithm) and not isinstance(algorithm, type):
        values = {
            name: value
            for name, value in dataclasses.asdict(algorithm).items()
            if isinstance(value, bool | int | float | str | dict)
        }
    return {**values, "name": type(algorithm).__name__}


def _as_lists(shapes: Any) -> str | None:
    return None if shapes is None else shortened(shapes, 500)


def _plain(thing: Any) -> str | None:
    return None if thing is None else str(thing).removeprefix("torch.")


def _first_word(architecture: str | None) -> str | None:
    return None if architecture is None else architecture.partition("(")[0].strip()


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]} ... sha256 {fingerprint(text)}"
