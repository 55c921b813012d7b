"""What a distributed engine must be able to do; everything else is shared."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from torch import Tensor

__all__ = ["Link", "Pending", "Transport"]


class Pending(Protocol):
    """Something under way; the buffers belong to it until it is there."""

    def wait(self, seconds: float) -> None:
        """Wait until it is there.

        Raises `TimeoutError` when the time is up and `ConnectionError` when somebody
        is known to be gone.
        """
        ...


class Link(Protocol):
    """The way to the ranks that hold neighbors of our agents."""

    def start(self, sends: Sequence[Tensor], receives: Sequence[Tensor]) -> Pending:
        """Start one message to and one from each peer, in the order of the peers."""
        ...


class Transport(Protocol):
    """One process among several."""

    name: str
    rank: int
    size: int
    local_size: int  # processes on this machine
    epoch: int  # of the notes that count: one after another run in one process

    def link(self, peers: Sequence[int]) -> Link:
        """Make ready to exchange rows with these ranks; every rank calls it."""
        ...

    def reduce(self, x: Tensor, op: Literal["sum", "min", "max"]) -> Pending:
        """Start to replace x by its reduction over all ranks; every rank calls it."""
        ...

    def post(self, note: str) -> None:
        """Leave a note for all other ranks, without waiting for any of them."""
        ...

    def hang_up(self) -> None:
        """Close connections, so that whoever waits for us learns of it at once."""
        ...

    def notes(self) -> Mapping[int, str]:
        """The notes of other ranks that have arrived so far."""
        ...
