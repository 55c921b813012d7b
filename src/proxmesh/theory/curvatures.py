"""What `certify` is told of the losses, checked; and numbers as it tells them."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np

from proxmesh.errors import InputError
from proxmesh.theory.smoothness import Smoothness
from proxmesh.theory.spectra import Vector

__all__ = ["curvatures", "rounded_down", "rounded_up"]

STEEPEST = 1e100  # curvature beyond which the arithmetic overflows


def curvatures(smoothness: Any, curvature: Any, n: int) -> tuple[Vector, Vector]:
    """Largest and lowest curvature of every agent's loss, checked."""
    if isinstance(smoothness, Smoothness):
        upper = _per_agent("smoothness", smoothness.upper, n)
        below = smoothness.lower if curvature is None else curvature
    else:
        upper = _per_agent("smoothness", smoothness, n)
        below = 0.0 if curvature is None else curvature
    if (upper < 0).any():
        raise InputError(
            f"certify: `smoothness` must not be negative, got {upper.min():g}."
        )
    if upper.max() > STEEPEST:
        raise InputError(
            f"certify: `smoothness` must be at most {STEEPEST:g}, got {upper.max():g}."
        )
    return upper, np.minimum(_per_agent("curvature", below, n), upper)


def _per_agent(name: str, values: Any, n: int) -> Vector:
    """One number for each agent, from one for all or one each."""
    given = np.asarray(values, float).reshape(-1)
    if given.size not in {1, n}:
        raise InputError(
            f"certify: `{name}` has {given.size} values, but the graph has {n} agents. "
            "Give one number, or one per agent."
        )
    if not np.isfinite(given).all():
        raise InputError(f"certify: `{name}` must be finite, got {given.max():g}.")
    return np.broadcast_to(given, (n,)).astype(float)


def rounded_up(value: float) -> float:
    """At least this much, with four digits and a hair to spare."""
    return _rounded(value * (1 + 1e-9), ROUND_CEILING)


def rounded_down(value: float) -> float:
    """At most this much, likewise."""
    return _rounded(value * (1 - 1e-9), ROUND_FLOOR)


def _rounded(value: float, how: str) -> float:
    exact = Decimal(value)
    last = Decimal(1).scaleb(exact.adjusted() - 3)
    return float(exact.quantize(last, how))
