"""Step sizes as functions of the iteration k, which counts from 1.

Wherever a method takes a step size, a plain number is a constant and a schedule changes
with k.

Examples
--------
>>> from proxmesh import DPSGD
>>> DPSGD(alpha=power(0.5, -0.5)).alpha(4)  # 0.5 / sqrt(4)
0.25
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from proxmesh.errors import InputError

__all__ = ["Constant", "Power", "Schedule", "Step", "constant", "power", "scheduled"]


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value at every k.

    Parameters
    ----------
    value
        The step size.

    Examples
    --------
    >>> Constant(0.1)(1), Constant(0.1)(1000)
    (0.1, 0.1)
    """

    value: float

    def __call__(self, k: int | Tensor) -> float:
        """Return the value."""
        del k
        return self.value


@dataclass(frozen=True, slots=True)
class Power:
    """``min(ceiling, coefficient (k + offset)^exponent)``.

    It is computed in float64 when k is a tensor.

    Parameters
    ----------
    coefficient
        The value where ``k + offset`` is 1, unless the ceiling is lower.
    exponent
        Negative for a step that shrinks, positive for one that grows.
    offset
        Added to k; a larger one starts later on the same curve.
    ceiling
        The largest value ever returned; without it there is none.

    Examples
    --------
    >>> Power(0.25, 1 / 3)(8)
    0.5
    >>> Power(2.0, -2 / 3, ceiling=1.0)(1)
    1.0
    """

    coefficient: float
    exponent: float
    offset: int = 0
    ceiling: float = math.inf

    def __call__(self, k: int | Tensor) -> Tensor | float:
        """Return the value at k: a float for an int, a 0-d tensor for a tensor."""
        if isinstance(k, Tensor):
            shifted = (k + self.offset).to(torch.float64)
            value = self.coefficient * shifted.pow(self.exponent)
            return value if math.isinf(self.ceiling) else value.clamp(max=self.ceiling)
        base = k + self.offset
        power = math.inf if base == 0 > self.exponent else math.pow(base, self.exponent)
        return min(self.ceiling, self.coefficient * power)


Schedule: TypeAlias = Constant | Power
Step: TypeAlias = float | Constant | Power
"""A step size as users give it: a plain number is a constant."""


def scheduled(step: Step) -> Schedule:
    """Return the schedule of a step size.

    Parameters
    ----------
    step
        A number, which becomes a `Constant`, or a schedule, which stays as it is.

    Examples
    --------
    >>> scheduled(0.1)(7)
    0.1
    >>> scheduled(power(0.5, -1.0))(2)
    0.25
    """
    return Constant(float(step)) if isinstance(step, int | float) else step


def constant(value: float) -> Constant:
    """Return the schedule that is `value` at every k.

    Parameters
    ----------
    value
        Any finite number.

    Examples
    --------
    >>> constant(0.1)(7)
    0.1
    """
    return Constant(_finite("constant", "value", value))


def power(coefficient: float, exponent: float, offset: int = 0) -> Power:
    """Return the schedule ``coefficient * (k + offset)**exponent``.

    Parameters
    ----------
    coefficient, exponent
        Finite numbers; a negative exponent makes the step shrink.
    offset
        Added to k.

    Examples
    --------
    >>> power(1.25, -0.5)(4)
    0.625
    """
    return Power(
        _finite("power", "coefficient", coefficient),
        _finite("power", "exponent", exponent),
        offset,
    )


def _finite(who: str, name: str, value: float) -> float:
    if not math.isfinite(value):
        raise InputError(f"schedules.{who}: `{name}` must be finite, got {value}.")
    return float(value)
