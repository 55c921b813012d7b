"""Sparse tables in files: LIBSVM's text, and scipy's matrices in an .npz.

Both stay sparse: a row is its entries that are not 0. Sizes are checked before anything
of that size is made.
"""

import bz2
import gzip
import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from proxmesh.data.npz import Archive
from proxmesh.data.sparse import is_sparse
from proxmesh.errors import InputError, shortened
from proxmesh.files import open_regular
from proxmesh.limits import available_memory, readable, require_memory

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["SPARSE_KEYS", "dense_if_small", "read_libsvm", "read_sparse_npz", "widened"]

SPARSE_KEYS = ("data", "indices", "indptr", "shape")
"""What `scipy.sparse.save_npz` calls the parts of a matrix in compressed rows."""

Table: TypeAlias = Any
"""A dense array, or a sparse one of scipy's in compressed rows."""

MEMORY_OF_A_BYTE = 8  # bytes that one of LIBSVM's text may take when it is read
MOST_FEATURES = 2**28  # of a sparse file: a row of weights alone takes 1 GB then
ROWS_OF_STATE = 6  # that an agent holds at least, of a number for each feature
SMALL = 2**24  # bytes, up to which a table is kept dense: a9a is
FEW_ENTRIES = 0.25  # share of a larger table that may differ from 0 for it to be sparse


def read_libsvm(
    path: Path, zero_based: bool = False
) -> "tuple[csr_array, NDArray[Any]]":
    """Return features and labels of a file `label index:value ...`, packed or not.

    Parameters
    ----------
    path
        The file; .gz and .bz2 are unpacked.
    zero_based
        Whether the first feature has the number 0 in place of 1.
    """
    from scipy.sparse import csr_array
    from sklearn.datasets import load_svmlight_file

    with open_regular(path, "dataset") as opened:
        try:
            x, y = load_svmlight_file(_unpacked(path, opened), zero_based=zero_based)
        except InputError:
            raise
        except (ValueError, OverflowError, IndexError, EOFError, zlib.error) as error:
            if "Invalid index" in str(error):
                raise _strange_number(path, error, zero_based) from error
            raise InputError(
                f"dataset `{path}` is not in LIBSVM format (`label index:value ...`): "
                f"{shortened(error)}. Known: .npz, .csv, LIBSVM."
            ) from error
    if len(x.indices) and (low := int(x.indices.min())) < 0:
        raise _strange_number(path, low + (0 if zero_based else 1), zero_based)
    _require_features(path, x.shape[1], "Number its features 1, 2, 3, ...")
    return csr_array(x), y


def read_sparse_npz(archive: Archive) -> "csr_array":
    """Return the matrix of an .npz that holds its parts as scipy names them.

    Parameters
    ----------
    archive
        Opened.
    """
    from scipy.sparse import csr_array

    who = f"dataset `{archive.path}`"
    if "format" in archive:
        kind = archive.array("format")
        name = kind.item() if kind.size == 1 else kind
        if name not in {b"csr", "csr"}:
            raise InputError(
                f"{who} holds a sparse matrix in the form `{shortened(name)}`. Save "
                "it as `matrix.tocsr()`."
            )
    data, indices, offsets, shape = (archive.array(name) for name in SPARSE_KEYS)
    numbers = (indices, offsets, shape)
    if any(part.dtype.kind not in "iu" or part.ndim != 1 for part in numbers):
        raise InputError(
            f"{who}: `indices`, `indptr` and `shape` must be whole numbers."
        )
    if shape.shape != (2,) or data.ndim != 1 or data.dtype.kind not in "buif":
        raise InputError(
            f"{who}: a sparse matrix needs two dimensions and real numbers, got shape "
            f"{shortened(shape.tolist())} of {data.dtype}."
        )
    samples, features = (int(size) for size in shape)
    _require_features(archive.path, features, "Take out its empty columns.")
    whole = len(offsets) == samples + 1 and len(indices) == len(data) and samples > 0
    whole = whole and offsets[0] == 0 and offsets[-1] == len(data)
    whole = whole and bool(np.all(offsets[1:] >= offsets[:-1]))
    if not whole:
        raise InputError(
            f"{who}: the parts of its sparse matrix do not fit together: {samples:,} "
            f"rows, {len(offsets):,} offsets, {len(indices):,} columns, {len(data):,} "
            "values. Save it again with `scipy.sparse.save_npz`."
        )
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < features:
        raise InputError(
            f"{who}: columns of its sparse matrix run from {int(indices.min())} to "
            f"{int(indices.max())}, but it has {features:,}."
        )
    found = csr_array(
        (data, indices, offsets.astype(np.int64)), shape=(samples, features)
    )
    found.sum_duplicates()
    return found


def dense_if_small(path: Path, x: "csr_array") -> Table:
    """A sparse table as it is, or as a dense one where that is small or no larger.

    Parameters
    ----------
    path
        Where it is from, for messages.
    x
        The table.
    """
    numbers = x.shape[0] * x.shape[1]
    size = numbers * np.dtype(np.float32).itemsize
    if size > SMALL and x.nnz <= FEW_ENTRIES * numbers:
        return x
    require_memory(f"dataset `{path}`", 4 * size, "Give a part of it.")
    return x.toarray()


def widened(x: Table, width: int) -> Table:
    """A table with columns of zeros behind its own.

    Parameters
    ----------
    x
        Dense or sparse.
    width
        Columns that it is to have.
    """
    if not is_sparse(x):
        return np.pad(x, ((0, 0), (0, width - x.shape[1])))
    from scipy.sparse import csr_array

    return csr_array((x.data, x.indices, x.indptr), shape=(x.shape[0], width))


def _require_features(path: Path, features: int, remedy: str) -> None:
    """Refuse a number of a feature that no model could be made for."""
    who = f"dataset `{path}`: {features:,} features"
    if features > MOST_FEATURES:
        raise InputError(f"{who} are more than {MOST_FEATURES:,}. {remedy}")
    require_memory(f"{who}, one agent of which", 4 * ROWS_OF_STATE * features, remedy)


def _strange_number(path: Path, error: object, zero_based: bool) -> InputError:
    number = str(error).removeprefix("Invalid index ").split(" ")[0]
    first = 0 if zero_based else 1
    remedy = "Number them from 1"
    if not zero_based:
        remedy += ", or say that they begin at 0: `--set data.zero_based=true`"
    return InputError(
        f"dataset `{path}` has a feature with the number {shortened(number)}, but the "
        f"first is {first}. {remedy}."
    )


def _unpacked(path: Path, opened: BinaryIO) -> BinaryIO:
    """The text of a file that may be packed, as LIBSVM's own are."""
    if path.suffix == ".gz":
        packed: Any = gzip.GzipFile(fileobj=opened)
    elif path.suffix == ".bz2":
        packed = bz2.BZ2File(opened)
    else:
        return opened
    return io.BufferedReader(_Unpacking(path, packed))


@final
class _Unpacking(io.RawIOBase):
    """Reads a packed file up to what memory can hold of it: a few bytes may be many."""

    def __init__(self, path: Path, packed: Any) -> None:
        self._path, self._packed, self._read = path, packed, 0
        free = available_memory()
        self._most = float("inf") if free is None else free / MEMORY_OF_A_BYTE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._packed.read(len(buffer))
        self._read += len(found)
        if self._read > self._most:
            raise InputError(
                f"dataset `{self._path}` unpacks to more than "
                f"{readable(self._most)} of text, too much for the memory that is "
                "free. Give a part of it."
            )
        buffer[: len(found)] = found
        return len(found)
