"""Samples of one `DatasetShard` by index, stacked; what goes wrong names its index."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from proxmesh.data.dataset_shard import DatasetShard, of_keys
from proxmesh.data.shards import Samples
from proxmesh.errors import InputError, shortened

__all__ = ["read_rows", "require_readable"]


@runtime_checkable
class MapStyle(Protocol):
    """What torch calls a map-style Dataset."""

    def __getitem__(self, index: int) -> Any: ...

    def __len__(self) -> int: ...


@runtime_checkable
class InBatches(Protocol):
    """A data set that reads several samples at once, by torch's name for it."""

    def __getitems__(self, indices: list[int]) -> Sequence[Any]: ...


def require_readable(shard: DatasetShard, who: str) -> None:
    """Refuse what has no samples, or none that can be found by index."""
    arrays = shard.arrays
    if isinstance(shard.dataset, tuple) and arrays is None:
        raise _not_a_pair(who, shard.dataset)
    for part in (shard.dataset,) if arrays is None else arrays:
        if not isinstance(part, MapStyle):
            raise InputError(
                f"{who}: expected (inputs, targets) or a map-style Dataset, got "
                f"{type(part).__name__}."
            )
        if len(part) != len(shard):
            raise InputError(
                f"{who}: {len(part)} inputs but {len(shard)} targets; they must pair "
                "up."
            )
    if not len(shard):
        raise InputError(f"{who} has no samples; every agent needs at least one.")


def read_rows(
    shard: DatasetShard,
    rows: Sequence[int],
    who: str,
    seeds: Sequence[int] | None = None,
) -> Samples:
    """Read samples by their indices and stack them.

    Parameters
    ----------
    shard
        Whose samples.
    rows
        Their indices.
    who
        Whose shard it is, for messages.
    seeds
        What is random in the transform of each; None: nothing is.
    """
    if shard.arrays is not None and shard.transform is None:
        *inputs, targets = (_gathered(a, rows, who) for a in shard.arrays)
        return Samples(tuple(inputs), targets)
    generator = None if seeds is None else torch.Generator()
    pairs = []
    for i, (index, sample) in enumerate(zip(rows, _raw(shard, rows, who), strict=True)):
        name = f"{who}, sample {index}"
        if generator is not None and seeds is not None:
            generator.manual_seed(seeds[i])
        if shard.transform is not None:
            try:
                sample = shard.transform(sample, generator)  # noqa: PLW2901
            except Exception as error:  # it is the user's
                raise _failed(f"{name}: `transform`", error) from error
        pairs.append(_pair(sample, shard.columns, name))
    columns = zip(*pairs, strict=True)
    *inputs, targets = (_stacked(column, rows, who) for column in columns)
    return Samples(tuple(inputs), targets)


def _raw(shard: DatasetShard, rows: Sequence[int], who: str) -> Sequence[Any]:
    """Samples as the data set gives them."""
    if shard.arrays is not None:
        parts = [_gathered(array, rows, who) for array in shard.arrays]
        if shard.columns is not None:
            names = shard.columns
            return [
                dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)
            ]
        *inputs, targets = parts
        if len(inputs) == 1:
            return list(zip(inputs[0], targets, strict=True))
        return list(zip(zip(*inputs, strict=True), targets, strict=True))
    dataset = shard.dataset
    if isinstance(dataset, InBatches):
        with suppress(Exception):  # one by one, it is seen which sample it was
            return dataset.__getitems__(list(rows))
    return _one_by_one(dataset, rows, who)


def _one_by_one(dataset: Any, rows: Sequence[int], who: str) -> list[Any]:
    found = []
    for index in rows:
        try:
            found.append(dataset[index])
        except Exception as error:  # it is the user's
            raise _failed(f"{who}, sample {index}", error) from error
    return found


def _gathered(array: Any, rows: Sequence[int], who: str) -> Tensor:
    """Rows of one array, copied out of the file that may be behind it."""
    if isinstance(array, Tensor):
        return array[torch.as_tensor(rows, device=array.device)]
    if not isinstance(array, np.ndarray):
        return _stacked(_one_by_one(array, rows, who), rows, who)
    try:
        return torch.from_numpy(np.asarray(array[list(rows)]))
    except Exception as error:  # a file that was cut off, a type that torch lacks
        raise _failed(f"{who}, sample {rows[0]}", error) from error


def _pair(sample: Any, columns: Sequence[str] | None, who: str) -> tuple[Any, ...]:
    """A sample as its inputs, then its target."""
    if isinstance(sample, Mapping):
        if columns is None:
            raise InputError(f"{who}: {of_keys(sample)}")
        for name in columns:
            if name not in sample:
                names = shortened(", ".join(map(str, sample)))
                raise InputError(f"{who} has no column `{name}`; it has {names}.")
        return tuple(sample[name] for name in columns)
    if not isinstance(sample, tuple | list) or len(sample) != 2:
        raise _not_a_pair(who, sample)
    inputs, target = sample
    return (*inputs, target) if _are_several(inputs) else (inputs, target)


def _are_several(inputs: Any) -> bool:
    """Whether these are several inputs, and not one that is a list of numbers."""
    if isinstance(inputs, list):
        return bool(inputs) and isinstance(inputs[0], Tensor | np.ndarray)
    return isinstance(inputs, tuple)


def _stacked(values: Sequence[Any], rows: Sequence[int], who: str) -> Tensor:
    """One tensor of the same part of several samples."""
    try:
        if isinstance(values[0], Tensor):
            return torch.stack(list(values))
        return torch.from_numpy(np.stack(values))
    except Exception as error:  # of what is no number, or of different shapes
        raise _cannot_stack(values, rows, who) from error


def _cannot_stack(values: Sequence[Any], rows: Sequence[int], who: str) -> InputError:
    first = None
    for index, value in zip(rows, values, strict=True):
        try:
            shape = tuple(torch.as_tensor(value).shape)
        except Exception:  # of what is no number
            return InputError(
                f"{who}, sample {index}: `{type(value).__name__}` cannot become a "
                "tensor. Make it one in a `transform`."
            )
        first = shape if first is None else first
        if shape != first:
            return InputError(
                f"{who}: sample {index} has the shape {shape} but sample {rows[0]} "
                f"has {first}. Make them equal in a `transform`."
            )
    kind = type(values[0]).__name__
    return InputError(f"{who}: samples are not all of the kind `{kind}`.")


def _not_a_pair(who: str, given: Any) -> InputError:
    if not isinstance(given, tuple | list):
        return InputError(
            f"{who}: expected pairs (inputs, targets), got {type(given).__name__}."
        )
    return InputError(
        f"{who}: expected a pair (inputs, targets), got {len(given)} parts. "
        "Several inputs go into a tuple: ((a, b), targets)."
    )


def _failed(who: str, error: Exception) -> InputError:
    lines = str(error).strip().splitlines() or ["no reason was given"]
    reason = f"{type(error).__name__}: {shortened(lines[0], 200)}"
    return InputError(f"{who} cannot be read. {reason.rstrip('.')}.")
