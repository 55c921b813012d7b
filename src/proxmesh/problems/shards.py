"""The agents' training data, opened once and stacked."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import torch
from torch import Tensor
from torch.utils.data import default_collate

from proxmesh.errors import InputError

__all__ = ["Samples", "Shard", "Shards", "open_shard", "stacked"]

Shard: TypeAlias = Any
"""(inputs, targets) or a map-style Dataset; inputs a tensor or a tuple of tensors."""

Shards: TypeAlias = Sequence[Shard] | Mapping[int, Shard] | Callable[[int], Shard]
"""One shard an agent: by position, by agent id, or opened when asked for."""


@final
@dataclass(frozen=True, slots=True)
class Samples:
    """Samples along dim 0: what the model takes, and what the loss compares with."""

    inputs: tuple[Tensor, ...]
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, rows: Tensor) -> "Samples":
        """Gather rows; the result has the shape of `rows` in front."""
        flat = rows.reshape(-1)

        def taken(x: Tensor) -> Tensor:
            return x.index_select(0, flat).view(*rows.shape, *x.shape[1:])

        return Samples(tuple(map(taken, self.inputs)), taken(self.targets))

    def at(self, part: slice) -> "Samples":
        """Cut a piece out along dim 0."""
        return Samples(tuple(x[part] for x in self.inputs), self.targets[part])

    def slices(self, size: int) -> "list[Samples]":
        """Cut into consecutive pieces of at most `size`."""
        return [self.at(slice(a, a + size)) for a in range(0, len(self), size)]

    def doubled(self) -> "Samples":
        """Everything twice, one after the other."""
        return Samples(
            tuple(torch.cat([x, x]) for x in self.inputs),
            torch.cat([self.targets, self.targets]),
        )

    def cast(self, dtype: torch.dtype, device: torch.device) -> "Samples":
        """Move, and give floating point tensors this precision."""

        def moved(t: Tensor) -> Tensor:
            return t.to(device, dtype if t.is_floating_point() else t.dtype)

        return Samples(tuple(moved(x) for x in self.inputs), moved(self.targets))


def open_shard(shard: Shard, who: str) -> Samples:
    """Read one shard in any of the accepted forms and check it."""
    if not isinstance(shard, tuple | list):
        shard = _collated(shard, who)
    if not isinstance(shard, tuple | list):
        raise InputError(
            f"{who}: expected pairs (inputs, targets), got {type(shard).__name__}."
        )
    if len(shard) != 2:
        raise InputError(
            f"{who}: expected a pair (inputs, targets), got {len(shard)} parts. "
            "Several inputs go into a tuple: ((a, b), targets)."
        )
    inputs, targets = shard
    parts = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    parts = tuple(torch.as_tensor(x) for x in parts)
    targets = torch.as_tensor(targets)
    if targets.ndim == 0 or any(x.ndim == 0 for x in parts):
        raise InputError(
            f"{who}: inputs and targets need a first dimension of samples."
        )
    if not len(targets):
        raise InputError(f"{who} has no samples; every agent needs at least one.")
    for x in parts:
        if len(x) != len(targets):
            raise InputError(
                f"{who}: {len(x)} inputs but {len(targets)} targets; they must pair up."
            )
    for name, values in (("inputs", parts), ("targets", (targets,))):
        for x in values:
            _require_finite(x, f"{who}: {name}")
    return Samples(parts, targets)


def stacked(samples: Sequence[Samples]) -> Samples:
    """Lay shards one after another."""
    first = samples[0]
    for other in samples[1:]:
        shapes = [x.shape[1:] for x in (*first.inputs, first.targets)]
        others = [x.shape[1:] for x in (*other.inputs, other.targets)]
        if shapes != others:
            raise InputError(
                "`shards` differ in the shape of a sample: "
                f"{[tuple(s) for s in shapes]} and {[tuple(s) for s in others]}."
            )
    return Samples(
        tuple(
            torch.cat(parts) for parts in zip(*(s.inputs for s in samples), strict=True)
        ),
        torch.cat([s.targets for s in samples]),
    )


def _collated(dataset: Any, who: str) -> Any:
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise InputError(
            f"{who}: expected (inputs, targets) or a map-style Dataset, got "
            f"{type(dataset).__name__}."
        )
    if not len(dataset):
        raise InputError(f"{who} has no samples; every agent needs at least one.")
    return default_collate([dataset[i] for i in range(len(dataset))])


def _require_finite(x: Tensor, who: str) -> None:
    if not x.is_floating_point() or bool(torch.isfinite(x).all()):
        return
    flat = x.reshape(len(x), math.prod(x.shape[1:]))
    row, column = (~torch.isfinite(flat)).nonzero()[0].tolist()
    raise InputError(
        f"{who} hold {flat[row, column].item()} in row {row}, column {column}. "
        "Remove or replace it."
    )
