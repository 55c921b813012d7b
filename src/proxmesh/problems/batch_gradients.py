"""Minibatch gradients of all agents, a bounded number of samples at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from proxmesh.data.shards import Samples
from proxmesh.problems.noise import keys_of_piece
from proxmesh.problems.stacked_model import StackedModel

__all__ = ["BatchGradients"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class BatchGradients:
    """Gradients of a stacked model on minibatches.

    Parameters
    ----------
    model
        The model with all agents' rows.
    paired
        Whether two gradients on one batch are taken in one pass of twice the rows.
    chunk_size
        Samples in flight at once.
    reason
        Why this way was chosen.
    """

    model: StackedModel
    paired: bool
    chunk_size: int
    reason: str

    def grad(self, x: Tensor, batch: Samples) -> Tensor:
        """Row i: gradient of the mean loss at x_i on agent i's part of the batch."""
        width = batch.targets.shape[1]
        if width > self.chunk_size:
            out = torch.zeros_like(x)
            for piece in self._columns(batch):
                out += self.grad(x, piece) * (piece.targets.shape[1] / width)
            return out
        parts = self._rows(len(x), batch)
        if len(parts) == 1:
            return self.model.grads(x, batch)
        out = torch.empty_like(x)
        for part in parts:
            out[part] = self.model.grads(x[part], batch.at(part))
        return out

    def grad_pair(
        self, x: Tensor, x_old: Tensor, batch: Samples
    ) -> tuple[Tensor, Tensor]:
        """Both gradients of a recursive estimator, in one pass if that is chosen."""
        if not self.paired or len(self._rows(2 * len(x), batch)) > 1:
            return self.grad(x, batch), self.grad(x_old, batch)
        both = self.model.grads(torch.cat([x, x_old]), batch.doubled())
        return both[: len(x)], both[len(x) :]

    def hvp(self, x: Tensor, u: Tensor, batch: Samples) -> Tensor:
        """Row i: Hessian of the mean loss at x_i on the batch, times u_i."""
        width = batch.targets.shape[1]
        out = torch.zeros_like(x)
        for part in self._rows(len(x), batch):
            for piece in self._columns(batch.at(part)):
                share = piece.targets.shape[1] / width
                out[part] += self.model.products(x[part], u[part], piece) * share
        return out

    def hessian(self, x: Tensor, i: int, batch: Samples) -> Callable[[Tensor], Tensor]:
        """Hessian of the mean loss at x_i alone, as what multiplies a vector by it."""
        width = batch.targets.shape[1]
        pieces = [
            (piece.targets.shape[1] / width, self.model.hessian(x[i], piece))
            for piece in self._columns(batch.at(slice(i, i + 1)))
        ]
        if len(pieces) == 1:
            return pieces[0][1]
        return lambda u: torch.stack([share * times(u) for share, times in pieces]).sum(
            0
        )

    def _rows(self, rows: int, batch: Samples) -> list[slice]:
        """Cut the agents into groups that may be in flight together."""
        at_once = max(1, self.chunk_size // batch.targets.shape[1])
        return [slice(a, a + at_once) for a in range(0, rows, at_once)]

    def _columns(self, batch: Samples) -> Iterator[Samples]:
        """Cut every agent's part of a batch into pieces of at most `chunk_size`."""
        for a in range(0, batch.targets.shape[1], self.chunk_size):
            part = slice(a, a + self.chunk_size)
            yield Samples(
                tuple(x[:, part] for x in batch.inputs),
                batch.targets[:, part],
                keys_of_piece(batch.keys, a),
                batch.table,
            )
