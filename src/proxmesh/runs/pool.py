"""Independent runs side by side, each in a process of its own."""

import contextlib
import multiprocessing
import signal
import time
import tomllib
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TypeAlias, final

import tomli_w

from proxmesh.errors import InputError, Notice
from proxmesh.runs.build import build
from proxmesh.runs.config import HOW_IT_IS_COMPUTED, Config, flattened
from proxmesh.solver.folder import RunFolder

__all__ = ["Ended", "Message", "Noted", "PlannedRun", "Pool", "Progressed"]

SECONDS_BETWEEN_REPORTS = 0.2
SECONDS_TO_STOP = 20.0  # for a last checkpoint and a last look
PRELOADED = [  # with what runs import as they go: gradients are recorded by torch.fx
    "proxmesh.runs.build",
    "sklearn.datasets",
    "torch.fx.experimental.proxy_tensor",
]


@final
@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run to make: its complete config, and the folder that it writes."""

    name: str  # for people
    config: Mapping[str, Any]  # as in config.toml
    folder: Path

    def difference(self) -> str | None:
        """What the run in the folder has that this one has not; None: they agree."""
        there = flattened(RunFolder(self.folder).config())
        asked = flattened(tomllib.loads(tomli_w.dumps(self.config)))
        found = {f"algorithm.{name}" for name in there.get("run.automatic", ())}
        ignored = {*HOW_IT_IS_COMPUTED, "run.automatic", *(found - set(asked))}
        for key in sorted({*there, *asked} - ignored):
            if there.get(key) != asked.get(key):
                return (
                    f"its `{key}` is {there.get(key)!r}, but {asked.get(key)!r} was "
                    "asked for"
                )
        return None


@final
@dataclass(frozen=True, slots=True)
class Progressed:
    """A run is at iteration k."""

    run: PlannedRun
    k: int
    row: Mapping[str, float] | None = None  # the last row of its history, when new


@final
@dataclass(frozen=True, slots=True)
class Noted:
    """A run had something to say that stops nothing."""

    run: PlannedRun
    text: str


@final
@dataclass(frozen=True, slots=True)
class Ended:
    """A run is over; `outcome` is that of its result, or `failed`."""

    run: PlannedRun
    outcome: str
    message: str
    final: Mapping[str, float] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)  # that it found itself


Message: TypeAlias = Progressed | Noted | Ended


@final
class Pool:
    """Makes runs, at most `size` at a time, and tells how they go.

    A run that raises, or whose process is killed, ends as `failed` with its reason and
    leaves the others alone. Leaving the `with` block stops whatever is still running:
    such a run makes a checkpoint first, from which it can go on.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting: deque[PlannedRun] = deque()
        self._working: dict[Connection, tuple[PlannedRun, BaseProcess]] = {}
        # Forked from a server that has imported torch once: a run starts in no time,
        # and inherits neither threads nor state of this process.
        methods = multiprocessing.get_all_start_methods()
        way = "forkserver" if "forkserver" in methods else "spawn"
        self._context: Any = multiprocessing.get_context(way)
        if way == "forkserver":
            self._context.set_forkserver_preload(PRELOADED)
            with _ignoring_interrupts():  # inherited: Ctrl-C must not hit its imports
                forkserver.ensure_running()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for _, process in self._working.values():
            process.terminate()
        deadline = time.monotonic() + SECONDS_TO_STOP
        try:
            for _, process in self._working.values():
                process.join(max(0.0, deadline - time.monotonic()))
        finally:  # also when asked twice
            for _, process in self._working.values():
                process.kill()
                process.join()

    def submit(self, run: PlannedRun) -> None:
        """Add a run; it starts as soon as a process is free."""
        self._waiting.append(run)

    def messages(self) -> Iterator[Message]:
        """Yield what the runs report until all are over; more may be submitted."""
        while self._waiting or self._working:
            while self._waiting and len(self._working) < self._size:
                self._start(self._waiting.popleft())
            for ready in wait(list(self._working)):
                assert isinstance(ready, Connection)
                yield self._received(ready)

    def _start(self, run: PlannedRun) -> None:
        receiver, sender = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_run_in_process, args=(run, sender), daemon=True
        )
        process.start()
        sender.close()  # ours: so that the end of the process ends the pipe
        self._working[receiver] = run, process

    def _received(self, receiver: Connection) -> Message:
        run, process = self._working[receiver]
        message: Message
        try:
            message = receiver.recv()
        except EOFError:
            process.join()
            message = Ended(run, "failed", _how_it_ended(process.exitcode))
        if isinstance(message, Ended):
            del self._working[receiver]
            receiver.close()
            process.join()
            if message.outcome == "failed":
                with contextlib.suppress(OSError):
                    RunFolder(run.folder).write_failure(message.message)
        return message


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run_in_process(run: PlannedRun, sender: Connection) -> None:
    """What a process does: build, run, report."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGTERM, _interrupt)
    warnings.showwarning = lambda text, category, *_, **__: (
        sender.send(Noted(run, str(text))) if category is Notice else None
    )
    warnings.simplefilter("always", Notice)
    try:
        ended = _carried_out(run, sender)
    except (BrokenPipeError, KeyboardInterrupt):  # nobody waits for this run any more
        return
    except InputError as error:
        ended = Ended(run, "failed", str(error))
    except Exception as error:  # whatever a run dies of is its own end only
        reason = (str(error).strip() or "no message").splitlines()[0]
        ended = Ended(run, "failed", f"{type(error).__name__}: {reason}")
    with contextlib.suppress(BrokenPipeError):
        sender.send(ended)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Stop the run in progress, which then leaves a checkpoint."""
    del number, frame
    raise KeyboardInterrupt


def _carried_out(run: PlannedRun, sender: Connection) -> Ended:
    built = build(Config.model_validate(run.config))
    going_on = RunFolder(run.folder).is_resumable() and not run.difference()
    prepared = built.prepare(run.folder, force=True, resume=going_on)
    result = prepared.go(_Reporter(run, sender))
    outcome, message = str(result.outcome), result.message
    return Ended(run, outcome, message, result.final, prepared.settled.constants)


class _Reporter:
    """Sends progress through the pipe, a few times a second."""

    def __init__(self, run: PlannedRun, sender: Connection) -> None:
        self._run, self._sender = run, sender
        self._next = 0.0

    def on_prepare(self, what: str) -> None:
        """Say nothing: runs side by side are prepared at different times."""

    def on_compile(self, seconds: float) -> None:
        """Say nothing: runs side by side compile at different times."""

    def on_step(self, k: int, seconds: float) -> None:
        """Tell how far the run is."""
        del seconds
        now = time.monotonic()
        if now >= self._next:
            self._next = now + SECONDS_BETWEEN_REPORTS
            self._sender.send(Progressed(self._run, k))

    def on_row(self, row: Mapping[str, float]) -> None:
        """Tell the new numbers."""
        self._sender.send(Progressed(self._run, int(row["iteration"]), dict(row)))


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}."
    return f"its process ended with code {code}."
