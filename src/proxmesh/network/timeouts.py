"""Wait for other ranks, but not for ever, and find out who is missing."""

import time
from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from proxmesh.errors import LostRankError
from proxmesh.network.placement import Placement
from proxmesh.network.transport import Pending, Transport

__all__ = ["Watch"]

ALIVE = "waiting: "  # what a rank that waits in vain tells the others
GONE = "lost"
STOPPED = "stopped: "
LISTEN_SECONDS = 2.0  # for others to say that they wait too
WORTH_LISTENING = 0.1
LONGEST_NOTE = 200  # characters; a note is one line


@final
class Watch:
    """Turns endless waiting into an error that names a rank.

    A rank that waits in vain cannot know whether its neighbor is dead or waits in vain
    itself. So everyone who gives up says so; whoever is silent after a moment is the
    one that is missing.
    """

    def __init__(self, transport: Transport, timeout: float) -> None:
        self.transport = transport
        self.timeout = timeout
        self.placement: Placement | None = None  # known once the graph is agreed on
        self.lost = False

    def wait(self, pending: Pending) -> None:
        """Wait for something, at most for the timeout."""
        try:
            pending.wait(self.timeout)
        except TimeoutError as error:
            raise self._lost(f"silent for {self.timeout:g} s") from error
        except ConnectionError as error:
            raise self._lost(GONE) from error

    def reduced(self, x: Tensor, op: str) -> Tensor:
        """Reduce a tensor over the ranks."""
        self.wait(self.transport.reduce(x, op))  # type: ignore[arg-type]
        return x

    def gathered(self, text: str) -> list[str]:
        """Everyone's text, by rank."""
        words = text.encode()
        longest = self.reduced(torch.tensor([len(words)]), "max")
        table = torch.zeros(self.transport.size, int(longest), dtype=torch.uint8)
        table[self.transport.rank, : len(words)] = torch.tensor(list(words))
        rows = self.reduced(table, "max")
        return [bytes(row.tolist()).rstrip(b"\0").decode() for row in rows]

    def announce_exit(self, reason: str) -> None:
        """Tell everyone why this rank goes, in one line."""
        first = (reason.strip() or "no reason given").splitlines()[0]
        self.transport.post(STOPPED + first[:LONGEST_NOTE])

    def _lost(self, how: str) -> LostRankError:
        transport = self.transport
        self.lost = True
        transport.post(ALIVE + how)
        transport.hang_up()
        others = set(range(transport.size)) - {transport.rank}
        deadline = time.monotonic() + LISTEN_SECONDS
        notes = transport.notes()
        while time.monotonic() < deadline and not _is_clear(notes, others):
            time.sleep(WORTH_LISTENING)
            notes = transport.notes()
        for rank, note in sorted(notes.items()):
            if note.startswith(STOPPED):
                reason = note.removeprefix(STOPPED).rstrip(".")
                return LostRankError(
                    f"{self._who(rank)} has stopped: {reason}",
                    "Start all ranks again once that is mended.",
                )
        silent = sorted(others - set(notes))
        told = [note.removeprefix(ALIVE) for note in notes.values()]
        how = next((word for word in told if word != GONE), how)
        verb = "was" if len(silent) == 1 else "were"
        if not silent:
            return LostRankError(
                f"rank {transport.rank} cannot reach a neighbor, though all ranks live",
                "Check the network between the machines (`proxmesh doctor`).",
            )
        return LostRankError(
            f"{' and '.join(map(self._who, silent))} {verb} {how}",
            "See that machine and its messages, then start all ranks again; if it is "
            "only slow, raise `--timeout`.",
        )

    def _who(self, rank: int) -> str:
        return f"rank {rank}" if self.placement is None else self.placement.who(rank)


def _is_clear(notes: Mapping[int, str], others: set[int]) -> bool:
    """Whether more listening would tell nothing new."""
    gone = any(note.startswith(STOPPED) for note in notes.values())
    return gone or not others - set(notes)
