"""One exchange over imperfect links: what is sent, and what is made of it.

Every result is a sum of differences ``delta_ij`` that the two ends of an edge agree on,
``delta_ij = -delta_ji``: so multipliers keep adding up to 0, and trackers to their sum.
"""

import math
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor

from proxmesh.hashing import uniform
from proxmesh.network.links.packed import Copies, DifferenceWire, shifted

if TYPE_CHECKING:
    from proxmesh.network.links.bound import BoundNetwork

__all__ = ["LinkedExchange", "aged", "column"]


@final
class LinkedExchange:
    """Rows on their way over links that lose, delay or compress them.

    Parameters
    ----------
    x
        The rows.
    network
        The network in one iteration, which holds what the links remember.
    slot
        Number of this exchange in its iteration.
    """

    def __init__(self, x: Tensor, network: "BoundNetwork", slot: int) -> None:
        self._x = x
        self._slot = slot
        self._network = network
        self._world = network.world
        self._plan = network.world.plan
        self._first = network.is_first(slot)
        self._packed = self._world.packs and not self._is_whole()
        self._payload: Tensor | None = None
        self._sent = self._total_of(aged(network, slot, self._held(x)))
        self._noisy = self._sent
        if self._plan.noise is not None and not network.starting:
            self._noisy = self._sent + self._noise(self._sent)
        self._delta: Tensor | None = None
        self._messages: Any = None
        self._wire: Any = self._started()
        network.follow(self.finish)

    def laplacian(self) -> Tensor:
        """Row i: ``sum_j delta_ij``."""
        if self._network.starting:
            start: Tensor = self._of_start(self._wire.laplacian)
            return start
        if self._plan.is_by_edge:
            return self._world.edges.per_agent(self._by_edge()[0])
        return self._weighted()

    def pull(self) -> Tensor:
        """Row i: the same with the agent's own newest x_i."""
        if self._network.starting:
            return self.laplacian()
        if self._plan.silent is not None:
            return self.laplacian()  # a sum over time has no newest value
        if self._plan.is_by_edge:
            delta, own, up = self._by_edge()
            left = self._world.edges.near(self._x) - own
            return self._world.edges.per_agent(delta + _times(up, left))
        return self._weighted() + self._degree() * (self._x - self._sent)

    def mix(self) -> Tensor:
        """Row i: ``x_i - sum_j w_ij delta_ij``."""
        if self._network.starting:
            start: Tensor = self._of_start(self._wire.mix)
            return start
        edges = self._world.edges
        if self._plan.is_by_edge:
            delta = self._by_edge()[0]
            return self._x - edges.per_agent(_times(edges.mixing, delta))
        up = self._network.up(self._slot)
        if up is None and self._plan.noise is None:
            mixed: Tensor = self._wire.mix()
            return mixed if self._sent is self._x else self._x - self._sent + mixed
        return self._x - self._weighted(edges.mixing)

    def _is_whole(self) -> bool:
        """Whether this exchange is the first of its kind, which is not compressed."""
        first = self._first
        return self._network.starting or (first is not None and bool(first))

    def _started(self) -> Any:
        """Send; between processes differences are packed."""
        plan, network, world = self._plan, self._network, self._world
        if not world.packs:
            return world.wire(self._noisy)
        if plan.has_edge_references:
            if not self._packed:
                return world.wire(self._noisy)
            if int(network.k) % plan.every == 0:
                self._messages = self._sent_by_edge()
            return None
        if not self._packed:
            return _Remembering(world.wire(self._noisy), self)
        copies = self._copies()
        if int(network.k) % plan.every:
            self._payload = None

        def add(payload: Tensor | None) -> Tensor:
            known = copies.known
            if payload is not None and plan.compressed is None:
                known = payload
            elif payload is not None:
                everyone = network.keys(self._slot, everyone=True)
                keys = everyone[len(self._x) :]
                known = known + world.packer.unpacked(payload, keys, self._x)
            return self._kept(known, copies.queue)

        return DifferenceWire(world.joined, self._sent, self._payload, add)

    def _copies(self) -> Copies:
        """What is known of other processes' agents; if it does not fit, it is sent."""
        world, slot = self._world, self._slot
        copies, (known, before) = world.copies.get(slot), self._before
        if copies is not None and copies.of is known:
            return copies
        ours = len(known)
        queue = None if before is None else world.wire(before).seen()[ours:]
        return Copies(known, world.wire(known).seen()[ours:].clone(), queue)

    def keep(self, seen: Tensor) -> None:
        """Remember the rows of a whole exchange, to which differences will be sent."""
        others = seen[len(self._x) :]
        delay = self._plan.delay
        if delay is not None and delay.random and not self._network.starting:
            others = others[:, -1]
        self._kept(others, None)

    def _queue(self) -> Tensor | None:
        """What was sent before, where messages are late."""
        if self._plan.delay is None:
            return None
        return self._network.recall(self._slot, "queue")

    def _kept(self, known: Tensor, queue: Tensor | None) -> Tensor:
        """Keep what is known of others now; what neighbors of theirs go by."""
        delay, sent = self._plan.delay, known
        if delay is not None:
            if queue is None:
                queue = known[:, None].expand(-1, delay.tau, *known.shape[1:])
            sent, queue = shifted(queue, known, delay.random)
        ours = self._network.recall(self._slot, "known")
        self._world.copies[self._slot] = Copies(ours, known, queue)
        return known if self._network.starting else sent

    def _sent_by_edge(self) -> Any:
        """Send every edge's packed difference to its reference at the other end."""
        network, edges, slot = self._network, self._world.edges, self._slot
        known = network.recall(slot, "near_by_edge")
        keys = edges.near(network.keys(slot))
        payload = self._world.packer.packed(self._near() - known, keys)
        return self._world.along.start(payload, network.open())

    def finish(self) -> None:
        """Have the links remember what this exchange leaves, read or not."""
        if isinstance(self._wire, DifferenceWire | _Remembering):
            self._wire.finish()
        if self._plan.is_by_edge:
            if self._network.starting:
                self._of_start(lambda: None)
            else:
                self._by_edge()

    def _held(self, x: Tensor) -> Tensor:
        """What the neighbors know of x: compressed, or of the last talk."""
        plan, network = self._plan, self._network
        if plan.has_edge_references or (plan.compressed is None and plan.every == 1):
            return x
        found = x
        if not network.starting:
            known = network.recall(self._slot, "known")
            self._before = known, self._queue()
            self._payload = x
            if plan.compressed is not None:
                keys, packer = network.keys(self._slot), self._world.packer
                found = known + packer.compressed(x - known, keys)
                if self._packed:
                    self._payload = packer.packed(x - known, keys)
            if plan.every > 1:
                found = torch.where(network.k % plan.every == 0, found, known)
            if self._first is not None:
                found = torch.where(self._first, x, found)
        network.remember(self._slot, "known", found)
        return found

    def _total_of(self, rows: Tensor) -> Tensor:
        """Where a loss is silent: the sum of all rows so far, in float64."""
        if self._plan.silent is None:
            return rows
        if self._network.starting:
            self._network.remember(self._slot, "total", rows.double())
            return rows
        total = self._network.recall(self._slot, "total") + rows
        self._network.remember(self._slot, "total", total)
        return total

    def _weighted(self, weights: Tensor | None = None) -> Tensor:
        """``sum_j weights_ij (x_i - x_j)`` over the edges that are up."""
        up = self._network.up(self._slot)
        if up is None and weights is None:
            found: Tensor = self._wire.laplacian()
        else:
            edges = self._world.edges
            found = edges.weighted(self._wire.seen(), self._used(weights, up))
        if self._plan.noise is None:
            return found
        return found + self._degree(weights) * (self._sent - self._noisy)

    def _used(self, weights: Tensor | None, up: Tensor | None) -> Tensor:
        """Weights of the edges, 0 of those that are left out."""
        if weights is None:
            weights = torch.ones_like(self._world.edges.mixing)
        return weights if up is None else weights * up

    def _degree(self, weights: Tensor | None = None) -> Tensor:
        """Weights of the edges that are up, summed for each agent, as a column."""
        up, edges = self._network.up(self._slot), self._world.edges
        if up is None and weights is None:
            found = self._world.degree
        else:
            found = edges.per_agent(self._used(weights, up))
        return column(found, self._x)

    def _by_edge(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Differences, own values as the edge knows them, and which edges are up."""
        if self._delta is None:
            self._delta, self._own, self._up = self._differences()
        return self._delta, self._own, self._up

    def _differences(self) -> tuple[Tensor, Tensor, Tensor | None]:
        network, edges, slot = self._network, self._world.edges, self._slot
        if self._plan.has_edge_references and self._packed:
            return self._from_messages()
        own, other = self._ends(self._wire.seen())
        if self._plan.silent is not None:
            heard = network.heard(slot)
            before, now = network.recall(slot, "heard_by_edge"), own - other
            after = torch.where(column(heard, now), now, before)
            network.remember(slot, "heard_by_edge", after)
            return (after - before).to(self._x.dtype), own, heard
        up = network.up(slot)
        if self._plan.has_edge_references:
            keys = network.keys(slot, everyone=True)
            mine = self._moved("near_by_edge", own, edges.near(keys), up)
            if edges.turned is None:
                theirs = self._moved("far_by_edge", other, edges.far(keys), up)
            else:  # the same numbers, computed once
                theirs = mine.index_select(0, edges.turned)
                network.remember(slot, "far_by_edge", theirs)
            return _times(up, mine - theirs), mine, up
        return _times(up, own - other), own, up

    def _from_messages(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """The same between processes: the other end's reference by what it has sent."""
        network, edges, slot = self._network, self._world.edges, self._slot
        up, packer = network.up(slot), self._world.packer
        near = edges.near(network.keys(slot))
        mine = self._moved("near_by_edge", self._near(), near, up)
        theirs = network.recall(slot, "far_by_edge")
        if self._messages is not None:
            keys = edges.far(network.keys(slot, everyone=True))
            step = packer.unpacked(self._messages(), keys, self._x)
            theirs = self._where_up("far_by_edge", theirs + step, up)
        return _times(up, mine - theirs), mine, up

    def _near(self) -> Tensor:
        """Rows of each edge's own agent, of the iteration that the edge is at."""
        edges, ages = self._world.edges, self._world.ages
        own = self._sent  # without the noise that the neighbors get
        if ages is None:
            return edges.near(own)
        return own.flatten(0, 1).index_select(0, edges.own * own.shape[1] + ages)

    def _ends(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of both ends of each edge, of the iteration that the edge is at."""
        edges, ages = self._world.edges, self._world.ages
        if ages is None:
            return self._near(), edges.far(seen)
        places = edges.other * seen.shape[1] + ages
        return self._near(), seen.flatten(0, 1).index_select(0, places)

    def _moved(self, name: str, rows: Tensor, keys: Tensor, up: Any) -> Tensor:
        """References of the edges, moved toward these rows where they are up."""
        known = self._network.recall(self._slot, name)
        moved = known + self._world.packer.compressed(rows - known, keys)
        if self._first is not None:
            moved = torch.where(self._first, rows, moved)
        return self._where_up(name, moved, up)

    def _where_up(self, name: str, moved: Tensor, up: Any) -> Tensor:
        """New references of the edges that are up; the others keep theirs."""
        known = self._network.recall(self._slot, name)
        if self._plan.every > 1:
            up = up & (self._network.k % self._plan.every == 0)
        if self._first is not None:
            up = up | self._first
        found = torch.where(column(up, moved), moved, known)
        self._network.remember(self._slot, name, found)
        return found

    def _noise(self, rows: Tensor) -> Tensor:
        """Normal numbers, from two uniform ones each."""
        assert self._plan.noise is not None
        keys = self._network.noise_keys(self._slot)[:, None]
        width = rows[0].numel()
        both = uniform(keys, 2 * width, self._plan.noise.seed, rows)
        length = (-2 * torch.log1p(-both[:, :width])).sqrt()
        normal = length * (2 * math.pi * both[:, width:]).cos()
        return (self._plan.noise.sigma * normal).to(rows.dtype).view(rows.shape)

    def _of_start(self, read: Any) -> Any:
        """Read the first exchange, which is perfect; edges begin with its values."""
        if self._plan.is_by_edge and self._delta is None:
            edges = self._world.edges
            own, other = edges.near(self._x), edges.far(self._wire.seen())
            self._delta = own - other
            remember = self._network.remember
            if self._plan.silent is not None:
                exact = own.double() - other.double()
                remember(self._slot, "heard_by_edge", exact)
            elif self._plan.has_edge_references:
                remember(self._slot, "near_by_edge", own)
                remember(self._slot, "far_by_edge", other)
        return read()


@final
class _Remembering:
    """A whole exchange after which differences to it will travel."""

    def __init__(self, wire: Any, exchange: LinkedExchange) -> None:
        self._wire = wire
        self._exchange = exchange
        self._seen: Tensor | None = None

    def seen(self) -> Tensor:
        """All rows that arrive here."""
        if self._seen is None:
            self._seen = self._wire.seen()
            self._exchange.keep(self._seen)
        return self._seen

    def laplacian(self) -> Tensor:
        """Of the engine."""
        self.seen()
        found: Tensor = self._wire.laplacian()
        return found

    def mix(self) -> Tensor:
        """Of the engine."""
        self.seen()
        found: Tensor = self._wire.mix()
        return found

    def finish(self) -> None:
        """Take in what has arrived, read or not."""
        self.seen()


def aged(network: "BoundNetwork", slot: int, rows: Tensor) -> Tensor:
    """The rows of some iterations ago; with random delays, of all up to now."""
    delay = network.world.plan.delay
    if delay is None:
        return rows
    past = rows[:, None].expand(len(rows), delay.tau, *rows.shape[1:])
    if not network.starting:
        start, past = past, network.recall(slot, "queue")
        first = network.is_first(slot)
        past = past if first is None else torch.where(first, start, past)
    found, queue = shifted(past, rows, delay.random)
    network.remember(slot, "queue", queue)
    return rows if network.starting else found


def column(values: Tensor, like: Tensor) -> Tensor:
    """One number for each row, ready to be multiplied with rows of any shape."""
    return values.view(-1, *[1] * (like.ndim - 1))


def _times(weights: Tensor | None, rows: Tensor) -> Tensor:
    return rows if weights is None else rows * column(weights.to(rows.dtype), rows)
