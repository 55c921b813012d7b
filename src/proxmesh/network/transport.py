"""What a distributed engine must be able to do; `blocks` does the rest for all."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from torch import Tensor

__all__ = ["NOTE_BYTES", "Link", "Pending", "RankReduction", "Transport"]

NOTE_BYTES = 1024  # a note is never longer; nothing that is sent is ever unpickled

RankReduction: TypeAlias = Literal["sum", "min", "max"]


class Pending(Protocol):
    """A transfer under way; its buffers must not be touched until it has arrived."""

    def wait(self, seconds: float) -> None:
        """Wait until it has arrived.

        Raises `TimeoutError` when the time is up and `ConnectionError` when a rank is
        known to be gone.
        """
        ...


class Link(Protocol):
    """The connection to the ranks that hold neighbors of our agents."""

    def start(self, sends: Sequence[Tensor], receives: Sequence[Tensor]) -> Pending:
        """Start one message to and one from each peer, in the order of the peers."""
        ...


class Transport(Protocol):
    """One process among several, as the engines `mpi` and `torch` implement it."""

    name: str
    rank: int
    size: int
    local_size: int  # processes on this machine
    epoch: int  # number of the current run in this process: older notes do not count

    def link(self, peers: Sequence[int]) -> Link:
        """Prepare to exchange rows with these ranks; every rank calls it."""
        ...

    def reduce(self, x: Tensor, op: RankReduction) -> Pending:
        """Start to replace x by its reduction over all ranks; every rank calls it."""
        ...

    def post(self, note: str) -> None:
        """Leave a note for all other ranks, without waiting for any of them."""
        ...

    def hang_up(self) -> None:
        """Close connections, so that ranks that wait for us notice at once."""
        ...

    def notes(self) -> Mapping[int, str]:
        """The notes of other ranks that have arrived so far."""
        ...
