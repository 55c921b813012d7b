"""Wait for other ranks, but not for ever; find out who is missing; leave together."""

import atexit
import os
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import NoReturn, final

import torch
from torch import Tensor

from proxmesh.errors import InputError, LostRankError
from proxmesh.network.placement import Placement
from proxmesh.network.transport import Pending, Transport

__all__ = ["EXIT_LOST_RANK", "Watch", "leave"]

EXIT_LOST_RANK = 3
ALIVE = "waiting: "  # what a rank that waits in vain tells the others
GONE = "lost"
STOPPED = "stopped: "
LISTEN_SECONDS = 2.0  # for others to say that they wait too
LINGER_SECONDS = 1.2  # before the first exit lets the launcher end the others
WORTH_LISTENING = 0.1


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

    def farewell(self, reason: str) -> None:
        """Tell everyone why this rank goes."""
        self.transport.post(STOPPED + reason)

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


def agree(watch: Watch, facts: dict[str, str]) -> None:
    """Refuse to start unless all ranks hold the same facts; name the first that not."""
    lines = [f"{name}\0{value}".replace("\n", " ") for name, value in facts.items()]
    everyone = [text.split("\n") for text in watch.gathered("\n".join(lines))]
    for rank, theirs in enumerate(everyone):
        for mine, other in zip(everyone[0], theirs, strict=False):
            if mine != other:
                name, _, here = mine.partition("\0")
                there = other.partition("\0")[2]
                raise InputError(
                    f"rank {rank} was started with another {name} than rank 0: "
                    f"`{_short(there)}`, not `{_short(here)}`. Start all ranks alike."
                )
        if len(theirs) != len(everyone[0]):
            raise InputError(
                f"rank {rank} runs another script than rank 0. Start all ranks alike."
            )


def leave(code: int) -> NoReturn:
    """End this process, past finalizers that would wait for the others.

    Not at once: its end makes the launcher end the others, who have a line to print.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(LINGER_SECONDS)
    os._exit(code)


def guard(watch: Watch) -> None:
    """Let an error that nobody catches end this process and tell the others.

    MPI's finalizer, which runs when Python ends, would wait for ranks that wait for us.
    """
    previous = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if isinstance(error, LostRankError):
            print(f"proxmesh: {error}", file=sys.stderr)
            leave(EXIT_LOST_RANK)
        watch.farewell(f"{kind.__name__}: {error}")
        previous(kind, error, trace)
        leave(1)

    sys.excepthook = hook
    atexit.register(_leave_if_lost, watch)


def _leave_if_lost(watch: Watch) -> None:
    """A script that survived the loss of a rank still cannot finalize with it."""
    if watch.lost:
        leave(EXIT_LOST_RANK)


def _is_clear(notes: Mapping[int, str], others: set[int]) -> bool:
    """Whether more listening would tell nothing new."""
    gone = any(note.startswith(STOPPED) for note in notes.values())
    return gone or not others - set(notes)


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
