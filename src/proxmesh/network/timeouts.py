"""Keep watch over the other ranks: wait for them with a limit, name those missing."""

import time
from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from proxmesh.errors import InputError, LostRankError
from proxmesh.network.placement import Placement
from proxmesh.network.transport import Pending, RankReduction, Transport

__all__ = ["Watch"]

ALIVE = "waiting: "  # begins the note of a rank that waits in vain
GONE = "lost"
STOPPED = "stopped: "  # begins the note of a rank that ends
LISTEN_SECONDS = 2.0  # for the others to say that they wait too
LISTEN_EVERY_SECONDS = 0.1
LONGEST_NOTE = 200  # characters; a note is one line
MOST_TEXT = 2**22  # bytes that ranks tell one another at once; a config has thousands


@final
class Watch:
    """Turns endless waiting into an error that names a rank.

    A rank that waits in vain cannot know whether its neighbor is dead or waits in vain
    itself. So every rank that gives up says so; a rank that is still silent a moment
    later is the one that is missing.

    Parameters
    ----------
    transport
        How this process reaches the others.
    timeout
        Seconds to wait for another rank before it counts as lost.
    """

    def __init__(self, transport: Transport, timeout: float) -> None:
        self.transport = transport
        self.timeout = timeout
        self.placement: Placement | None = None  # known once the graph is agreed on
        self.lost = False
        self._announced_in: int | None = None  # the epoch

    def wait(self, pending: Pending) -> None:
        """Wait for a transfer, at most for the timeout."""
        try:
            pending.wait(self.timeout)
        except TimeoutError as error:
            raise self._lost_rank(f"silent for {self.timeout:g} s") from error
        except ConnectionError as error:
            raise self._lost_rank(GONE) from error

    def reduce(self, x: Tensor, op: RankReduction) -> Tensor:
        """Replace a tensor by its reduction over the ranks, and return it."""
        self.wait(self.transport.reduce(x, op))
        return x

    def gather(self, text: str) -> list[str]:
        """Return every rank's text, by rank."""
        words = text.encode()
        longest = self.reduce(torch.tensor([len(words)]), "max")
        if longest > MOST_TEXT:
            raise InputError(
                f"a rank wants to tell the others {int(longest):,} bytes about its "
                f"run, but at most {MOST_TEXT:,} are read. Start all ranks alike."
            )
        table = torch.zeros(self.transport.size, int(longest), dtype=torch.uint8)
        table[self.transport.rank, : len(words)] = torch.tensor(list(words))
        rows = self.reduce(table, "max")
        return [bytes(row.tolist()).rstrip(b"\0").decode() for row in rows]

    def announce_exit(self, reason: str) -> None:
        """Tell the other ranks why this one stops, once."""
        if self._announced_in == self.transport.epoch:
            return
        self._announced_in = self.transport.epoch
        first = (reason.strip() or "no reason given").splitlines()[0]
        self.transport.post(STOPPED + first[:LONGEST_NOTE])

    def root_has_stopped(self, seconds: float) -> bool:
        """Whether the root has announced its exit, or does so within these seconds."""
        deadline = time.monotonic() + seconds
        while not self.transport.notes().get(0, "").startswith(STOPPED):
            if time.monotonic() > deadline:
                return False
            time.sleep(LISTEN_EVERY_SECONDS / 4)
        return True

    def _lost_rank(self, how: str) -> LostRankError:
        """Say that we wait in vain, listen to the others, and name who is missing."""
        transport = self.transport
        self.lost = True
        transport.post(ALIVE + how)
        transport.hang_up()
        others = set(range(transport.size)) - {transport.rank}
        notes = self._listen(others)
        for rank, note in sorted(notes.items()):
            if note.startswith(STOPPED):
                reason = note.removeprefix(STOPPED).rstrip(".")
                return LostRankError(
                    f"{self._who(rank)} has stopped: {reason}",
                    "Fix that, then start all ranks again.",
                )
        silent = sorted(others - set(notes))
        told = [note.removeprefix(ALIVE) for note in notes.values()]
        how = next((word for word in told if word != GONE), how)
        verb = "was" if len(silent) == 1 else "were"
        if not silent:
            return LostRankError(
                f"rank {transport.rank} cannot reach a neighbor, though all ranks are "
                "alive",
                "Check the network between the machines (`proxmesh doctor`).",
            )
        return LostRankError(
            f"{' and '.join(map(self._who, silent))} {verb} {how}",
            "Check that machine and its messages, then start all ranks again; if it "
            "is only slow, raise `--timeout`.",
        )

    def _listen(self, others: set[int]) -> Mapping[int, str]:
        """Collect notes until one says it all, or all are there, or time is up."""
        deadline = time.monotonic() + LISTEN_SECONDS
        notes = self.transport.notes()
        while time.monotonic() < deadline:
            stopped = any(note.startswith(STOPPED) for note in notes.values())
            if stopped or not others - set(notes):
                break
            time.sleep(LISTEN_EVERY_SECONDS)
            notes = self.transport.notes()
        return notes

    def _who(self, rank: int) -> str:
        return f"rank {rank}" if self.placement is None else self.placement.who(rank)
