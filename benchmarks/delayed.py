"""A slow network where there is none: messages that arrive later than they could."""

import time
from collections.abc import Sequence
from typing import final

from torch import Tensor

from proxmesh.network.transport import Link, Pending

__all__ = ["DelayedLink"]


@final
class DelayedPending:
    """Arrives after its time; waiting for it uses no processor."""

    def __init__(self, pending: Pending, until: float) -> None:
        self._pending = pending
        self._until = until

    def wait(self, seconds: float) -> None:
        """Sleep until the message may arrive, then take it."""
        left = self._until - time.monotonic()
        if left > 0:
            time.sleep(left)
        self._pending.wait(seconds)


@final
class DelayedLink:
    """A link on which every message takes some seconds more.

    Parameters
    ----------
    link
        The link that really carries the messages.
    seconds
        What each takes at least from its sending to its arrival.
    bits_per_second
        Of an edge: a row takes its size over this besides. None: any size is as fast.
    """

    def __init__(
        self, link: Link, seconds: float, bits_per_second: float | None = None
    ) -> None:
        self._link = link
        self._seconds = seconds
        self._rate = bits_per_second

    def start(
        self, sends: Sequence[Tensor], receives: Sequence[Tensor]
    ) -> DelayedPending:
        """Send at once, deliver late."""
        seconds = self._seconds
        if self._rate is not None:
            rows = [8 * part[0].numel() * part.element_size() for part in sends]
            seconds += max(rows, default=0) / self._rate
        until = time.monotonic() + seconds
        return DelayedPending(self._link.start(sends, receives), until)
