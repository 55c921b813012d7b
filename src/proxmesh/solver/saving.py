"""When checkpoints are made, and by whom: beside the run, not in its way."""

import re
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from safetensors import SafetensorError

from proxmesh.errors import Notice
from proxmesh.solver.checkpoint import (
    Manifest,
    RankFile,
    checkpoints_in,
    drop,
    is_aside,
    put_in_place,
    write_rank_file,
)
from proxmesh.solver.journal import Journal
from proxmesh.types import World

__all__ = ["Interval", "Saver"]

DEFAULT_SECONDS = 60.0
SHARE_OF_TIME = 0.01  # of a run that checkpoints may take, where nothing else was said
KEPT = 2


@final
@dataclass(frozen=True, slots=True)
class Interval:
    """How often a checkpoint is made.

    Parameters
    ----------
    iterations, seconds
        One of them; seconds are of computing.
    stretches
        Whether it grows where a checkpoint takes long.

    Examples
    --------
    >>> Interval.of(500), Interval.of("10min"), Interval.of("off")
    (Interval(iterations=500), Interval(seconds=600.0), None)
    """

    iterations: int | None = field(default=None)
    seconds: float | None = field(default=None)
    stretches: bool = field(default=False)

    def __repr__(self) -> str:
        said = {"iterations": self.iterations, "seconds": self.seconds}
        listed = [f"{k}={v}" for k, v in said.items() if v is not None]
        return f"Interval({', '.join(listed)})"

    @staticmethod
    def of(given: int | str | None) -> "Interval | None":
        """From what a user says; None: never."""
        if given is None:
            return Interval(seconds=DEFAULT_SECONDS, stretches=True)
        if given == "off":
            return None
        text = str(given).strip()
        if re.fullmatch(r"[1-9]\d{0,17}", text) and not isinstance(given, bool):
            return Interval(iterations=int(text))
        minutes = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?min", text)
        if minutes and float(minutes[1]) > 0:
            return Interval(seconds=60 * float(minutes[1]))
        raise ValueError(
            "must be a number of iterations, minutes such as `10min`, or `off`"
        )


@final
@dataclass(slots=True)
class _Writing:
    """A checkpoint on its way to the disk."""

    iteration: int
    journal: Journal
    file: RankFile | None = None  # when it is written
    error: Exception | None = None
    seconds: float = 0.0
    thread: threading.Thread | None = None

    @property
    def is_over(self) -> bool:
        return self.thread is None or not self.thread.is_alive()


@final
class Saver:
    """Makes checkpoints of one run in a thread of its own.

    A state is never changed by the steps after it, so that the thread can write it
    while the run goes on. On several ranks each writes a file, and at the first beat
    at which all have, the root writes the manifest.

    Parameters
    ----------
    place
        Folder of the checkpoints, which may not exist yet.
    world
        Who else writes.
    interval
        How often.
    described
        Makes a manifest of an iteration, a journal and the files.
    """

    def __init__(
        self,
        place: Path,
        world: World,
        interval: Interval,
        described: Callable[[int, Journal, list[RankFile]], Manifest],
    ) -> None:
        self._place = place
        self._world = world
        self._interval = interval
        self._described = described
        self._writing: _Writing | None = None
        self._since = 0.0  # seconds of computing at the last one
        self._took = 0.0  # seconds that the dearest one took
        self._made: int | None = None  # the last that is in its place

    def start_from(self, seconds: float, iteration: int | None) -> None:
        """Count from here: where the run begins, or goes on after an iteration.

        Checkpoints after that one are damaged, or it would have gone on from them.
        """
        self._since, self._made = seconds, iteration
        if self._world.is_root:
            drop(self._place, after=iteration)

    def is_at(self, k: int) -> bool:
        """Whether iteration k is one of those that were asked for by number."""
        every = self._interval.iterations
        return every is not None and k % every == 0

    def answers(self, k: int, seconds: float) -> tuple[bool, bool, bool]:
        """Tell whether one is due, is being written, has failed."""
        if self.is_at(k):
            self.wait()
        writing = self._writing
        if writing is None:
            return self._is_due(k, seconds), False, False
        return False, not writing.is_over, writing.error is not None

    def act(
        self,
        state: Any,
        journal: Journal,
        any_due: bool,
        any_writing: bool,
        any_failed: bool,
    ) -> None:
        """Do what all ranks have found is to be done."""
        if any_writing:
            return
        if self._writing is not None:
            self._conclude(any_failed)
            if self.is_at(int(state.k)):  # it was waited for
                self._start(state, journal)
        elif any_due:
            self._start(state, journal)

    def save_now(self, state: Any, journal: Journal) -> None:
        """Make one of this very state, and wait for it; every rank calls it."""
        self._finish_writing()
        if self._made != int(state.k):
            self._start(state, journal)
            self._finish_writing()

    def close(self, state: Any, journal: Journal) -> None:
        """At the end of a run that has made any: leave one, of its last state."""
        self._finish_writing()
        if self._made is not None:
            self.save_now(state, journal)

    def _is_due(self, k: int, seconds: float) -> bool:
        if self._interval.seconds is None:
            return self.is_at(k)
        wait = self._interval.seconds
        if self._interval.stretches:
            wait = max(wait, self._took / SHARE_OF_TIME)
        return seconds - self._since >= wait

    def _start(self, state: Any, journal: Journal) -> None:
        writing = _Writing(int(state.k), journal.so_far())
        self._since, self._writing = journal.seconds, writing
        writing.thread = threading.Thread(
            target=self._write, args=(writing, state), name="checkpoint"
        )
        writing.thread.start()

    def _write(self, writing: _Writing, state: Any) -> None:
        """What the thread does; alone in the run, it also puts it in its place."""
        begin = time.perf_counter()
        world = self._world
        try:
            writing.file = write_rank_file(
                self._place, world.rank, world.agents, state, writing.journal
            )
            if not world.distributed:
                self._put_in_place(writing, [writing.file])
        except (OSError, SafetensorError, MemoryError) as error:
            writing.error = error
        writing.seconds = time.perf_counter() - begin

    def _put_in_place(self, writing: _Writing, files: list[RankFile]) -> None:
        manifest = self._described(writing.iteration, writing.journal, files)
        put_in_place(self._place, manifest, KEPT)

    def wait(self) -> None:
        """Until this process has written what it is writing."""
        if self._writing is not None and self._writing.thread is not None:
            self._writing.thread.join()

    def _finish_writing(self) -> None:
        """Wait for the one that is being written, on all ranks."""
        self.wait()
        if self._writing is not None:
            failed = self._writing.error is not None
            answers = self._world.gather({"failed": failed})
            self._conclude(any(answer["failed"] for answer in answers))

    def _conclude(self, failed: bool) -> None:
        """All ranks have written or failed: make it one checkpoint, or none."""
        writing, self._writing = self._writing, None
        assert writing is not None
        self._took = max(self._took, writing.seconds)
        if not failed and self._world.distributed:
            failed = self._join(writing)
        if not failed:
            self._made = writing.iteration
            return
        drop(self._place)
        if writing.error is not None:
            self._tell(writing.iteration, writing.error)

    def _join(self, writing: _Writing) -> bool:
        """Put the ranks' files together; whether that has failed."""
        assert writing.file is not None
        told = self._world.gather({"file": writing.file.model_dump()})
        files = [RankFile.model_validate(one["file"]) for one in told]
        if self._world.is_root:
            writing.error = self._tried(writing, files)
        failed = writing.error is not None
        failed = bool(self._world.share({"failed": failed})["failed"])
        if not failed and is_aside(self._place, writing.iteration):
            writing.error = self._tried(writing, files)  # on a disk of its own
        return failed

    def _tried(self, writing: _Writing, files: list[RankFile]) -> OSError | None:
        try:
            self._put_in_place(writing, files)
        except OSError as error:
            return error
        return None

    def _tell(self, iteration: int, error: Exception) -> None:
        before = checkpoints_in(self._place)
        stands = "There is none yet"
        if before:
            stands = f"That of iteration {int(before[0].name)} stands"
        reason = error.strerror if isinstance(error, OSError) else str(error)
        warnings.warn(
            f"checkpoint of iteration {iteration} in `{self._place}` could not be "
            f"written: {reason or error}. {stands}; the run goes on.",
            Notice,
            stacklevel=2,
        )
