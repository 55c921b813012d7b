"""Checks, made first, that what a problem is built of is what it should be."""

from collections.abc import Sized
from typing import Any

import numpy as np
from torch import Tensor, nn

from proxmesh.errors import InputError, shortened

__all__ = ["require_given"]

WHO = "LearningProblem"


def require_given(loss: Any, shards: Any) -> None:
    """Refuse a loss that is a name, and data that is not dealt out.

    Parameters
    ----------
    loss
        What is called as ``loss(outputs, targets)``.
    shards
        One per agent.

    Examples
    --------
    >>> require_given("cross_entropy", [])
    Traceback (most recent call last):
    proxmesh.errors.InputError: LearningProblem: `loss` must be a function ...
    """
    _require_loss(loss)
    _require_shards(shards)


def _require_loss(loss: Any) -> None:
    if isinstance(loss, type):
        raise InputError(
            f"{WHO}: `loss` `{loss.__name__}` is a class. Build it: "
            f"`{loss.__name__}()`."
        )
    if not callable(loss):
        known = isinstance(loss, str) and loss in vars(nn.functional)
        name = loss if known else "cross_entropy"
        raise InputError(
            f"{WHO}: `loss` must be a function of outputs and targets, got "
            f"{shortened(loss, write=repr)}. Use `torch.nn.functional.{name}`."
        )


def _require_shards(shards: Any) -> None:
    """Refuse one data set in place of one per agent."""
    is_list = isinstance(shards, tuple | list)
    arrays = is_list and any(isinstance(part, Tensor | np.ndarray) for part in shards)
    if arrays or isinstance(shards, Tensor | np.ndarray):
        raise InputError(
            f"{WHO}: `shards` must have one pair (inputs, targets) per agent, got "
            f"{'arrays' if arrays else 'an array'}: deal the data out, with "
            "`data.split(n)` or as a list of pairs."
        )
    if not (callable(shards) or isinstance(shards, Sized)):
        raise InputError(
            f"{WHO}: `shards` must have one pair (inputs, targets) per agent, got "
            f"{type(shards).__name__}. Use `data.split(n)` or a list of pairs."
        )
