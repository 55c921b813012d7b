"""The half of a problem that its gradients answer for."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from torch import Tensor

from proxmesh.data.shards import Samples
from proxmesh.data.sparse import SparseWay
from proxmesh.problems.batch_gradients import BatchGradients
from proxmesh.problems.stacked_model import Way

__all__ = ["Differentiated"]


class Differentiated(ABC):
    """A problem whose minibatch gradients are taken in a way that was chosen."""

    @property
    @abstractmethod
    def gradients(self) -> BatchGradients:
        """What takes the minibatch gradients, in the way that was chosen."""

    def grad(self, x: Tensor, batch: Samples) -> Tensor:
        """Row i: gradient of the mean loss at x_i on agent i's part of the batch.

        Parameters
        ----------
        x
            Rows of the local agents, ``[n_local, p]``.
        batch
            From `sample`.
        """
        return self.gradients.grad(x, batch)

    def grad_pair(
        self, x: Tensor, x_old: Tensor, batch: Samples
    ) -> tuple[Tensor, Tensor]:
        """Both gradients of a recursive estimator, in one pass if that is faster.

        Parameters
        ----------
        x, x_old
            Two sets of rows, ``[n_local, p]`` each.
        batch
            From `sample`.
        """
        return self.gradients.grad_pair(x, x_old, batch)

    def hvp(self, x: Tensor, u: Tensor, batch: Samples) -> Tensor:
        """Row i: Hessian of the mean loss at x_i on the batch, times u_i.

        Parameters
        ----------
        x, u
            Rows of the local agents and directions, ``[n_local, p]`` each.
        batch
            From `sample`.
        """
        return self.gradients.hvp(x, u, batch)

    def hessian(self, x: Tensor, i: int, batch: Samples) -> Callable[[Tensor], Tensor]:
        """Hessian of one agent's mean loss, as a function that multiplies by it.

        Parameters
        ----------
        x
            Rows of the local agents, ``[n_local, p]``.
        i
            Which of them.
        batch
            From `sample`.
        """
        return self.gradients.hessian(x, i, batch)

    @property
    def way(self) -> Way:
        """How the gradients of all agents are taken: vmap, channels or loop."""
        return self.gradients.model.way

    @property
    def reason_for_way(self) -> str:
        """Why they are taken in this way, in one line."""
        return self.gradients.reason

    @property
    def paired(self) -> bool:
        """Whether two gradients on one batch are taken in one pass."""
        return self.gradients.paired

    @property
    def taken(self) -> dict[str, Any]:
        """How gradients are taken: `vectorize`, `paired`, `sparse` of the problem."""
        found = {"vectorize": self.way != "loop" and self.way, "paired": self.paired}
        return found if self.sparse is None else {**found, "sparse": self.sparse}

    @property
    @abstractmethod
    def sparse(self) -> SparseWay | None:
        """How the model multiplies by sparse samples; None: they are dense."""
