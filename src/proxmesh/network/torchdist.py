"""The engine `torch`: torch.distributed with gloo on CPUs and nccl on GPUs."""

import atexit
import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import Any, ClassVar, final

import torch
import torch.distributed as dist
from torch import Tensor

from proxmesh.errors import InputError, LostRankError
from proxmesh.launchers import launched
from proxmesh.network.exits import JOIN_REMEDY
from proxmesh.network.meeting import meet, open_store
from proxmesh.network.transport import NOTE_BYTES, RankReduction

__all__ = ["TorchTransport"]

NOTE = "proxmesh/note"
STORE_SECONDS = 0.7  # for reading the notes; the store's machine may be gone
TAGS = 2**15  # messages in flight between two ranks never share a tag


@final
class TorchPending:
    """Work handles, kept alive: dropping a handle closes its connection."""

    UNDER_WAY: ClassVar[set["TorchPending"]] = set()  # even if nobody reads them

    def __init__(self, works: Sequence[Any], buffers: Any) -> None:
        self._works: Sequence[Any] = works
        self._buffers = buffers
        self.UNDER_WAY.add(self)

    def wait(self, seconds: float) -> None:
        """Wait for every handle; gloo moves the messages in a thread of its own."""
        deadline = time.monotonic() + seconds
        for work in self._works:
            left = max(deadline - time.monotonic(), 1e-3)
            try:
                work.wait(timedelta(seconds=left))
            except RuntimeError as error:  # the only kind that gloo and nccl raise
                why = str(error).lower()
                if time.monotonic() >= deadline or "timed out" in why:
                    raise TimeoutError from error
                raise ConnectionError(why) from error
        self._works, self._buffers = (), None
        self.UNDER_WAY.discard(self)


@final
class TorchLink:
    """Messages to and from ranks, in the same order at both ends."""

    def __init__(self, transport: "TorchTransport", peers: Sequence[int]) -> None:
        self._transport = transport
        self._tags = count()
        # In every pair the lower rank sends first: gloo can hang otherwise.
        self._order = sorted(range(len(peers)), key=lambda i: peers[i])
        self._peers = peers
        self._first = [transport.rank < peer for peer in peers]

    def start(
        self, sends: Sequence[Tensor], receives: Sequence[Tensor]
    ) -> TorchPending:
        """Post a send and a receive for every peer."""
        tag = next(self._tags) % TAGS
        group = self._transport.group
        operations = []
        works: list[Any]
        for i in self._order:
            peer = self._peers[i]
            send = (dist.isend, sends[i], peer)
            receive = (dist.irecv, receives[i], peer)
            operations += [send, receive] if self._first[i] else [receive, send]
        if sends and sends[0].is_cuda:  # nccl wants them announced together
            together = [
                dist.P2POp(op, tensor, peer, group) for op, tensor, peer in operations
            ]
            works = dist.batch_isend_irecv(together)
        else:
            works = [
                op(tensor, peer, group=group, tag=tag)
                for op, tensor, peer in operations
            ]
        return TorchPending(works, (sends, receives))


@final
class TorchTransport:
    """One process of `torchrun --nproc-per-node R`, or of a group already joined."""

    OPERATIONS: Mapping[str, Any] = {
        "sum": dist.ReduceOp.SUM,
        "min": dist.ReduceOp.MIN,
        "max": dist.ReduceOp.MAX,
    }

    def __init__(self, device: torch.device, timeout: float) -> None:
        self.name = "torch"
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        limit = timedelta(seconds=timeout)
        if dist.is_initialized():  # the user's own script has joined already
            self.group = dist.new_group(backend=backend, timeout=limit)
            self._store = dist.distributed_c10d._get_default_store()
        else:
            self._store = meet(open_store(limit), launched(), limit)
            _join(backend, self._store, limit)
            self.group = dist.group.WORLD
            atexit.register(self._close)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.local_size = launched().local_size
        self.epoch = 0
        self._notes: dict[tuple[int, int], str] = {}
        self._store_is_gone = False

    def _close(self) -> None:
        """Join gloo's threads while Python still runs; nothing else may hold the group.

        A thread that frees a tensor after Python has ended crashes the process.
        """
        self.group = None
        if dist.is_initialized():
            dist.destroy_process_group()

    def link(self, peers: Sequence[int]) -> TorchLink:
        """Prepare nothing: gloo has connected every pair."""
        return TorchLink(self, peers)

    def reduce(self, x: Tensor, op: RankReduction) -> TorchPending:
        """Start an `all_reduce` in place."""
        work = dist.all_reduce(x, self.OPERATIONS[op], self.group, async_op=True)
        return TorchPending([work], x)

    def post(self, note: str) -> None:
        """Write a note into the store."""
        self._with_limit(lambda: self._store.set(self._key(self.rank), note))

    def hang_up(self) -> None:
        """Close every connection, which gloo does when a receive times out."""
        for peer in set(range(self.size)) - {self.rank}:
            with contextlib.suppress(RuntimeError, ValueError):
                nothing = torch.empty(1)
                last = dist.irecv(nothing, peer, group=self.group, tag=TAGS)
                if last is not None:
                    last.wait(timedelta(milliseconds=1))

    def notes(self) -> Mapping[int, str]:
        """Read the notes that are in the store."""
        self._with_limit(self._read)
        return {r: note for (e, r), note in self._notes.items() if e == self.epoch}

    def _read(self) -> None:
        for rank in set(range(self.size)) - {self.rank}:
            known = (self.epoch, rank) in self._notes
            if not known and self._store.check([self._key(rank)]):
                words = self._store.get(self._key(rank))[:NOTE_BYTES]
                self._notes[self.epoch, rank] = words.decode(errors="replace")

    def _key(self, rank: int) -> str:
        return f"{NOTE}/{self.epoch}/{rank}"

    def _with_limit(self, call: Callable[[], None]) -> None:
        """Call it in a thread, which is left behind if the store does not answer."""
        if self._store_is_gone:
            return

        def attempt() -> None:
            with contextlib.suppress(RuntimeError):
                call()

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(STORE_SECONDS)
        self._store_is_gone = thread.is_alive()


def _join(backend: str, store: Any, limit: timedelta) -> None:
    launch = launched()
    try:
        dist.init_process_group(
            backend,
            store=store,
            rank=launch.rank,
            world_size=launch.size,
            timeout=limit,
        )
    except RuntimeError as error:  # torch's DistStoreError among them
        raise LostRankError(
            f"not all {launch.size} ranks joined within {limit.total_seconds():g} s",
            JOIN_REMEDY,
        ) from error


def require_torch() -> None:
    """Refuse the engine where torchrun did not start this process."""
    launch = launched()
    if dist.is_initialized():
        return
    if launch.engine != "torch":
        other = "" if launch.engine == "simulated" else f" ({launch.launcher} did)"
        raise InputError(
            f"engine `torch` needs torchrun to start this process{other}: RANK and "
            "WORLD_SIZE are not set. Use `torchrun --nproc-per-node 4 -m proxmesh run "
            "--engine torch`."
        )
