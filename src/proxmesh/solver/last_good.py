"""Keep one earlier state of a run, in memory while it is small, else in a file."""

import tempfile
from typing import Any, final

from proxmesh.solver.state import load, save, size_in_bytes

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
        if size_in_bytes(state) <= IN_MEMORY_UP_TO:
            self._state = state
            return
        if self._file is None:
            self._file = tempfile.NamedTemporaryFile(suffix=".safetensors")  # noqa: SIM115
        self._state = (type(state), state.x.device)
        save(state, self._file.name)

    def get(self) -> Any:
        """Return the remembered state."""
        if self._file is None:
            return self._state
        kind, device = self._state
        return load(kind, self._file.name, device)
