"""A config as text."""

from collections.abc import Mapping
from typing import Any

import tomli_w

__all__ = ["config_as_text", "without_empty"]


def config_as_text(config: Mapping[str, Any]) -> str:
    """The config in TOML.

    Examples
    --------
    >>> print(config_as_text({"seed": 0, "graph": {"name": "star", "agents": None}}))
    seed = 0
    <BLANKLINE>
    [graph]
    name = "star"
    <BLANKLINE>
    """
    return tomli_w.dumps(without_empty(config))


def without_empty(config: Mapping[str, Any]) -> dict[str, Any]:
    """Drop what TOML cannot say: keys without a value.

    Examples
    --------
    >>> without_empty({"seed": 0, "run": {"target": {}, "steps": 5, "monitor": None}})
    {'seed': 0, 'run': {'steps': 5}}
    """
    return {
        key: without_empty(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if value is not None and value not in ({}, [])
    }
