"""The tasks of `fig-untuned`: data, models and graphs of several kinds."""

from collections.abc import Mapping
from typing import Any

__all__ = ["TASKS"]

A9A = {"data.name": "a9a", "model.name": "mlp", "run.batch": 64}
LOGISTIC = {**A9A, "model.name": "logistic"}
DIRICHLET = {"data.split": "dirichlet", "data.alpha": 0.1}


def _on(graph: str, agents: int) -> dict[str, Any]:
    return {"graph.name": graph, "graph.agents": agents, "regularizer.weight": 1e-4}


TASKS: Mapping[str, Mapping[str, Any]] = {
    "a9a/MLP ring 8": {**A9A, **_on("ring", 8)},
    "a9a/MLP star 32": {**A9A, **_on("star", 32)},
    "a9a/MLP barabasi-albert 24": {**A9A, **_on("barabasi-albert", 24)},
    "a9a/MLP path 8": {**A9A, **_on("path", 8)},
    "a9a/MLP ring 8, by label": {**A9A, **_on("ring", 8), "data.split": "by-label"},
    "a9a/MLP ring 8, Dirichlet .1": {**A9A, **_on("ring", 8), **DIRICHLET},
    "a9a/logistic ring 8": {**LOGISTIC, **_on("ring", 8)},
    "a9a/logistic star 16": {**LOGISTIC, **_on("star", 16)},
    "digits/MLP random-8": {**A9A, "data.name": "digits", **_on("random-8", 8)},
    "breast-cancer/logistic path 6": {
        **LOGISTIC,
        "data.name": "breast-cancer",
        **_on("path", 6),
    },
    "MNIST/LeNet random-8": {
        "data.name": "mnist",
        "model.name": "lenet",
        "run.batch": 32,
        **_on("random-8", 8),
    },
}
"""Dotted keys of a config by the name of the task."""
