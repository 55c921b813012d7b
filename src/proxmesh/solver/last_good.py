"""Keep one earlier state of a run, in memory while it is small, else in a file."""

import dataclasses
import tempfile
from typing import Any, final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

__all__ = ["LastGood"]

IN_MEMORY_UP_TO = 64 * 2**20  # bytes; a file of this size is written in a moment


@final
class LastGood:
    """The last state that was evaluated and found finite, for a replay.

    A state may be the largest thing in the process; a third copy of it (beside the one
    that a step reads and the one that it makes) is better kept in a temporary file.
    """

    def __init__(self) -> None:
        self._state: Any = None
        self._file: Any = None

    def keep(self, state: Any) -> None:
        """Remember this state instead of the one before."""
        tensors = _tensors_of(state)
        size = sum(t.numel() * t.element_size() for t in tensors.values())
        if size <= IN_MEMORY_UP_TO:
            self._state = state
            return
        if self._file is None:
            self._file = tempfile.NamedTemporaryFile(suffix=".safetensors")  # noqa: SIM115
        self._state = (type(state), state.x.device)
        save_file(tensors, self._file.name)

    def get(self) -> Any:
        """Return the remembered state."""
        if self._file is None:
            return self._state
        kind, device = self._state
        tensors = load_file(self._file.name)
        places = {
            name: device if value.ndim else torch.device("cpu")
            for name, value in tensors.items()
        }
        return kind(**{name: v.to(places[name]) for name, v in tensors.items()})


def _tensors_of(state: Any) -> dict[str, Tensor]:
    """The fields of a state that is a dataclass of tensors; else nothing to store."""
    if not dataclasses.is_dataclass(state):
        return {}
    found = {f.name: getattr(state, f.name) for f in dataclasses.fields(state)}
    return found if all(isinstance(v, Tensor) for v in found.values()) else {}
