"""Checks that every algorithm makes once, at construction and in `init`."""

import math

from torch import Tensor

from proxmesh.errors import InputError
from proxmesh.types import Network

__all__ = ["require_fit", "require_positive", "require_whole"]


def require_positive(who: str, **values: float) -> None:
    """Refuse hyperparameters that are not positive and finite."""
    for name, value in values.items():
        if not (_is_number(value) and math.isfinite(value) and value > 0):
            raise InputError(
                f"{who}: `{name}` must be positive and finite, got {value}."
            )


def require_whole(who: str, at_least: int, **values: int | None) -> None:
    """Refuse counts that are not whole numbers from `at_least` on; None is fine."""
    for name, value in values.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise InputError(
                f"{who}: `{name}` must be a whole number of at least {at_least}, "
                f"got {value}."
            )


def require_fit(x0: Tensor, network: Network) -> None:
    """Refuse initial rows that do not belong to this network."""
    rows, dtype = len(network.degree), network.degree.dtype
    if x0.ndim != 2 or len(x0) != rows:
        raise InputError(
            f"`x0` has shape {tuple(x0.shape)} but this process holds {rows} agents; "
            f"expected ({rows}, p)."
        )
    if x0.dtype != dtype or x0.device != network.degree.device:
        raise InputError(
            f"`x0` is {x0.dtype} on {x0.device} but the network is {dtype} on "
            f"{network.degree.device}. Use `connect(graph, dtype=x0.dtype, "
            f"device=x0.device)`."
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
