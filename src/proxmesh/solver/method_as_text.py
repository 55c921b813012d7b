"""A method and its constants as plain values, and back."""

import dataclasses
import math
import typing
from collections.abc import Mapping
from types import NoneType
from typing import Any

from proxmesh.algorithms.registry import ALGORITHMS
from proxmesh.compressors import Known
from proxmesh.construct import construct
from proxmesh.errors import InputError, unknown
from proxmesh.schedules import Constant, Power
from proxmesh.types import Algorithm

__all__ = ["as_written", "from_written"]

SCHEDULES: Mapping[str, type[Constant | Power]] = {"constant": Constant, "power": Power}
COMPRESSORS: Mapping[Any, type[Any]] = {k().kind: k for k in typing.get_args(Known)}
PLAIN = (bool, int, float, str, dict, NoneType)


def as_written(algorithm: Algorithm[Any]) -> dict[str, Any]:
    """Its name and every option; of a method that is not ours, how it calls itself.

    Examples
    --------
    >>> from proxmesh import DSGT
    >>> as_written(DSGT(alpha=0.1))
    {'name': 'dsgt', 'options': {'alpha': 0.1}}
    """
    for name, method in ALGORITHMS.items():
        if type(algorithm) is method.kind and dataclasses.is_dataclass(algorithm):
            options = {
                f.name: _plain(getattr(algorithm, f.name))
                for f in dataclasses.fields(algorithm)
            }
            if not all(isinstance(value, PLAIN) for value in options.values()):
                break  # an object of the user's own, such as a compressor
            if all(options[key] == value for key, value in method.fixed.items()):
                return {"name": name, "options": options}
    return {"name": None, "options": {}, "repr": repr(algorithm)}


def from_written(tree: Mapping[str, Any]) -> Algorithm[Any] | None:
    """The method that was written down; None for one that is not ours.

    Examples
    --------
    >>> from_written({"name": "dsgt", "options": {"alpha": 0.1}})
    DSGT(alpha=0.1)
    """
    name = tree.get("name")
    if name is None:
        return None
    if name not in ALGORITHMS:
        raise unknown("algorithm", str(name)[:80], ALGORITHMS)
    options = tree.get("options")
    if not isinstance(options, Mapping):
        raise InputError(f"algorithm `{name}`: `options` must be a table.")
    given = {str(key): _made(value) for key, value in options.items()}
    found: Algorithm[Any] = construct(
        f"algorithm `{name}`", ALGORITHMS[name].kind, given
    )
    return found


def _plain(value: Any) -> Any:
    for name, kind in SCHEDULES.items():
        if isinstance(value, kind):
            fields = dataclasses.asdict(value)
            finite = {k: v for k, v in fields.items() if math.isfinite(v)}
            return {"schedule": name, **finite}
    return dataclasses.asdict(value) if isinstance(value, Known) else value


def _made(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    fields = dict(value)
    if fields.get("kind") in COMPRESSORS:
        return construct("compressor", COMPRESSORS[fields["kind"]], fields)
    kind = SCHEDULES.get(str(fields.pop("schedule", None)))
    if kind is None or not all(isinstance(v, int | float) for v in fields.values()):
        raise InputError(f"`{str(value)[:80]}` is not a schedule.")
    try:
        return kind(**fields)
    except TypeError as error:
        raise InputError(f"`{str(value)[:80]}` is not a schedule.") from error
