"""The shards of this process, opened: read at once, or left where they are."""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from torch import Tensor

from proxmesh.data.dataset_shard import DatasetShard, is_in_memory
from proxmesh.data.lazy_samples import LazySamples
from proxmesh.data.reading_rows import read_rows, require_readable
from proxmesh.data.shards import Samples, Shard, concatenate, open_shard, size_of
from proxmesh.data.sparse import is_sparse
from proxmesh.errors import InputError, Notice
from proxmesh.limits import available_memory, readable

__all__ = ["Opened", "open_all"]

Opened: TypeAlias = Samples | LazySamples

COPIES = 4  # of the data while it is read: samples, stacked, concatenated, and room


def open_all(
    shards: Sequence[Shard],
    names: Sequence[str],
    cast: Callable[[Samples], Samples],
) -> tuple[Opened, list[int]]:
    """Open shards in any of the accepted forms; one that is lazy makes all of them so.

    Also returns how many samples each of them has.

    Parameters
    ----------
    shards
        See `Shard`.
    names
        Whose they are, for messages.
    cast
        Gives samples the precision and the device that they are used in.
    """
    given = [_described(shard) for shard in shards]
    for shard, name in zip(given, names, strict=True):
        if isinstance(shard, DatasetShard):
            require_readable(shard, name)
    given = _decided(given, names)
    opened = [
        shard
        if isinstance(shard, DatasetShard) and shard.lazy is True
        else _at_once(shard, name)
        for shard, name in zip(given, names, strict=True)
    ]
    sizes = [len(shard) for shard in opened]
    whole = [shard for shard in opened if isinstance(shard, Samples)]
    if len(whole) == len(opened):
        return cast(concatenate(whole)), sizes
    for shard, name in zip(opened, names, strict=True):
        if isinstance(shard, Samples) and shard.table is not None:
            raise InputError(
                f"{name}: its samples are sparse, but those of other shards are dense "
                "and read when they are drawn. Give all of them in one form."
            )
    lazy = [
        DatasetShard((shard.inputs, shard.targets))
        if isinstance(shard, Samples)
        else shard
        for shard in opened
    ]
    return LazySamples(lazy, names, cast), sizes


def _described(shard: Shard) -> Shard:
    """A `DatasetShard`, unless it is a pair of what is in memory."""
    if isinstance(shard, DatasetShard):
        arrays = shard.arrays
        if arrays is None or not any(map(is_sparse, arrays)):
            return shard
        if shard.transform is not None or shard.lazy is True:
            raise InputError(
                "DatasetShard: sparse matrices are kept in memory as they are. Leave "
                "out `transform` and `lazy=True`."
            )
        return arrays[:-1], arrays[-1]
    if not isinstance(shard, tuple | list):
        return DatasetShard(shard)
    if len(shard) == 2 and any(isinstance(x, np.memmap) for x in _flat(shard)):
        inputs, targets = shard
        several = isinstance(inputs, tuple | list)
        return DatasetShard((tuple(inputs) if several else inputs, targets))
    return shard


def _flat(shard: Shard) -> list[object]:
    inputs, targets = shard
    return [*inputs, targets] if isinstance(inputs, tuple | list) else [*shard]


def _decided(shards: list[Shard], names: Sequence[str]) -> list[Shard]:
    """With every ``"auto"`` made True or False."""

    def is_open(shard: Shard) -> bool:
        return isinstance(shard, DatasetShard) and shard.lazy == "auto"

    undecided = [
        (shard, name)
        for shard, name in zip(shards, names, strict=True)
        if is_open(shard) and shard.transform is None and not shard.in_memory
    ]
    size = sum(len(s) * size_of(read_rows(s, [0], name)) for s, name in undecided)
    free = available_memory()
    fits = free is None or COPIES * size <= free
    if not fits:
        warnings.warn(
            f"{readable(size)} of data is read batch by batch, since "
            f"{readable(free or 0)} of memory is free. Use `DatasetShard(..., "
            "lazy=False)` to read them at once.",
            Notice,
            stacklevel=5,
        )
    return [
        dataclasses.replace(
            shard, lazy=shard.transform is not None or not (fits or shard.in_memory)
        )
        if is_open(shard)
        else shard
        for shard in shards
    ]


def _at_once(shard: Shard, who: str) -> Samples:
    if not isinstance(shard, DatasetShard):
        return open_shard(shard, who)
    arrays = shard.arrays
    if arrays is not None and all(isinstance(a, Tensor | np.ndarray) for a in arrays):
        *inputs, targets = (a if is_in_memory(a) else np.array(a) for a in arrays)
        return open_shard((tuple(inputs), targets), who)
    samples = read_rows(shard, range(len(shard)), who)
    return open_shard((samples.inputs, samples.targets), who)
