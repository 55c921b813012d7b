"""The network in one iteration: what its links remember goes in, and comes out new."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor

from proxmesh.network.links.exchange import LinkedExchange
from proxmesh.network.links.held import HeldExchange

if TYPE_CHECKING:
    from proxmesh.network.links.world import LinkedWorld

__all__ = ["BURSTS", "BoundNetwork", "field_of"]

BURSTS = "link_bursts_by_edge"


def field_of(slot: int, name: str) -> str:
    """The field of a state in which links remember something of an exchange."""
    return f"link{slot}_{name}"


@final
class BoundNetwork:
    """A `Network` for the step that makes iterate k, with the memory of its links.

    Nothing in here is changed in place: a step stays a function of its state, and can
    be compiled, repeated and gone on from.

    Parameters
    ----------
    world
        The network.
    k
        The iteration; 0 is `init`, whose exchanges are perfect.
    memory
        What the links remember, by field.
    begun
        Exchanges of an iteration that `init` has made already. The others are perfect
        in iteration 1.
    starting
        Whether this is `init`.
    reliable
        Iterations whose exchanges arrive whatever it takes, as a tensor.
    slot
        Number of the first exchange.
    """

    def __init__(
        self,
        world: "LinkedWorld",
        k: Tensor,
        memory: Mapping[str, Tensor],
        *,
        begun: int,
        starting: bool = False,
        reliable: Tensor | None = None,
        slot: int = 0,
    ) -> None:
        self.world = world
        self.k = k
        self.starting = starting
        self.memory = dict(memory)
        self._begun = begun
        self._reliable = reliable
        self._count = slot
        self._unread: list[Callable[[], None]] = []
        self._bursts: Tensor | None = None
        if world.failures.chains:
            edges = world.edges
            start = torch.zeros(
                len(edges), len(world.failures.chains), device=edges.device
            ).to(edges.dtype)
            self._bursts = start
            if not self.starting:
                self._bursts = world.failures.bursts_after(k, memory[BURSTS])
            self.memory[BURSTS] = self._bursts

    @property
    def degree(self) -> Tensor:
        """Number of neighbors, whether links are up or not."""
        return self.world.degree

    @property
    def n(self) -> int:
        """Number of agents."""
        return self.world.n

    @property
    def max_degree(self) -> int:
        """Largest degree."""
        return self.world.max_degree

    @property
    def mixing_lambda(self) -> float:
        """Second largest absolute eigenvalue of W."""
        return self.world.mixing_lambda

    def exchange(self, x: Tensor) -> LinkedExchange:
        """Send the rows of x, as far as the links let them."""
        return LinkedExchange(x, self, self._next())

    def hold(self, sums: Tensor, own: Tensor) -> HeldExchange:
        """Send sums over all iterations, of which edges hold the newest."""
        return HeldExchange(sums, own, self, self._next())

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

    def follow(self, finish: Callable[[], None]) -> None:
        """Call this at the end of the iteration."""
        self._unread.append(finish)

    def finished(self) -> dict[str, Tensor]:
        """What the links remember after the iteration."""
        for finish in self._unread:
            finish()
        return self.memory

    def is_first(self, slot: int) -> Tensor | None:
        """Whether this is the first exchange of its kind; None: it never is."""
        if self.starting or slot < self._begun:
            return None
        return self.k <= 1

    def recall(self, slot: int, name: str) -> Tensor:
        """What the links remember of the exchange before this one."""
        return self.memory[field_of(slot, name)]

    def remember(self, slot: int, name: str, value: Tensor) -> None:
        """Keep this for the next one."""
        self.memory[field_of(slot, name)] = value

    def up(self, slot: int) -> Tensor | None:
        """The edges that both ends use; None: all."""
        found = self.world.failures.up(self.k, slot, self._bursts)
        first = self.is_first(slot)
        return found if found is None or first is None else found | first

    def open(self) -> Tensor | None:
        """The edges over which something is sent, lost or not; None: all."""
        return self.world.failures.open(self.k)

    def heard(self, slot: int) -> Any:
        """The edges over which something arrives; None: all."""
        found = self.world.failures.heard(self.k, slot, self._bursts)
        if found is None:
            return None
        first = self.is_first(slot)
        if first is not None:
            found = found | first
        if self._reliable is not None:
            found = found | (self.k == self._reliable).any()
        return found

    def keys(self, slot: int, everyone: bool = False) -> Tensor:
        """What compressors draw from: a number for each agent here, or seen here."""
        found = self.world.message_draws.at(self.k, slot)
        return found if everyone else found[: self.world.edges.n_local]

    def noise_keys(self, slot: int) -> Tensor:
        """What noise is drawn from."""
        return self.world.noise_draws.at(self.k, slot)[: self.world.edges.n_local]
