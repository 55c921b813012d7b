"""The agents' training data: opened once, concatenated, and stored compactly."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

from proxmesh.errors import InputError

__all__ = [
    "Samples",
    "Shard",
    "Shards",
    "Stored",
    "concatenate",
    "open_shard",
    "require_same_shape",
    "size_of",
]

LARGE = 32 * 2**20  # bytes from which a tensor is worth packing
LEVELS = 256  # different values of a byte
FEW_ROWS = 500  # from which the values of a tensor are guessed
AT_ONCE = 4096  # rows packed together

Shard: TypeAlias = Any
"""(inputs, targets), inputs a tensor or a tuple of tensors; or what is read by index: a
map-style Dataset or a `DatasetShard`."""

Shards: TypeAlias = Sequence[Shard] | Mapping[int, Shard] | Callable[[int], Shard]
"""One shard per agent: by position, by agent id, or opened when asked for."""


@final
@dataclass(frozen=True, slots=True)
class Samples:
    """Samples along dim 0: inputs of the model and targets of the loss.

    In a minibatch dim 0 are agents; `keys`, one per agent, are what the random layers
    of a model draw from, if it has any.
    """

    inputs: tuple[Tensor, ...]
    targets: Tensor
    keys: Tensor | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def at(self, part: slice) -> "Samples":
        """Cut a piece out along dim 0."""
        keys = None if self.keys is None else self.keys[part]
        return Samples(tuple(x[part] for x in self.inputs), self.targets[part], keys)

    def slices(self, size: int) -> "list[Samples]":
        """Cut into consecutive pieces of at most `size`."""
        return [self.at(slice(a, a + size)) for a in range(0, len(self), size)]

    def doubled(self) -> "Samples":
        """Return all samples twice, one copy after the other."""
        return Samples(
            tuple(torch.cat([x, x]) for x in self.inputs),
            torch.cat([self.targets, self.targets]),
            None if self.keys is None else torch.cat([self.keys, self.keys]),
        )

    def cast(self, dtype: torch.dtype, device: torch.device) -> "Samples":
        """Move to a device, and give floating point tensors this precision."""

        def moved(t: Tensor) -> Tensor:
            return t.to(device, dtype if t.is_floating_point() else t.dtype)

        return Samples(tuple(moved(x) for x in self.inputs), moved(self.targets))


@final
@dataclass(frozen=True, slots=True)
class Packed:
    """A tensor of at most 256 different values, one byte per entry: mostly images."""

    codes: Tensor  # uint8
    levels: Tensor  # the values, ascending

    @staticmethod
    def of(x: Tensor) -> "Packed | None":
        """Pack a large tensor of evenly spaced values, if that is exact."""
        if not x.is_floating_point() or x.numel() * x.element_size() < LARGE:
            return None
        levels: Tensor = torch.unique(x[:FEW_ROWS])
        if not 2 <= len(levels) <= LEVELS:
            return None
        codes = torch.empty(x.shape, dtype=torch.uint8, device=x.device)
        packed = Packed(codes, levels)
        scale = (len(levels) - 1) / (levels[-1] - levels[0])
        for rows in torch.split(torch.arange(len(x), device=x.device), AT_ONCE):
            steps = ((x[rows] - levels[0]) * scale).round()
            codes[rows] = steps.clamp(0, len(levels) - 1).to(torch.uint8)
            if not torch.equal(packed.take(rows), x[rows]):
                return None
        return packed

    def take(self, rows: Tensor) -> Tensor:
        """Gather rows and unpack them."""
        codes = self.codes.index_select(0, rows)
        return self.levels.index_select(0, codes.view(-1).int()).view(codes.shape)


@final
@dataclass(frozen=True, slots=True)
class Plain:
    """A tensor as it is."""

    values: Tensor

    def take(self, rows: Tensor) -> Tensor:
        """Gather rows."""
        return self.values.index_select(0, rows)


@final
@dataclass(frozen=True, slots=True)
class Stored:
    """Samples at rest, from which batches are gathered."""

    inputs: tuple[Plain | Packed, ...]
    targets: Tensor

    @staticmethod
    def of(samples: Samples) -> "Stored":
        """Store samples, packed where that is exact and worth it."""
        packed = tuple(Packed.of(x) or Plain(x) for x in samples.inputs)
        return Stored(packed, samples.targets)

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.targets.device

    def take(self, rows: Tensor) -> Samples:
        """Gather rows; the result has the shape of `rows` in front."""
        flat = rows.reshape(-1)

        def shaped(x: Tensor) -> Tensor:
            return x.view(*rows.shape, *x.shape[1:])

        inputs = tuple(shaped(x.take(flat)) for x in self.inputs)
        return Samples(inputs, shaped(self.targets.index_select(0, flat)))


def open_shard(shard: Shard, who: str) -> Samples:
    """Check one shard that is in memory.

    Parameters
    ----------
    shard
        A pair of inputs and targets.
    who
        Whose it is, for messages.
    """
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


def concatenate(samples: Sequence[Samples]) -> Samples:
    """Put shards one after another along dim 0."""
    first = samples[0]
    for other in samples[1:]:
        require_same_shape(
            (*first.inputs, first.targets), (*other.inputs, other.targets)
        )
    return Samples(
        tuple(
            torch.cat(parts) for parts in zip(*(s.inputs for s in samples), strict=True)
        ),
        torch.cat([s.targets for s in samples]),
    )


def require_same_shape(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> None:
    """Refuse shards whose samples differ in shape."""
    shapes, others = ([tuple(x.shape[1:]) for x in parts] for parts in (ours, theirs))
    if shapes != others:
        raise InputError(
            f"`shards` differ in the shape of a sample: {shapes} and {others}."
        )


def size_of(samples: Samples) -> int:
    """Bytes of samples.

    Examples
    --------
    >>> size_of(Samples((torch.zeros(3, 4),), torch.zeros(3, dtype=torch.int64)))
    72
    """
    return sum(x.numel() * x.element_size() for x in (*samples.inputs, samples.targets))


def _require_finite(x: Tensor, who: str) -> None:
    if not x.is_floating_point() or bool(torch.isfinite(x).all()):
        return
    flat = x.reshape(len(x), math.prod(x.shape[1:]))
    row, column = (~torch.isfinite(flat)).nonzero()[0].tolist()
    raise InputError(
        f"{who} hold {flat[row, column].item()} in row {row}, column {column}. "
        "Remove or replace it."
    )
