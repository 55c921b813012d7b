"""Newest messages over MPI: a posted receive and at most one send for each peer."""

import threading
import time
from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.network.mail import CLOSING, Inbox, closing
from proxmesh.network.mpi import MPITransport

__all__ = ["MPIMail"]

POLL_SECONDS = 2e-3  # `Wait` would keep a core busy
MAIL_TAG = 2


@final
class MPIMail:
    """A thread tests the requests of all peers and sleeps in between.

    Parameters
    ----------
    transport
        Whose lock every call of MPI is made under.
    inbox
        Where messages are put.
    lengths
        Of messages to and from each peer.
    """

    def __init__(
        self,
        transport: MPITransport,
        inbox: Inbox,
        lengths: Mapping[int, tuple[int, int]],
    ) -> None:
        self._lock = transport.progress.lock
        self._inbox = inbox
        self._lengths = lengths
        with self._lock:
            self._comm = transport.comm.Dup()  # nothing of an earlier run is in it
        self._receiving: dict[int, tuple[Any, Tensor]] = {}
        self._sending: dict[int, tuple[Any, Tensor]] = {}
        self._next: dict[int, Tensor] = {}  # waits until the one before is gone
        self._over = False
        with self._lock:
            for peer, (_, length) in lengths.items():
                self._post(peer, torch.empty(length, dtype=torch.float64))
        self._thread = threading.Thread(target=self._run, daemon=True, name="mail")
        self._thread.start()

    def send(self, peer: int, message: Tensor) -> None:
        """Send as soon as the one before is gone; of those that wait, the newest."""
        with self._lock:
            self._next[peer] = message
            self._start(peer)

    def close(self, seconds: float) -> None:
        """Tell every peer that this is the end, and hear it from every peer."""
        deadline = time.monotonic() + seconds
        told = False
        while time.monotonic() < deadline:
            with self._lock:
                busy = bool(self._next or self._sending)
            if not busy and not told:
                told = True
                for peer, (length, _) in self._lengths.items():
                    self.send(peer, closing(length))
            elif not busy and len(self._inbox.closed) == len(self._lengths):
                break
            time.sleep(POLL_SECONDS)
        self._over = True
        self._thread.join()
        with self._lock:
            if not self._receiving:  # else a rank is gone, and the process ends
                self._comm.Free()

    def _run(self) -> None:
        while not self._over:
            with self._lock:
                for peer, (request, buffer) in list(self._receiving.items()):
                    if request.Test():
                        del self._receiving[peer]
                        self._inbox.put(peer, buffer)
                        if int(buffer[0]) != CLOSING:
                            self._post(peer, torch.empty_like(buffer))
                for peer in list(self._sending):
                    self._start(peer)
            time.sleep(POLL_SECONDS)

    def _post(self, peer: int, buffer: Tensor) -> None:
        request = self._comm.Irecv(buffer.numpy(), peer, MAIL_TAG)
        self._receiving[peer] = request, buffer

    def _start(self, peer: int) -> None:
        """Send what waits, if the message before it is gone."""
        if peer in self._sending:
            if not self._sending[peer][0].Test():
                return
            del self._sending[peer]
        message = self._next.pop(peer, None)
        if message is not None:
            request = self._comm.Isend(message.numpy(), peer, MAIL_TAG)
            self._sending[peer] = request, message
