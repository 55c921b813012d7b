"""Checks of the numbers that users give, made once where they come in.

Each takes `who` complains (empty: nobody is named) and the values by name, and raises
an `InputError` for the first that is wrong.
"""

import math
import operator
from typing import Any

from proxmesh.errors import InputError, shortened

__all__ = [
    "require_nonnegative",
    "require_positive",
    "require_step",
    "require_whole",
]


def require_positive(who: str, **values: Any) -> None:
    """Refuse numbers that are not positive and finite.

    Examples
    --------
    >>> require_positive("HSMADMM", c_rho=-0.1)
    Traceback (most recent call last):
    proxmesh.errors.InputError: HSMADMM: `c_rho` must be positive and finite, got -0.1.
    """
    for name, value in values.items():
        if not (_is_finite(value) and value > 0):
            raise _refusal(who, name, "positive and finite", value)


def require_nonnegative(who: str, **values: Any) -> None:
    """Refuse numbers that are negative or not finite.

    Examples
    --------
    >>> require_nonnegative("L1", weight=-1)
    Traceback (most recent call last):
    proxmesh.errors.InputError: L1: `weight` must be finite and not negative, got -1.
    """
    for name, value in values.items():
        if not (_is_finite(value) and value >= 0):
            raise _refusal(who, name, "finite and not negative", value)


def require_step(who: str, **values: Any) -> None:
    """Refuse a step size that is neither a positive number nor a schedule.

    Examples
    --------
    >>> require_step("DSGT", alpha=0)
    Traceback (most recent call last):
    proxmesh.errors.InputError: DSGT: `alpha` must be positive and finite, got 0.
    """
    for name, value in values.items():
        if not callable(value):
            require_positive(who, **{name: value})


def require_whole(who: str, at_least: int, **values: Any) -> None:
    """Refuse anything but a whole number of at least `at_least`; None is fine.

    Examples
    --------
    >>> require_whole("", 1, steps=0.5, eval_every=None)
    Traceback (most recent call last):
    proxmesh.errors.InputError: `steps` must be a whole number of at least 1, got 0.5.
    """
    for name, value in values.items():
        if value is not None and not _is_whole(value, at_least):
            raise _refusal(who, name, f"a whole number of at least {at_least}", value)


def _is_finite(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def _is_whole(value: Any, at_least: int) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value) >= at_least
    except TypeError:
        return False


def _refusal(who: str, name: str, needed: str, value: Any) -> InputError:
    place = f"{who}: " if who else ""
    shown = shortened(value, write=repr if isinstance(value, str) else str)
    return InputError(f"{place}`{name}` must be {needed}, got {shown}.")
