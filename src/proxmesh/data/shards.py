"""The agents' training data: opened once, concatenated, and stored compactly."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

from proxmesh.data.sparse import SparseRows, SparseTable, SparseWay, is_sparse
from proxmesh.errors import InputError

__all__ = [
    "Samples",
    "Shard",
    "Shards",
    "Stored",
    "arguments",
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
    of a model draw from, if it has any. Of sparse samples the only input are the
    numbers of their rows in `table`.
    """

    inputs: tuple[Tensor, ...]
    targets: Tensor
    keys: Tensor | None = None
    table: SparseTable | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def at(self, part: slice) -> "Samples":
        """Cut a piece out along dim 0."""
        keys = None if self.keys is None else self.keys[part]
        inputs = tuple(x[part] for x in self.inputs)
        return Samples(inputs, self.targets[part], keys, self.table)

    def slices(self, size: int) -> "list[Samples]":
        """Cut into consecutive pieces of at most `size`."""
        return [self.at(slice(a, a + size)) for a in range(0, len(self), size)]

    def doubled(self) -> "Samples":
        """Return all samples twice, one copy after the other."""
        return Samples(
            tuple(torch.cat([x, x]) for x in self.inputs),
            torch.cat([self.targets, self.targets]),
            None if self.keys is None else torch.cat([self.keys, self.keys]),
            self.table,
        )

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a model is called with."""
        return arguments(self.inputs, self.table)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the inputs, as a model sees them."""
        return [tuple(x.shape) for x in self.arguments]

    def cast(self, dtype: torch.dtype, device: torch.device) -> "Samples":
        """Move to a device, and give floating point tensors this precision."""

        def moved(t: Tensor) -> Tensor:
            return t.to(device, dtype if t.is_floating_point() else t.dtype)

        table = None if self.table is None else self.table.to(device, dtype)
        inputs = tuple(moved(x) for x in self.inputs)
        return Samples(inputs, moved(self.targets), table=table)

    def sparse(self) -> "Samples":
        """The same, of one dense input the entries that are not 0."""
        (x,) = self.inputs
        return replace(self, inputs=_counted(x), table=SparseTable.of_dense(x))

    def dense(self) -> "Samples":
        """The same, sparse rows as a dense input."""
        (x,) = (part.dense() for part in self.arguments)
        return replace(self, inputs=(x,), table=None)


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
class Counted:
    """Rows of a sparse table: their numbers are all that a batch takes of them."""

    @staticmethod
    def take(rows: Tensor) -> Tensor:
        """The numbers themselves."""
        return rows


@final
@dataclass(frozen=True, slots=True)
class Stored:
    """Samples at rest, from which batches are gathered."""

    inputs: tuple[Plain | Packed | Counted, ...]
    targets: Tensor
    table: SparseTable | None = None

    @staticmethod
    def of(samples: Samples) -> "Stored":
        """Store samples, packed where that is exact and worth it."""
        if samples.table is not None:
            return Stored((Counted(),), samples.targets, samples.table)
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
        targets = shaped(self.targets.index_select(0, flat))
        return Samples(inputs, targets, table=self.table)


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
    targets, table = torch.as_tensor(targets), None
    if any(map(is_sparse, parts)):
        if len(parts) > 1:
            raise InputError(
                f"{who}: a sparse matrix must be the only input, got {len(parts)}. "
                "Make the others part of it, or make it dense."
            )
        table = SparseTable.of(parts[0], who)
        parts = _counted(table)
    parts = tuple(torch.as_tensor(x) for x in parts)
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
    return Samples(parts, targets, table=table)


def concatenate(samples: Sequence[Samples]) -> Samples:
    """Put shards one after another along dim 0."""
    first = samples[0]
    sparse = [s.table for s in samples if s.table is not None]
    if sparse:
        if len(sparse) < len(samples):
            raise InputError(
                "`shards`: some are sparse and some dense. Give all of them in one "
                "form."
            )
        widths = sorted({table.features for table in sparse})
        if len(widths) > 1:
            raise InputError(
                f"`shards` differ in the number of features: {widths[0]:,} and "
                f"{widths[-1]:,}. Give all sparse matrices the same `shape[1]`."
            )
        table = SparseTable.concatenated(sparse)
        targets = torch.cat([s.targets for s in samples])
        return Samples(_counted(table), targets, table=table)
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
    parts = (*samples.inputs, samples.targets)
    own = 0 if samples.table is None else samples.table.size
    return own + sum(x.numel() * x.element_size() for x in parts)


def arguments(
    inputs: tuple[Tensor, ...],
    table: SparseTable | None,
    way: SparseWay = "gather",
) -> tuple[Any, ...]:
    """What a model is called with: the inputs, or rows of a sparse table.

    Parameters
    ----------
    inputs
        Of `Samples`.
    table
        Of which they are the rows, if they are.
    way
        How a layer multiplies by them.
    """
    return inputs if table is None else (SparseRows(inputs[0], table, way),)


def _counted(rows: SparseTable | Tensor) -> tuple[Tensor]:
    """Numbers of all rows, as the input of samples."""
    device = rows.device if isinstance(rows, Tensor) else rows.values.device
    return (torch.arange(len(rows), device=device),)


def _require_finite(x: Tensor, who: str) -> None:
    if not x.is_floating_point() or bool(torch.isfinite(x).all()):
        return
    flat = x.reshape(len(x), math.prod(x.shape[1:]))
    row, column = (~torch.isfinite(flat)).nonzero()[0].tolist()
    raise InputError(
        f"{who} hold {flat[row, column].item()} in row {row}, column {column}. "
        "Remove or replace it."
    )
