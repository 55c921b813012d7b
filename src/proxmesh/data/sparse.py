"""Samples of which most numbers are 0: kept as rows of column numbers and values."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from proxmesh.errors import InputError

__all__ = [
    "SparseRows",
    "SparseTable",
    "SparseWay",
    "density",
    "entries",
    "is_sparse",
]

MOST_FEATURES = 2**31 - 1  # numbers of columns take four bytes

SparseWay: TypeAlias = Literal["dense", "gather", "kernel"]
"""How a layer multiplies by sparse rows: as dense ones, by gathering in torch, or by a
small compiled kernel."""


@runtime_checkable
class Convertible(Protocol):
    """A matrix or array of `scipy.sparse`, whatever its form."""

    shape: tuple[int, ...]

    def tocsr(self) -> Any: ...


def is_sparse(x: Any) -> bool:
    """Whether this is a sparse matrix: of scipy, of torch, or one of ours.

    Examples
    --------
    >>> from scipy.sparse import eye_array
    >>> is_sparse(eye_array(3)), is_sparse(torch.eye(3))
    (True, False)
    """
    if isinstance(x, Tensor):
        return x.layout is not torch.strided
    return isinstance(x, SparseTable | SparseRows | Convertible)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SparseTable:
    """A matrix in compressed rows: row i has the entries offsets[i] .. offsets[i + 1].

    Parameters
    ----------
    offsets
        Where rows begin and end, ``[N + 1]`` in int64.
    columns, values
        Of all entries, one row after another; columns in int32.
    features
        Columns of the matrix.
    or_dense
        Whether it may be made dense for a model that takes no sparse samples.
    """

    offsets: Tensor
    columns: Tensor
    values: Tensor
    features: int
    or_dense: bool = False

    @staticmethod
    def of(matrix: Any, who: str = "SparseTable") -> "SparseTable":
        """Take over a sparse matrix; entries that are stored twice are added up.

        Parameters
        ----------
        matrix
            Of `scipy.sparse` or torch, two-dimensional.
        who
            Whose it is, for messages.

        Examples
        --------
        >>> from scipy.sparse import csr_array
        >>> table = SparseTable.of(csr_array([[0.0, 2.0], [0.0, 0.0]]))
        >>> table.offsets.tolist(), table.columns.tolist(), table.values.tolist()
        ([0, 1, 1], [1], [2.0])
        """
        if isinstance(matrix, SparseTable):
            return matrix
        if isinstance(matrix, SparseRows):
            return matrix.table.take(matrix.rows)
        if len(matrix.shape) != 2:
            raise InputError(
                f"{who}: a sparse matrix must have two dimensions, got "
                f"{tuple(matrix.shape)}."
            )
        _, features = matrix.shape
        if features > MOST_FEATURES:
            raise InputError(
                f"{who}: {features:,} columns, but at most {MOST_FEATURES:,} can be "
                "numbered. Number its features 1, 2, 3, ..."
            )
        if isinstance(matrix, Tensor):
            rows = matrix.to_sparse_csr()
            parts = (rows.crow_indices(), rows.col_indices(), rows.values())
            offsets, columns, values = (part.detach() for part in parts)
        else:
            offsets, columns, values = _of_scipy(matrix, who)
        if not values.is_floating_point():
            values = values.to(torch.get_default_dtype())
        _require_sound(offsets, columns, values, matrix.shape, who)
        return SparseTable(offsets.long(), columns.int(), values, int(features))

    @staticmethod
    def of_dense(x: Tensor) -> "SparseTable":
        """The entries of a dense table ``[N, features]`` that are not 0.

        Examples
        --------
        >>> SparseTable.of_dense(torch.eye(3)).columns
        tensor([0, 1, 2], dtype=torch.int32)
        """
        counts = torch.count_nonzero(x, 1)
        where, columns = x.nonzero(as_tuple=True)
        offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return SparseTable(offsets, columns.int(), x[where, columns], x.shape[1])

    @staticmethod
    def concatenated(tables: "Sequence[SparseTable]") -> "SparseTable":
        """Put tables one below another; trailing columns that one lacks are 0."""
        starts = np.cumsum([0, *(len(table.columns) for table in tables)]).tolist()
        offsets = [
            table.offsets[:-1] + start
            for table, start in zip(tables, starts, strict=False)
        ]
        return SparseTable(
            torch.cat([*offsets, offsets[0].new_tensor(starts[-1:])]),
            torch.cat([table.columns for table in tables]),
            torch.cat([table.values for table in tables]),
            max(table.features for table in tables),
            all(table.or_dense for table in tables),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), self.features

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        parts = (self.offsets, self.columns, self.values)
        return sum(part.numel() * part.element_size() for part in parts)

    def take(self, rows: Tensor) -> "SparseTable":
        """A table of these rows alone."""
        which, entry = entries(rows.reshape(-1), self.offsets)
        counts = torch.bincount(which, minlength=rows.numel())
        offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return replace(
            self,
            offsets=offsets,
            columns=self.columns[entry],
            values=self.values[entry],
        )

    def to(self, device: torch.device, dtype: torch.dtype) -> "SparseTable":
        """Move it, and give its values this precision."""
        return replace(
            self,
            offsets=self.offsets.to(device),
            columns=self.columns.to(device),
            values=self.values.to(device, dtype),
        )

    def widened(self, features: int) -> "SparseTable":
        """The same with more columns, of zeros."""
        return replace(self, features=max(features, self.features))


@final
@dataclass(frozen=True, slots=True, eq=False)
class SparseRows:
    """Rows of a sparse table: what a model gets in place of a dense tensor of samples.

    `pm.models.SparseLinear` takes it, and with it `pm.models.logistic` and `mlp`.

    Parameters
    ----------
    rows
        Numbers of the rows, ``[m]``; a row may be there several times.
    table
        The matrix that they are of.
    way
        How a layer multiplies by them; all ways are exact.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> samples = SparseRows.of(csr_array([[0.0, 2.0], [3.0, 0.0]]))
    >>> samples.shape, samples.dense().tolist()
    ((2, 2), [[0.0, 2.0], [3.0, 0.0]])
    >>> import proxmesh as pm
    >>> pm.models.logistic(2, 3)(samples).shape
    torch.Size([2, 3])
    """

    rows: Tensor
    table: SparseTable
    way: SparseWay = "gather"

    @staticmethod
    def of(matrix: Any) -> "SparseRows":
        """All rows of a sparse matrix of `scipy.sparse` or torch.

        Parameters
        ----------
        matrix
            Two-dimensional.
        """
        table = SparseTable.of(matrix, "SparseRows")
        return SparseRows(torch.arange(len(table)), table)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the dense tensor that it stands for."""
        return (*self.rows.shape, self.table.features)

    def flatten(self, start: int = 0, end: int = -1) -> "SparseRows":
        """Itself: a sample is flat already, as `nn.Flatten` wants it.

        Parameters
        ----------
        start, end
            Have no effect.
        """
        del start, end
        return self

    def dense(self) -> Tensor:
        """The dense tensor that it stands for, ``[m, features]``."""
        which, entry = entries(self.rows.reshape(-1), self.table.offsets)
        flat = which * self.table.features + self.table.columns[entry]
        out = self.table.values.new_zeros(self.rows.numel() * self.table.features)
        return out.index_add_(0, flat, self.table.values[entry]).view(self.shape)


def entries(rows: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """The entries of rows ``[m]``: which of the rows each is of, and where it is.

    Examples
    --------
    >>> entries(torch.tensor([1, 0]), torch.tensor([0, 1, 3]))
    (tensor([0, 0, 1]), tensor([1, 2, 0]))
    """
    first = offsets[rows]
    counts = offsets[rows + 1] - first
    which = torch.repeat_interleave(counts)
    skipped = first - (counts.cumsum(0) - counts)
    return which, torch.arange(len(which), device=rows.device) + skipped[which]


def density(x: Tensor) -> float:
    """Share of the numbers of a dense tensor that are not 0.

    Examples
    --------
    >>> density(torch.eye(4))
    0.25
    """
    return float(torch.count_nonzero(x)) / max(1, x.numel())


def _of_scipy(matrix: Any, who: str) -> tuple[Tensor, Tensor, Tensor]:
    rows = matrix.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy() if rows is matrix else rows
        rows.sum_duplicates()
    if rows.data.dtype.kind not in "buif":
        raise InputError(f"{who}: inputs are {rows.data.dtype}, not real numbers.")
    data = rows.data.astype(np.float32) if rows.data.dtype.kind != "f" else rows.data
    return (
        torch.from_numpy(rows.indptr.astype(np.int64)),
        torch.from_numpy(rows.indices.astype(np.int32)),
        torch.from_numpy(np.ascontiguousarray(data)),
    )


def _require_sound(
    offsets: Tensor, columns: Tensor, values: Tensor, shape: Sequence[int], who: str
) -> None:
    """Refuse what does not hang together, which kernels would follow anywhere."""
    whole = len(offsets) == shape[0] + 1 and int(offsets[0]) == 0
    whole &= int(offsets[-1]) == len(columns) == len(values)
    if not (whole and bool((offsets[1:] >= offsets[:-1]).all())):
        raise InputError(f"{who}: the rows of the sparse matrix do not hang together.")
    if len(columns) and (int(columns.min()) < 0 or int(columns.max()) >= shape[1]):
        raise InputError(
            f"{who}: columns of the sparse matrix run from {int(columns.min())} to "
            f"{int(columns.max())}, but it has {shape[1]:,}: 0 .. {shape[1] - 1}."
        )
    bad = ~torch.isfinite(values)
    if bool(bad.any()):
        entry = int(bad.nonzero()[0])
        row = int(torch.searchsorted(offsets, entry, right=True)) - 1
        raise InputError(
            f"{who}: inputs hold {values[entry].item()} in row {row}, column "
            f"{int(columns[entry])}. Remove or replace it."
        )
