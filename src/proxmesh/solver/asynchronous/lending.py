"""Reductions that wait without the turn, so that their rank goes on stepping."""

from collections.abc import Mapping, Sequence
from typing import Any, final

from torch import Tensor

from proxmesh.network.transport import Link, Pending, RankReduction, Transport
from proxmesh.solver.asynchronous.turns import Turns

__all__ = ["LendingTransport"]


@final
class _Lending:
    """A reduction that gives the turn back while it is waited for."""

    def __init__(self, pending: Pending, turns: Turns) -> None:
        self._pending = pending
        self._turns = turns

    def wait(self, seconds: float) -> None:
        with self._turns.given_back():
            self._pending.wait(seconds)


@final
class LendingTransport:
    """A transport whose reductions are waited for by the thread that records.

    Parameters
    ----------
    transport
        Of the engine.
    turns
        Who computes.
    """

    def __init__(self, transport: Transport, turns: Turns) -> None:
        self._transport = transport
        self._turns = turns
        self.name, self.local_size = transport.name, transport.local_size
        self.rank, self.size = transport.rank, transport.size
        self.epoch = transport.epoch

    def reduce(self, x: Tensor, op: RankReduction) -> _Lending:
        """Start it; while it is waited for, the CPU is left to who steps."""
        pending: Any = self._transport.reduce(x, op)
        if self.name == "mpi":
            pending.gentle = True
        return _Lending(pending, self._turns)

    def link(self, peers: Sequence[int]) -> Link:
        """As the transport does."""
        return self._transport.link(peers)

    def post(self, note: str) -> None:
        """As the transport does."""
        self._transport.post(note)

    def hang_up(self) -> None:
        """As the transport does."""
        self._transport.hang_up()

    def notes(self) -> Mapping[int, str]:
        """As the transport does."""
        return self._transport.notes()
