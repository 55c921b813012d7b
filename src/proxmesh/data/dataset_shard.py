"""A shard that is read sample by sample: whole, or as batches need it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from proxmesh.errors import InputError, shortened, unknown

__all__ = ["DatasetShard", "Transform"]

Transform: TypeAlias = Callable[[Any, torch.Generator | None], Any]
"""``transform(sample, generator)``: a sample as the data set gives it, made into one
that can be trained on. The generator is None where nothing may be random."""

LAZY = ("auto", True, False)


@final
@dataclass(frozen=True, slots=True, eq=False)
class DatasetShard:
    """One agent's data, read by index: files on disk, arrays larger than memory.

    Goes wherever a shard goes: into `shards` and `test` of `proxmesh.LearningProblem`.
    A plain map-style data set ``d`` in its place means ``DatasetShard(d)``.

    Parameters
    ----------
    dataset
        Anything with ``len(dataset)`` and ``dataset[i]``, whose samples are pairs
        ``(input, target)`` or dicts; a pair of arrays ``(inputs, targets)``, such as
        `numpy.memmap`; or a dict of such arrays. Several inputs go into a tuple.
    columns
        Which keys of a dict are used: the inputs in the order of the model's
        arguments, then the target. ``("image", "label")``, for example.
    transform
        ``transform(sample, generator)`` is called for every sample that is drawn, and
        returns a pair or a dict. Its randomness must come from the `torch.Generator`,
        which is seeded by (seed, agent, iteration, position in the batch): both
        gradients of an iteration, every engine and a resumed run see the same sample.
        In evaluations the generator is None, and the transform must not be random.
    lazy
        True: batches are read when they are drawn. False: all is read at once, which
        is faster where it fits, and leaves no room for a `transform`. ``"auto"``: at
        once, unless there is a `transform` or the data of all agents of this process
        would take more than a quarter of the free memory.
    prefetch
        Whether the next batch is read in a thread while gradients run. Say False for
        a data set that only the thread may read that has opened it, such as sqlite.

    Examples
    --------
    >>> import proxmesh as pm
    >>> rows = [{"pixels": [0.0, i / 20], "label": i % 2} for i in range(20)]
    >>> def noisy(row, generator):
    ...     pixels = torch.tensor(row["pixels"])
    ...     if generator is not None:
    ...         pixels += 0.1 * torch.randn(2, generator=generator)
    ...     return pixels, row["label"]
    >>> shard = pm.DatasetShard(rows, transform=noisy)
    >>> problem = pm.LearningProblem(
    ...     torch.nn.Linear(2, 2), torch.nn.functional.cross_entropy, [shard] * 4)
    >>> problem.lazy, problem.sample(3).inputs[0].shape
    (True, torch.Size([4, 16, 2]))
    """

    dataset: Any
    columns: Sequence[str] | None = None
    transform: Transform | None = None
    lazy: bool | Literal["auto"] = "auto"
    prefetch: bool = True

    def __post_init__(self) -> None:
        who = "DatasetShard"
        if self.lazy not in LAZY:
            raise unknown("value", self.lazy, map(str, LAZY), "`lazy`")
        if self.transform is not None and not callable(self.transform):
            raise InputError(
                f"{who}: `transform` must be a function of a sample and a generator, "
                f"got {shortened(self.transform)}."
            )
        if self.transform is not None and self.lazy is False:
            raise InputError(
                f"{who}: a `transform` is called for every draw, so the shard cannot "
                "be read at once. Leave out `lazy=False`."
            )
        if self.columns is not None and not _are_names(self.columns):
            raise InputError(
                f"{who}: `columns` must name at least an input and the target, such "
                f'as ("image", "label"), got {shortened(self.columns, write=repr)}.'
            )
        if isinstance(self.dataset, Mapping) and self.columns is None:
            raise InputError(f"{who}: {of_keys(self.dataset)}")

    def __len__(self) -> int:
        arrays = self.arrays
        return len(self.dataset if arrays is None else arrays[-1])

    @property
    def arrays(self) -> tuple[Any, ...] | None:
        """The inputs' arrays, then the targets'; None where samples come in rows."""
        if isinstance(self.dataset, Mapping):
            return tuple(self.dataset[name] for name in self.columns or ())
        if not isinstance(self.dataset, tuple) or len(self.dataset) != 2:
            return None
        inputs, targets = self.dataset
        several = isinstance(inputs, tuple)
        return (*inputs, targets) if several else (inputs, targets)

    @property
    def in_memory(self) -> bool:
        """Whether all of it is in memory already."""
        return self.arrays is not None and all(map(is_in_memory, self.arrays))


def of_keys(row: Mapping[Any, Any]) -> str:
    """Ask for names of columns."""
    names = shortened(", ".join(map(str, row)))
    return (
        f"its data has the keys {names}. Say which are the inputs and the target: "
        'DatasetShard(dataset, columns=("image", "label")).'
    )


def is_in_memory(array: Any) -> bool:
    """Whether an array's numbers are in memory, and not in a file behind it."""
    return isinstance(array, Tensor) or type(array) is np.ndarray


def _are_names(columns: Any) -> bool:
    listed = isinstance(columns, Sequence) and not isinstance(columns, str)
    return listed and len(columns) > 1 and all(isinstance(c, str) for c in columns)
