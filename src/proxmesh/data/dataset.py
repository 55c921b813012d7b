"""A labeled data set, and how it is dealt out to agents."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proxmesh.data.partition import partition
from proxmesh.data.sparse import SparseTable, is_sparse

__all__ = ["Arrays", "Dataset", "as_tensors"]

Arrays: TypeAlias = tuple[Any, NDArray[Any]]
"""Inputs, dense or sparse, and labels."""

TENTHS = 10  # into which numbers are put for a split by Dirichlet proportions


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dataset:
    """A labeled training set, with a test set where there is one.

    Parameters
    ----------
    name
        What it is called in messages and records.
    inputs, targets
        Training samples ``[N, ...]`` in float32, large sparse ones as a
        `SparseTable`, and their labels ``[N]`` in int64; in float32 if numbers are to
        be predicted.
    num_classes
        Labels are 0 .. ``num_classes - 1``; 1 for numbers.
    test
        Inputs and targets of the test set.
    labels
        What the classes are called in the file that they are from.
    scaling
        Means and scales of the features before they were standardized.

    Examples
    --------
    >>> from proxmesh.data.datasets import digits
    >>> digits()
    Dataset(digits: 1,347 training samples of 64 features, 10 classes)
    """

    name: str
    inputs: Any  # a Tensor, or a SparseTable
    targets: Tensor
    num_classes: int
    test: tuple[Any, Tensor] | None = None
    labels: tuple[Any, ...] = ()
    scaling: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    @staticmethod
    def of(
        name: str, train: Arrays, test: Arrays, labels: Sequence[Any] = ()
    ) -> "Dataset":
        """Build it from arrays of inputs and labels 0, 1, 2, ..., or of numbers.

        Parameters
        ----------
        name
            What it is called.
        train, test
            Inputs and labels.
        labels
            What the classes are called.
        """
        inputs, targets = as_tensors(train)
        outputs = 1 if targets.is_floating_point() else int(targets.max()) + 1
        return Dataset(name, inputs, targets, outputs, as_tensors(test), tuple(labels))

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name}: {len(self.inputs):,} training samples of "
            f"{self.features} features, "
            f"{'numbers' if self.predicts_numbers else f'{self.num_classes} classes'})"
        )

    @property
    def predicts_numbers(self) -> bool:
        """Whether targets are numbers, and not classes."""
        return self.targets.is_floating_point()

    @property
    def features(self) -> int:
        """Numbers per sample."""
        return math.prod(self.inputs.shape[1:])

    def shaped(self, *shape: int) -> "Dataset":
        """Return it with samples of another shape.

        Parameters
        ----------
        shape
            Of one sample; as many numbers as before.

        Examples
        --------
        >>> from proxmesh.data.datasets import digits
        >>> digits().shaped(1, 8, 8).inputs.shape
        torch.Size([1347, 1, 8, 8])
        """

        def viewed(inputs: Tensor) -> Tensor:
            return inputs.reshape(len(inputs), *shape)

        test = None if self.test is None else (viewed(self.test[0]), self.test[1])
        return replace(self, inputs=viewed(self.inputs), test=test)

    def split(
        self, n: int, how: str = "contiguous", **options: Any
    ) -> list[tuple[Any, Tensor]]:
        """Deal the training set out to n agents.

        Parameters
        ----------
        n
            Number of agents.
        how
            ``contiguous`` (the papers' blocks), ``shuffled``, ``by-label``,
            ``dirichlet`` or ``unequal``; see `proxmesh.data.partition`.
        options
            ``seed``, ``alpha`` for dirichlet, ``sizes`` for unequal.

        Examples
        --------
        >>> from proxmesh.data.datasets import digits
        >>> [len(targets) for _, targets in digits().split(3, "unequal")]
        [224, 449, 674]
        """
        labels = self.targets.numpy()
        if self.predicts_numbers and how == "dirichlet":
            ranks = labels.argsort(kind="stable").argsort(kind="stable")
            labels = ranks * TENTHS // len(labels)
        rows = partition(labels, n, how, **options)
        take = self.inputs.take if self._is_sparse else self.inputs.__getitem__
        return [(take(r), self.targets[r]) for r in map(torch.from_numpy, rows)]

    @property
    def _is_sparse(self) -> bool:
        return isinstance(self.inputs, SparseTable)


def as_tensors(arrays: Arrays) -> tuple[Any, Tensor]:
    """Inputs in float32, or as a sparse table, and labels.

    Parameters
    ----------
    arrays
        Inputs and labels.

    Examples
    --------
    >>> as_tensors((np.eye(2), np.array([0, 1])))[1]
    tensor([0, 1])
    """
    x, y = arrays
    targets = torch.from_numpy(
        y.astype(np.float32 if y.dtype.kind == "f" else np.int64)
    )
    if is_sparse(x):
        table = SparseTable.of(x).to(targets.device, torch.float32)
        return replace(table, or_dense=True), targets
    return torch.from_numpy(np.ascontiguousarray(x, np.float32)), targets
