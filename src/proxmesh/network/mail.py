"""Messages between ranks that nobody waits for: of each peer, the newest counts."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, final

import torch
from torch import Tensor

from proxmesh.network.blocks import BlockWorld

__all__ = ["CLOSING", "Inbox", "Mail", "mail_of", "packed", "unpacked"]

HEAD = 2  # clock and run, before the rows
CLOSING = -1  # a clock that says: this was the last message


class Mail(Protocol):
    """What an engine does for a run without waiting."""

    def send(self, peer: int, message: Tensor) -> None:
        """Send as soon as the one before is gone; of those that wait, the newest."""
        ...

    def close(self, seconds: float) -> None:
        """Tell every peer that this is the end, and hear it from every peer."""
        ...


@final
class Inbox:
    """The newest message of each peer that nobody has taken yet.

    Parameters
    ----------
    changed
        Is notified when something has come.

    Examples
    --------
    >>> inbox = Inbox(threading.Condition())
    >>> inbox.put(1, packed(4, 0, torch.zeros(1, 2)))
    >>> inbox.put(1, packed(5, 0, torch.ones(1, 2)))
    >>> [(peer, unpacked(m, 0, 1)[0]) for peer, m in inbox.taken().items()]
    [(1, 5)]
    """

    def __init__(self, changed: threading.Condition) -> None:
        self.changed = changed
        self.closed: set[int] = set()
        self.error: Exception | None = None
        self._newest: dict[int, Tensor] = {}
        self.messages = 0

    def put(self, peer: int, message: Tensor) -> None:
        """Keep this in place of what the peer has sent before."""
        with self.changed:
            if int(message[0]) == CLOSING:
                self.closed.add(peer)
            else:
                self._newest[peer] = message
                self.messages += 1
            self.changed.notify_all()

    def fail(self, error: Exception) -> None:
        """A connection is gone."""
        with self.changed:
            self.error = self.error or error
            self.changed.notify_all()

    def taken(self) -> Mapping[int, Tensor]:
        """All that has come since this was last asked."""
        with self.changed:
            found, self._newest = self._newest, {}
        return found

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come since."""
        return not self._newest


def packed(clock: int, run: int, rows: Tensor) -> Tensor:
    """A message in float64: the clock, the run, the rows."""
    head = torch.tensor([clock, run], dtype=torch.float64)
    return torch.cat([head, rows.detach().to("cpu", torch.float64).flatten()])


def unpacked(message: Tensor, run: int, rows: int) -> tuple[int, Tensor] | None:
    """Clock and rows; None if the message is of another run."""
    clock, told = message[:HEAD].tolist()
    if told != run or clock < 0:
        return None
    return int(clock), message[HEAD:].view(rows, -1)


def mail_of(
    world: BlockWorld, inbox: Inbox, sizes: Mapping[int, tuple[int, int]], width: int
) -> Mail:
    """Open the mail of this rank; every rank calls it.

    Parameters
    ----------
    world
        Who the ranks are.
    inbox
        Where messages are put.
    sizes
        By peer: rows that are sent to it, and that come from it.
    width
        Entries of a row.
    """
    transport: Any = world.watch.transport
    lengths = {
        peer: (HEAD + out * width, HEAD + back * width)
        for peer, (out, back) in sizes.items()
    }
    if transport.name == "mpi":
        from proxmesh.network.mpi_mail import MPIMail

        return MPIMail(transport, inbox, lengths)
    from proxmesh.network.torch_mail import TorchMail

    return TorchMail(transport, inbox, lengths)


def closing(length: int) -> Tensor:
    """The last message, as long as all others."""
    message = torch.zeros(length, dtype=torch.float64)
    message[0] = CLOSING
    return message


def peers_in(lengths: Mapping[int, Any]) -> Sequence[int]:
    """Ascending."""
    return sorted(lengths)
