"""The module and the network that the parameters of an estimator describe."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import networkx as nx
import torch
from torch import nn

from proxmesh.errors import InputError, shortened, unknown
from proxmesh.graphs import Graph, as_graph, make
from proxmesh.problems import models
from proxmesh.problems.fit_check import name_of

__all__ = ["PREFIX", "READY", "module_of", "network_of"]

PREFIX = "module__"
"""How the parameters of a model begin, as users of skorch know it."""

READY: Mapping[str, Callable[..., nn.Module]] = {
    "linear": models.logistic,
    "mlp": models.mlp,
}
"""Models by name: they take the columns of X as they come."""

AGENTS = 8  # where neither `agents` nor the graph says how many


def module_of(
    who: str,
    model: Any,
    parameters: Mapping[str, Any],
    *,
    features: int,
    outputs: int,
    dtype: torch.dtype,
) -> nn.Module:
    """The module that is trained.

    Parameters
    ----------
    who
        The estimator, for messages.
    model
        A module, what makes one, or a name of `READY`.
    parameters
        What it is made with.
    features, outputs
        Columns of the inputs and of what it puts out, for a maker that asks for
        ``features``, and for ``outputs`` or ``classes``.
    dtype
        The precision of a ready model; others have their own.

    Examples
    --------
    >>> double = torch.float64
    >>> module_of("me", "mlp", {"hidden": 3}, features=2, outputs=1, dtype=double)[1]
    SparseLinear(in_features=2, out_features=3, bias=True)
    """
    if isinstance(model, nn.Module):
        for name in parameters:
            raise InputError(
                f"{who}: `{PREFIX}{name}` is given, but `model` is a "
                f"{type(model).__name__} that is built already. Give its class, or a "
                "function that builds it."
            )
        return model
    if isinstance(model, str) and model not in READY:
        raise unknown("model", model, READY, of=who)
    maker = READY[model] if isinstance(model, str) else model
    if not callable(maker):
        raise InputError(
            f"{who}: `model` must be a module, a class or function that makes one, or "
            f"one of {', '.join(READY)}; got {shortened(model, write=repr)}."
        )
    made = _made(who, maker, parameters, features, outputs)
    if not isinstance(made, nn.Module):
        raise InputError(
            f"{who}: `model` must make an `nn.Module`, got {type(made).__name__}."
        )
    return made.to(dtype) if isinstance(model, str) else made


def _made(
    who: str,
    maker: Callable[..., Any],
    parameters: Mapping[str, Any],
    features: int,
    outputs: int,
) -> Any:
    """Call a maker with what was given, and with the sizes that it asks for."""
    accepted = inspect.signature(maker).parameters
    sizes = {"features": features, "outputs": outputs, "classes": outputs}
    known = {name: size for name, size in sizes.items() if name in accepted}
    given = {**known, **parameters}
    try:
        inspect.signature(maker).bind(**given)
    except TypeError as error:
        takes = ", ".join(f"{PREFIX}{name}" for name in accepted if name not in known)
        raise InputError(
            f"{who}: model `{name_of(maker)}`: {error}. It takes {takes or 'none'}."
        ) from error
    return maker(**given)


def network_of(
    who: str, graph: "str | Graph | nx.Graph[Any]", agents: int | None
) -> Graph:
    """The graph that is given, or the one of this name.

    Parameters
    ----------
    who
        The estimator, for messages.
    graph
        A graph, one of networkx, or a name.
    agents
        How many; None: as the graph has, or 8.

    Examples
    --------
    >>> network_of("me", "star", 3).degrees.tolist()
    [2, 1, 1]
    """
    if isinstance(graph, str):
        return make(graph, AGENTS if agents is None else agents)
    found = as_graph(graph)
    if agents not in {None, found.n}:
        raise InputError(
            f"{who}: `agents` is {shortened(agents)}, but the graph `{found}` has "
            f"{found.n}. Leave `agents` out."
        )
    return found
