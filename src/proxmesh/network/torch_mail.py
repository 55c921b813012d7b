"""Newest messages over gloo: two threads for each peer, one that sends, one that reads.

A receive of gloo cannot be polled: its data arrives, but it is not told until somebody
waits for it. So somebody does.
"""

import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor

from proxmesh.network.mail import CLOSING, Inbox, closing

__all__ = ["TorchMail"]

MAIL_TAG = 2**15 + 1  # beyond those of exchanges
NO_LIMIT = timedelta(days=30)  # who is silent too long is noticed elsewhere


@final
class TorchMail:
    """Threads that wait in gloo, without taking the CPU.

    Parameters
    ----------
    transport
        A `TorchTransport`.
    inbox
        Where messages are put.
    lengths
        Of messages to and from each peer.
    """

    def __init__(
        self, transport: Any, inbox: Inbox, lengths: Mapping[int, tuple[int, int]]
    ) -> None:
        self._group = transport.group
        self._inbox = inbox
        self._lengths = lengths
        self._changed = threading.Condition()
        self._next: dict[int, Tensor] = {}
        self._last: set[int] = set()  # peers to which no more is to be sent
        self._threads = []
        for peer, (_, length) in lengths.items():
            for work, arguments in (
                (self._send, (peer,)),
                (self._read, (peer, length)),
            ):
                thread = threading.Thread(
                    target=self._guarded, args=(work, *arguments), daemon=True
                )
                thread.start()
                self._threads.append(thread)

    def send(self, peer: int, message: Tensor) -> None:
        """Send as soon as the one before is gone; of those that wait, the newest."""
        with self._changed:
            self._next[peer] = message
            self._changed.notify_all()

    def close(self, seconds: float) -> None:
        """Tell every peer that this is the end, and hear it from every peer."""
        with self._changed:
            self._last = set(self._lengths)
            self._changed.notify_all()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _guarded(self, work: Any, *arguments: Any) -> None:
        try:
            work(*arguments)
        except RuntimeError as error:  # the only kind that gloo raises
            self._inbox.fail(error)

    def _read(self, peer: int, length: int) -> None:
        while peer not in self._inbox.closed:
            message = torch.empty(length, dtype=torch.float64)
            work: Any = dist.irecv(message, peer, group=self._group, tag=MAIL_TAG)
            work.wait(NO_LIMIT)
            self._inbox.put(peer, message)

    def _send(self, peer: int) -> None:
        while True:
            with self._changed:
                while peer not in self._next and peer not in self._last:
                    self._changed.wait()
                message = self._next.pop(peer, None)
            if message is None:
                message = closing(self._lengths[peer][0])
            work: Any = dist.isend(message, peer, group=self._group, tag=MAIL_TAG)
            work.wait(NO_LIMIT)
            if int(message[0]) == CLOSING:
                return
