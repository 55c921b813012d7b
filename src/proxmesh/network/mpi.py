"""The engine `mpi`: neighborhood collectives of MPI-3 through mpi4py."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from torch import Tensor

from proxmesh.errors import InputError
from proxmesh.launchers import launched
from proxmesh.network.transport import NOTE_BYTES, RankReduction

__all__ = ["MPITransport"]

POLL_SECONDS = 1e-3  # more often takes time from computing, see docs/distributed.md
SPIN_SECONDS = 1e-3  # on a fast network a message arrives before a sleep would end
GENTLE_SECONDS = 2e-3  # between looks of a thread that must not take the CPU
GLANCE_SECONDS = 0.05  # between looks for notes of other ranks
NOTE_TAG = 1


@final
class Progress:
    """A thread that keeps messages moving while the main thread computes.

    Open MPI moves a large message only while it is called, so this thread calls it.
    Every call of MPI in this process is made under one lock.
    """

    def __init__(self, threads_may_call: bool) -> None:
        self.lock = threading.Lock()
        self._moving: dict[int, tuple[Any, Any]] = {}  # requests and their memory
        self._wake = threading.Event()
        if threads_may_call:
            threading.Thread(target=self._run, daemon=True, name="mpi").start()

    def watch(self, request: Any, buffers: Any) -> None:
        """Keep this request moving, and its buffers alive."""
        with self.lock:
            self._moving[id(request)] = request, buffers
        self._wake.set()

    def is_done(self, request: Any) -> bool:
        """Whether it is done; its caller polls it from now on, the thread need not."""
        with self.lock:
            self._moving.pop(id(request), None)
            return bool(request.Test())

    def _run(self) -> None:
        while True:
            if not self._moving:
                self._wake.wait()
                self._wake.clear()
            with self.lock:
                for key, (request, _) in list(self._moving.items()):
                    if request.Test():
                        del self._moving[key]
            time.sleep(POLL_SECONDS)


@final
class MPIPending:
    """A request of MPI and the buffers that it uses."""

    def __init__(
        self, request: Any, buffers: Any, progress: Progress, glance: Callable[[], None]
    ) -> None:
        self._request = request
        self._buffers = buffers
        self._progress = progress
        self._glance = glance
        self.gentle = False  # whether to leave the CPU to others while it waits
        progress.watch(request, buffers)

    def wait(self, seconds: float) -> None:
        """Test until it is done: quickly at first, then with pauses."""
        begin = looked = time.monotonic()
        while not self._progress.is_done(self._request):
            now = time.monotonic()
            if now - begin > seconds:
                raise TimeoutError
            if now - looked > GLANCE_SECONDS:
                looked = now
                self._glance()
            if self.gentle:
                time.sleep(GENTLE_SECONDS)
            elif now - begin < SPIN_SECONDS:
                os.sched_yield()
            else:
                time.sleep(SPIN_SECONDS / 10)
        self._buffers = None


@final
class MPILink:
    """A neighborhood of ranks."""

    def __init__(self, transport: "MPITransport", peers: Sequence[int]) -> None:
        self._transport = transport
        with transport.progress.lock:
            self._neighborhood = transport.comm.Create_dist_graph_adjacent(
                list(peers), list(peers)
            )

    def start(self, sends: Sequence[Tensor], receives: Sequence[Tensor]) -> MPIPending:
        """Post one `Ineighbor_alltoallw`, straight from and into these tensors."""
        out, into = [t.numpy() for t in sends], [t.numpy() for t in receives]
        with self._transport.progress.lock:
            request = self._neighborhood.Ineighbor_alltoallw(
                _buffers(out), _buffers(into)
            )
        return self._transport.pending(request, (out, into))


@final
class MPITransport:
    """One rank of `mpiexec -n R`."""

    def __init__(self) -> None:
        mpi = _mpi()
        self.name = "mpi"
        self.progress = Progress(mpi.Query_thread() >= mpi.THREAD_SERIALIZED)
        self.comm = mpi.COMM_WORLD.Dup()
        self._notice_board = mpi.COMM_WORLD.Dup()
        self._operations = {"sum": mpi.SUM, "min": mpi.MIN, "max": mpi.MAX}
        self._in_place = mpi.IN_PLACE
        self.rank, self.size = self.comm.rank, self.comm.size
        machine = mpi.COMM_WORLD.Split_type(mpi.COMM_TYPE_SHARED)
        self.local_size = machine.size
        machine.Free()
        self.epoch = 0
        self._posted: list[tuple[Any, bytes]] = []  # requests and their memory
        self._notes: dict[int, tuple[int, str]] = {}

    def link(self, peers: Sequence[int]) -> MPILink:
        """Make a communicator with these ranks as the neighborhood."""
        return MPILink(self, peers)

    def reduce(self, x: Tensor, op: RankReduction) -> MPIPending:
        """Start an `Iallreduce` in place."""
        values = x.numpy()
        with self.progress.lock:
            request = self.comm.Iallreduce(self._in_place, values, self._operations[op])
        return self.pending(request, values)

    def post(self, note: str) -> None:
        """Send a note to every other rank; a frozen one will never read it."""
        words = f"{self.epoch} {note}".encode()[:NOTE_BYTES].ljust(NOTE_BYTES, b"\0")
        others = [r for r in range(self.size) if r != self.rank]
        with self.progress.lock:
            self._posted += [
                (self._notice_board.Isend(words, r, NOTE_TAG), words) for r in others
            ]

    def hang_up(self) -> None:
        """Do nothing: ranks that wait look for notes."""

    def notes(self) -> Mapping[int, str]:
        """Receive the notes that have been sent."""
        with self.progress.lock:
            for rank in range(self.size):
                if self._notice_board.Iprobe(rank, NOTE_TAG):
                    words = bytearray(NOTE_BYTES)
                    self._notice_board.Recv(words, rank, NOTE_TAG)
                    text = words.rstrip(b"\0").decode(errors="replace")
                    epoch, _, note = text.partition(" ")
                    if epoch.isdecimal():  # else of another version of proxmesh
                        self._notes[rank] = int(epoch), note
        return {
            rank: note
            for rank, (epoch, note) in self._notes.items()
            if epoch == self.epoch
        }

    def pending(self, request: Any, buffers: Any) -> MPIPending:
        """Wrap a request, so that a note of another rank ends the wait for it."""
        return MPIPending(request, buffers, self.progress, self._raise_if_noted)

    def _raise_if_noted(self) -> None:
        if self.notes():
            raise ConnectionError


def _buffers(arrays: Sequence[Any]) -> list[Any]:
    """Describe buffers anywhere in memory as offsets from its bottom."""
    mpi = _mpi()
    kind = {1: mpi.BYTE, 4: mpi.FLOAT, 8: mpi.DOUBLE}
    counts = [array.size for array in arrays]
    places = [array.ctypes.data for array in arrays]
    return [mpi.BOTTOM, counts, places, [kind[array.itemsize] for array in arrays]]


def _mpi() -> Any:
    """Import mpi4py, or say how to install it."""
    install = "Install both with `pip install 'proxmesh[mpi]'`"
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise InputError(
            f"engine `mpi` needs mpi4py and an MPI library. {install}."
        ) from error
    except RuntimeError as error:
        raise InputError(
            f"engine `mpi`: mpi4py found no MPI library. {install}, or load your "
            "system's MPI."
        ) from error
    return MPI


def require_mpi() -> None:
    """Refuse the engine under another launcher, or without an MPI library."""
    launch = launched()
    if launch.engine == "torch":
        raise InputError(
            "engine `mpi` was asked for, but torchrun started this process (RANK and "
            "WORLD_SIZE are set). Use `--engine torch`, or start it with `mpiexec -n "
            f"{launch.size}`."
        )
    _mpi()
