"""Blocks of agents on ranks: what the engines `mpi` and `torch` share.

Edges inside a rank cost no message. Between two ranks, an exchange sends one
message per direction, which carries each row once, however many edges need it.
"""

import json
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from proxmesh.errors import InputError
from proxmesh.graphs import Matrix
from proxmesh.network.agent_matrix import AgentMatrix, product, reduce_rows, to_tensor
from proxmesh.network.handshake import agree
from proxmesh.network.placement import Placement
from proxmesh.network.timeouts import Watch
from proxmesh.network.transport import Pending
from proxmesh.types import Reduction

__all__ = ["BlockExchange", "BlockWorld"]


@final
@dataclass(slots=True)
class Buffers:
    """Memory of one exchange; two exchanges in flight never share it."""

    packed: Tensor | None  # rows for all peers that are not contiguous in x
    received: Tensor  # rows of other ranks' agents, [ghosts, width]


@final
class BlockExchange:
    """Rows on their way between ranks; the first read waits for them.

    As in the simulated engine, both products are taken of differences to one row, here
    the first of this rank: L annihilates a common shift and W keeps it.
    """

    __slots__ = ("__weakref__", "_ghosts", "_version", "_world", "_x")

    def __init__(self, x: Tensor, world: "BlockWorld") -> None:
        self._x = x
        self._version = x._version
        self._world = world
        self._ghosts = world.post(self, x)

    def laplacian(self) -> Tensor:
        """Row i: ``d_i x_i - sum_{j~i} x_j``."""
        return self._times(self._world.laplacian)

    def pull(self) -> Tensor:
        """The same: nothing is old here."""
        return self.laplacian()

    def mix(self) -> Tensor:
        """Row i: ``sum_j w_ij x_j``."""
        return self._x[:1] + self._times(self._world.mixing)

    def seen(self) -> Tensor:
        """Our rows, then those of the ghosts, as they were sent."""
        return torch.cat([self._x, self._ghosts.raw(self._x)])

    def wait(self) -> None:
        """Wait until the rows are here, without forming a product."""
        self._ghosts.arrive()

    def _times(self, matrix: "SplitMatrix") -> Tensor:
        if self._x._version != self._version:
            raise InputError(
                "the rows given to `exchange` were changed in place while they were "
                "being sent. Make new ones: `x = x + ...`."
            )
        reference = self._x[:1]
        parts = []
        if len(self._x) > 1:  # a single row is the reference itself
            # Taken first, while the rows of the others are still on their way.
            parts.append(product(matrix.own, self._x - reference))
        if matrix.others is not None:
            parts.append(product(matrix.others, self._ghosts.rows(reference)))
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]


@final
class Ghosts:
    """Rows of other ranks' agents that one exchange brings."""

    __slots__ = ("_buffers", "_pending", "_rows", "_watch")

    def __init__(self, watch: Watch, pending: Pending | None, buffers: Buffers) -> None:
        self._watch = watch
        self._pending = pending
        self._buffers = buffers
        self._rows: Tensor | None = None

    def rows(self, reference: Tensor) -> Tensor:
        """What has arrived, minus the reference; computed in the receive buffer."""
        self.arrive()
        if self._rows is None:
            shape = (-1, *reference.shape[1:])
            there = self._buffers.received.to(reference.device).view(shape)
            self._rows = there.sub_(reference)
        return self._rows

    def raw(self, like: Tensor) -> Tensor:
        """What has arrived as it is: not after `rows`, which computes in its place."""
        shape = (-1, *like.shape[1:])
        return self.arrive().received.to(like.device).view(shape)

    def arrive(self) -> Buffers:
        """Wait until all has arrived; the buffers may then be used again."""
        if self._pending is not None:
            self._watch.wait(self._pending)
            self._pending = None
        return self._buffers


@final
@dataclass(frozen=True, slots=True)
class SplitMatrix:
    """The local rows of a matrix over all agents: our columns, and the ghosts'."""

    own: AgentMatrix
    others: AgentMatrix | None

    @staticmethod
    def of(
        matrix: Matrix,
        agents: tuple[int, ...],
        ghosts: tuple[int, ...],
        like: Tensor,
    ) -> "SplitMatrix":
        """Cut out this rank's part."""
        local = matrix[list(agents)]

        def columns(chosen: tuple[int, ...]) -> AgentMatrix:
            part = local[:, list(chosen)]
            if not isinstance(part, np.ndarray):
                part = sparse.csr_array(part)
            return to_tensor(part, like.dtype, like.device)

        return SplitMatrix(columns(agents), columns(ghosts) if ghosts else None)


@final
class BlockWorld:
    """A `World` of which this process holds one block of agents.

    Parameters
    ----------
    placement
        Which rank holds which agents.
    watch
        The other ranks.
    dtype, device
        Of the exchanged rows.
    """

    def __init__(
        self,
        placement: Placement,
        watch: Watch,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        graph, transport = placement.graph, watch.transport
        rank = self.rank = transport.rank
        self.graph = graph
        self.placement = placement
        self.watch = watch
        self.engine = transport.name
        self.distributed = True
        self.n = graph.n
        self.agents = placement.blocks[rank]
        self.is_root = rank == 0
        self.max_degree = graph.max_degree
        self.num_links = 2 * len(graph.edges)
        degrees = torch.from_numpy(graph.degrees[list(self.agents)])
        self.degree = degrees.to(device=device, dtype=dtype)[:, None]

        self._wire = _wire(device, self.engine)
        peers = placement.peers(rank)
        index = {agent: i for i, agent in enumerate(self.agents)}
        self._sent = [
            _selection([index[a] for a in placement.sent(rank, peer)], self._wire)
            for peer in peers
        ]
        self._received = [len(placement.sent(peer, rank)) for peer in peers]
        self.ghosts = tuple(a for peer in peers for a in placement.sent(peer, rank))
        self.laplacian = SplitMatrix.of(
            graph.laplacian, self.agents, self.ghosts, self.degree
        )
        self.mixing = SplitMatrix.of(
            graph.mixing, self.agents, self.ghosts, self.degree
        )
        self.link = transport.link(peers)
        self._free: dict[tuple[int, torch.dtype], list[Buffers]] = {}
        self._dropped: list[tuple[tuple[int, torch.dtype], Ghosts]] = []

    @property
    def mixing_lambda(self) -> float:
        """Second largest absolute eigenvalue of W."""
        return self.graph.mixing_lambda

    def exchange(self, x: Tensor) -> BlockExchange:
        """Start sending our rows to the ranks that hold neighbors."""
        return BlockExchange(x, self)

    def post(self, exchange: BlockExchange, x: Tensor) -> Ghosts:
        """Send and receive into buffers that are free once `exchange` is gone."""
        rows = x.detach().flatten(1).to(self._wire).contiguous()
        kind = rows.shape[1], rows.dtype
        self._collect()
        buffers = self._buffers(kind)
        pending = None
        if self._sent:
            places = torch.split(buffers.received, self._received)
            pending = self.link.start(self._packed(rows, buffers), places)
        ghosts = Ghosts(self.watch, pending, buffers)
        weakref.finalize(exchange, self._dropped.append, (kind, ghosts)).atexit = False
        return ghosts

    def reduce(self, x: Tensor, op: Reduction) -> Tensor:
        """Reduce over our rows, then over the ranks."""
        if op == "mean":
            return self.reduce(x, "sum") / self.n
        local = reduce_rows(x, op).to(self._wire)
        return self.watch.reduce(local, op).to(x.device)

    def share(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """The root's numbers and words, to the last digit."""
        words = self.watch.gather(json.dumps(numbers) if self.is_root else "")
        shared: dict[str, Any] = json.loads(words[0])
        return shared

    def gather(self, numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Every rank's numbers and words, to the last digit."""
        return [json.loads(words) for words in self.watch.gather(json.dumps(numbers))]

    def agree(self, facts: Mapping[str, str]) -> None:
        """Refuse to start when a rank was started with other facts."""
        agree(self.watch, facts)

    def announce_exit(self, reason: str) -> None:
        """Tell the other ranks why this one stops."""
        self.watch.announce_exit(reason)

    def describe(self) -> str:
        """Engine, ranks, and which agents live on which."""
        ranks = len(self.placement.blocks)
        return f"engine {self.engine}, {ranks} ranks: {self.placement}"

    def _packed(self, rows: Tensor, buffers: Buffers) -> list[Tensor]:
        """One tensor per peer: a part of x itself, or a copy of scattered rows."""
        sizes = [len(part) for part in self._sent if isinstance(part, Tensor)]
        if sizes and buffers.packed is None:
            buffers.packed = rows.new_empty(sum(sizes), rows.shape[1])
        spaces = iter(
            () if buffers.packed is None else torch.split(buffers.packed, sizes)
        )
        return [
            rows[part]
            if isinstance(part, slice)
            else torch.index_select(rows, 0, part, out=next(spaces))
            for part in self._sent
        ]

    def _buffers(self, kind: tuple[int, torch.dtype]) -> Buffers:
        free = self._free.setdefault(kind, [])
        if free:
            return free.pop()
        width, dtype = kind
        shape = (sum(self._received), width)
        return Buffers(None, torch.empty(shape, dtype=dtype, device=self._wire))

    def _collect(self) -> None:
        """Take back the buffers of exchanges that nobody holds anymore."""
        while self._dropped:
            kind, ghosts = self._dropped.pop()
            self._free.setdefault(kind, []).append(ghosts.arrive())


def _selection(rows: list[int], device: torch.device) -> slice | Tensor:
    """Select rows to send; contiguous ones need no copy."""
    contiguous = rows[-1] - rows[0] + 1 == len(rows)
    if contiguous:
        return slice(rows[0], rows[-1] + 1)
    return torch.tensor(rows, device=device)


def _wire(device: torch.device, engine: str) -> torch.device:
    """The device that messages are sent from: only nccl reads the memory of GPUs."""
    return device if engine == "torch" else torch.device("cpu")
