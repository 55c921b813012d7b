"""Differences that an edge holds until the next message: for sums that are sent."""

from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from proxmesh.network.links.exchange import aged, column

if TYPE_CHECKING:
    from proxmesh.network.links.bound import BoundNetwork

__all__ = ["HeldExchange"]


@final
class HeldExchange:
    """Sums on their way; where none arrives, the last difference stays.

    The two ends of an edge may be of different iterations for a while, and agree again
    as soon as both have heard of the same one: a loss makes an edge late, never wrong.

    Parameters
    ----------
    sums
        The rows that travel, each a sum over all iterations so far.
    own
        The values that the agents have now.
    network
        The network in one iteration, which holds what the links remember.
    slot
        Number of this exchange in its iteration.
    """

    def __init__(
        self, sums: Tensor, own: Tensor, network: "BoundNetwork", slot: int
    ) -> None:
        self._network = network
        self._slot = slot
        self._own = own
        both = aged(network, slot, torch.stack([sums, own.to(sums)], 1))
        self._sums, self._then = both[:, 0], both[:, 1]
        self._wire = network.world.wire(self._sums.contiguous())
        self._read = False
        network.follow(self.finish)

    def laplacian(self) -> Tensor:
        """Row i: ``sum_j (U_i - U_j)``, of the newest that i has heard of j."""
        self.finish()
        return self._network.world.edges.per_agent(self._after)

    def behind(self) -> Tensor:
        """Row i: ``sum_j (x_i - x_i then)``, then being when i has last heard of j."""
        self.finish()
        edges = self._network.world.edges
        return edges.per_agent(edges.near(self._own) - self._known.to(self._own.dtype))

    def finish(self) -> None:
        """Have the edges remember it, read or not."""
        if self._read:
            return
        self._read = True
        edges = self._network.world.edges
        now = edges.near(self._sums) - edges.far(self._wire.seen())
        self._after = self._replaced("heard_by_edge", now)
        self._known = self._replaced("own_by_edge", edges.near(self._then))

    def _replaced(self, name: str, now: Tensor) -> Tensor:
        network = self._network
        after = now
        if not network.starting:
            heard = network.heard(self._slot)
            if heard is not None:
                before = network.recall(self._slot, name)
                after = torch.where(column(heard, now), now, before)
        network.remember(self._slot, name, after)
        return after
