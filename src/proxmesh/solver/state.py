"""A state is a record of tensors: how to list, rebuild, measure, save and load it.

Every method has a state of its own, a frozen dataclass whose fields are tensors: `k`,
`x` and whatever else it remembers. Nothing outside this file and the method itself
knows the names of these fields.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from proxmesh.types import BY_EDGE, tells_state

__all__ = [
    "STATE",
    "at_iteration",
    "is_record",
    "load",
    "reader",
    "rebuilt",
    "rows_of",
    "save",
    "size_in_bytes",
    "state_of",
    "tensors_of",
]

STATE = "state.safetensors"  # in a folder that `Result.save` has written

S = TypeVar("S")


def is_record(state: Any) -> bool:
    """Whether a state is a dataclass of nothing but tensors, as ours are.

    Examples
    --------
    >>> from proxmesh.solver.compile_gradients import One
    >>> is_record(One(torch.tensor(0), torch.zeros(2, 3))), is_record(3)
    (True, False)
    """
    return dataclasses.is_dataclass(state) and all(
        isinstance(value, Tensor) for value in _fields(state).values()
    )


def tensors_of(state: Any) -> dict[str, Tensor]:
    """Every tensor of a state by its name, in the order of the fields."""
    return {n: v for n, v in _fields(state).items() if isinstance(v, Tensor)}


def rows_of(state: Any) -> dict[str, Tensor]:
    """The tensors that have a row for each agent, floating point ones."""
    return {
        name: value
        for name, value in tensors_of(state).items()
        if value.is_floating_point() and value.ndim > 1 and not name.endswith(BY_EDGE)
    }


def reader(names: Sequence[str]) -> Callable[[Any], tuple[Tensor, ...]]:
    """A quick way to read these tensors off one state after another."""
    read: Any = attrgetter(*names)
    return read if len(names) > 1 else lambda state: (read(state),)


def rebuilt(kind: type[S], tensors: Mapping[str, Tensor]) -> S:
    """A state of this kind from its tensors."""
    return kind(**tensors)


def at_iteration(state: S, k: Tensor) -> S:
    """The same state, as if it were that of iteration k."""
    found: Any = dataclasses.replace(state, k=k)  # type: ignore[type-var]
    return found  # type: ignore[no-any-return]


def size_in_bytes(state: Any) -> int:
    """What the tensors of a state take; 0 for a state that is no record."""
    if not is_record(state):
        return 0
    return sum(t.numel() * t.element_size() for t in tensors_of(state).values())


def state_of(algorithm: Any) -> type[Any] | None:
    """The kind of state that a method says it makes; None if it does not say.

    Examples
    --------
    >>> from proxmesh import DSGT
    >>> state_of(DSGT(alpha=0.1)).__name__
    'DSGTState'
    """
    if tells_state(algorithm):
        return algorithm.state_kind
    try:
        kind = get_type_hints(type(algorithm).init).get("return")
    except (AttributeError, NameError, TypeError):
        return None
    return kind if isinstance(kind, type) and dataclasses.is_dataclass(kind) else None


def save(state: Any, file: str | Path) -> None:
    """Write the tensors of a record to a safetensors file."""
    kept: dict[str, Tensor] = {}
    for name, value in tensors_of(state).items():
        own = value.detach().cpu().contiguous()
        shared = any(own.data_ptr() == other.data_ptr() for other in kept.values())
        kept[name] = own.clone() if shared else own  # at the start fields may be one
    save_file(kept, str(file))


def load(kind: type[S], file: str | Path, device: torch.device) -> S:
    """Read a state of this kind; its rows go to the device, counters stay here."""
    tensors = {
        name: value.to(device) if value.ndim else value
        for name, value in load_file(str(file)).items()
    }
    return rebuilt(kind, tensors)


def _fields(state: Any) -> dict[str, Any]:
    """The fields of a dataclass; of any other state, the rows that it must have."""
    if not dataclasses.is_dataclass(state):
        return {"x": state.x} if hasattr(state, "x") else {}
    return {f.name: getattr(state, f.name) for f in dataclasses.fields(state)}
