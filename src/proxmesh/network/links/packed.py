"""Compressed messages between processes: only what a compressor packs travels.

In one process nothing travels, and the exchange computes what both ends would know.
Between processes a difference is packed into bytes at one end and added at the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor

from proxmesh.network.agent_matrix import product
from proxmesh.types import packs

if TYPE_CHECKING:
    from proxmesh.network.links.edges import LocalEdges
    from proxmesh.network.links.messages import Compressed

__all__ = ["AlongEdges", "Copies", "DifferenceWire", "Packer", "shifted"]


@final
@dataclass(frozen=True, slots=True)
class Packer:
    """A compressor for rows that may hold several vectors each, with its damping.

    Parameters
    ----------
    model
        How messages are compressed.
    """

    model: "Compressed"

    @property
    def packs(self) -> bool:
        """Whether its messages travel as short as they are counted."""
        return packs(self.model.compressor)

    def compressed(self, rows: Tensor, keys: Tensor) -> Tensor:
        """What gets through of these rows."""
        flat = rows.reshape(-1, rows.shape[-1])
        sent: Tensor = self.model.compressor.compress(flat, _each(rows, keys))
        return self._damped(sent.view_as(rows))

    def packed(self, rows: Tensor, keys: Tensor) -> Tensor:
        """The messages, ``[rows, bytes]``."""
        flat = rows.reshape(-1, rows.shape[-1])
        payload: Tensor = self.model.compressor.pack(flat, _each(rows, keys))
        return payload.view(len(rows), -1)

    def unpacked(self, payload: Tensor, keys: Tensor, like: Tensor) -> Tensor:
        """What gets through, from the messages; of the shape and kind of `like`."""
        p, shape = like.shape[-1], (len(payload), *like.shape[1:])
        if not len(payload):
            return like.new_empty(shape)
        vectors = like[0].numel() // p
        flat = payload.reshape(len(payload) * vectors, -1)
        each = _each(like.new_empty(shape), keys)
        sent: Tensor = self.model.compressor.unpack(flat, each, p, like.dtype)
        return self._damped(sent.view(shape))

    def _damped(self, sent: Tensor) -> Tensor:
        return sent if self.model.damping == 1 else self.model.damping * sent


def _each(rows: Tensor, keys: Tensor) -> Tensor:
    """A key for every vector."""
    vectors = rows[0].numel() // rows.shape[-1] if len(rows) else 1
    places = torch.arange(vectors, device=keys.device)
    return (keys[:, None] + places).view(-1, 1)


def shifted(past: Tensor, rows: Tensor, random: bool) -> tuple[Tensor, Tensor]:
    """The rows of some iterations ago, or of all up to now; and what to keep of them.

    Parameters
    ----------
    past
        Of the iterations before, the oldest first, ``[rows, tau, ...]``.
    rows
        Of this one.
    random
        Whether every edge has a delay of its own.
    """
    both = torch.cat([past, rows[:, None]], 1)
    return (both if random else both[:, 0]), both[:, 1:]


@final
@dataclass(frozen=True, slots=True)
class Copies:
    """What this process knows of other processes' agents, who send differences.

    No state holds it, as every agent's own process has the same in its own. Whether it
    still fits is seen from the tensor that it came with.
    """

    of: Tensor  # what our own agents have sent, as the state holds it
    known: Tensor  # what the others have sent, ``[ghosts, ...]``
    queue: Tensor | None  # and before, where messages are late


@final
class DifferenceWire:
    """An exchange in which packed differences travel; its results are as of any other.

    Parameters
    ----------
    engine
        The processes.
    sent
        What our agents' neighbors go by in this iteration.
    payload
        Packed differences of our agents; None: nothing is sent this time.
    add
        From the messages of the others to what is known of them, and to what neighbors
        go by.
    """

    def __init__(
        self,
        engine: Any,
        sent: Tensor,
        payload: Tensor | None,
        add: Callable[[Tensor | None], Tensor],
    ) -> None:
        self._engine = engine
        self._sent = sent
        self._flight = None if payload is None else engine.exchange(payload)
        self._add = add
        self._others: Tensor | None = None

    def seen(self) -> Tensor:
        """Our rows, then those of other processes' agents."""
        return torch.cat([self._sent, self._arrived()])

    def laplacian(self) -> Tensor:
        """Row i: ``d_i x_i - sum_{j~i} x_j``."""
        return self._times(self._engine.laplacian)

    def mix(self) -> Tensor:
        """Row i: ``sum_j w_ij x_j``."""
        return self._sent[:1] + self._times(self._engine.mixing)

    def finish(self) -> None:
        """Take in what has arrived, read or not."""
        self._arrived()

    def _arrived(self) -> Tensor:
        if self._others is None:
            payload = None
            if self._flight is not None:
                ours = len(self._sent)
                payload = self._flight.seen()[ours:]
            self._others = self._add(payload)
        return self._others

    def _times(self, matrix: Any) -> Tensor:
        reference = self._sent[:1]
        found = product(matrix.own, self._sent - reference)
        if matrix.others is None:
            return found
        return found + product(matrix.others, self._arrived() - reference)


@final
class AlongEdges:
    """Messages that differ from edge to edge, between the processes of their ends.

    Parameters
    ----------
    engine
        The processes.
    edges
        Of the agents that live here.
    """

    def __init__(self, engine: Any, edges: "LocalEdges") -> None:
        self._engine = engine
        placement = engine.placement
        ends = list(zip(edges.agent.tolist(), edges.neighbor.tolist(), strict=True))
        place = {end: e for e, end in enumerate(ends)}
        self._peers = placement.peers(engine.rank)
        homes = [placement.home[j] for _, j in ends]
        out: list[list[int]] = [[] for _ in self._peers]
        back: list[list[int]] = [[] for _ in self._peers]
        for index, peer in enumerate(self._peers):
            mine = [end for end, home in zip(ends, homes, strict=True) if home == peer]
            out[index] = [place[end] for end in mine]
            # The other end sends in the order of its own agents.
            back[index] = [place[i, j] for i, j in sorted(mine, key=lambda e: e[::-1])]
        self._out = [torch.tensor(one, dtype=torch.int64) for one in out]
        self._back = [torch.tensor(one, dtype=torch.int64) for one in back]
        here = [e for e, home in enumerate(homes) if home == engine.rank]
        self._here = torch.tensor(here, dtype=torch.int64)
        turned = [place[ends[e][::-1]] for e in here]
        self._turned = torch.tensor(turned, dtype=torch.int64)

    def start(self, payload: Tensor, used: Tensor | None) -> Callable[[], Tensor]:
        """Send; what is returned waits for what the other ends have sent.

        Parameters
        ----------
        payload
            A message for every edge, ``[edges, bytes]``.
        used
            The edges over which something is sent, which both ends know; None: all.
        """
        engine = self._engine
        wire = payload.detach().cpu()
        out, back = (self._chosen(which, used) for which in (self._out, self._back))
        sends = [wire.index_select(0, one).contiguous() for one in out]
        receives = [wire.new_empty(len(one), wire.shape[1]) for one in back]
        pending = engine.link.start(sends, receives) if self._peers else None
        found = torch.zeros_like(wire)
        found[self._here] = wire[self._turned]

        def arrived() -> Tensor:
            if pending is not None:
                engine.watch.wait(pending)
            for places, rows in zip(back, receives, strict=True):
                found[places] = rows
            return found.to(payload.device)

        return arrived

    def _chosen(self, which: list[Tensor], used: Tensor | None) -> list[Tensor]:
        if used is None:
            return which
        kept = used.cpu()
        return [one[kept[one]] for one in which]
