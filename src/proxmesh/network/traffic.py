"""Count what an algorithm really sends, to check what it declares."""

from dataclasses import dataclass
from typing import final

from torch import Tensor

from proxmesh.types import Exchange, Reduction, World

__all__ = ["CountingNetwork", "Traffic"]


@dataclass(slots=True)
class Traffic:
    """What was sent so far."""

    vectors: int = 0  # p-vectors that each agent has sent to each neighbor
    exchanges: int = 0  # calls of `exchange`


@final
class CountingNetwork:
    """A network that counts what is sent; all else is left to the wrapped engine.

    For tests and eager runs: a counter inside the step would make `torch.compile`
    compile again at every iteration, which is why algorithms declare their `Cost`.

    Parameters
    ----------
    network
        The engine to count on.

    Examples
    --------
    >>> import torch
    >>> from proxmesh import connect, graphs
    >>> network = CountingNetwork(connect(graphs.ring(4)))
    >>> _ = network.exchange(torch.zeros(4, 10)).mix()
    >>> network.traffic
    Traffic(vectors=1, exchanges=1)
    """

    def __init__(self, network: World) -> None:
        self._network = network
        self.traffic = Traffic()
        self.n = network.n
        self.degree = network.degree
        self.max_degree = network.max_degree

    @property
    def mixing_lambda(self) -> float:
        """Second largest absolute eigenvalue of W."""
        return self._network.mixing_lambda

    def exchange(self, x: Tensor) -> Exchange:
        """Count the vectors in x: 1 for ``[n_local, p]``, m for ``[n_local, m, p]``."""
        self.traffic.vectors += x[0].numel() // x.shape[-1]
        self.traffic.exchanges += 1
        return self._network.exchange(x)

    def reduce(self, x: Tensor, op: Reduction) -> Tensor:
        """Reduce over all agents; not counted, as no edge carries it."""
        return self._network.reduce(x, op)
