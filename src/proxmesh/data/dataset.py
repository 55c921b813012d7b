"""A labeled data set, and how it is dealt out to agents."""

from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proxmesh.data.partition import partition

__all__ = ["Arrays", "Dataset"]

Arrays: TypeAlias = tuple[NDArray[Any], NDArray[Any]]
"""Inputs and labels."""


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dataset:
    """A labeled training set, with a test set where there is one.

    Parameters
    ----------
    name
        What it is called in messages and records.
    inputs, targets
        Training samples ``[N, ...]`` in float32 and their labels ``[N]`` in int64.
    num_classes
        Labels are 0 .. ``num_classes - 1``.
    test
        Inputs and targets of the test set.

    Examples
    --------
    >>> from proxmesh.data.datasets import digits
    >>> digits()
    Dataset(digits: 1,347 training samples of 64 features, 10 classes)
    """

    name: str
    inputs: Tensor
    targets: Tensor
    num_classes: int
    test: tuple[Tensor, Tensor] | None = None

    @staticmethod
    def of(name: str, train: Arrays, test: Arrays) -> "Dataset":
        """Build it from arrays of inputs and labels 0, 1, 2, ...

        Parameters
        ----------
        name
            What it is called.
        train, test
            Inputs and labels.
        """

        def tensors(arrays: Arrays) -> tuple[Tensor, Tensor]:
            inputs = torch.from_numpy(np.ascontiguousarray(arrays[0], np.float32))
            return inputs, torch.from_numpy(arrays[1].astype(np.int64))

        inputs, targets = tensors(train)
        return Dataset(name, inputs, targets, int(targets.max()) + 1, tensors(test))

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name}: {len(self.inputs):,} training samples of "
            f"{self.features} features, {self.num_classes} classes)"
        )

    @property
    def features(self) -> int:
        """Numbers per sample."""
        return self.inputs[0].numel()

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
    ) -> list[tuple[Tensor, Tensor]]:
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
        rows = partition(self.targets.numpy(), n, how, **options)
        return [(self.inputs[r], self.targets[r]) for r in map(torch.from_numpy, rows)]
