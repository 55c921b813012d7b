"""Your own data files: .npz, .csv and LIBSVM, with errors that name row and column."""

import bz2
import gzip
import io
import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
from numpy.typing import NDArray

from proxmesh.data.csv_table import read_csv
from proxmesh.data.dataset import Arrays
from proxmesh.data.npz import Archive
from proxmesh.errors import InputError, shortened
from proxmesh.files import open_regular
from proxmesh.limits import available_memory, in_one_line, readable, require_memory

__all__ = ["read", "with_same_width"]

INPUT_KEYS = ("x", "X", "inputs", "features", "data", "x_train", "X_train")
LABEL_KEYS = ("y", "Y", "targets", "labels", "target", "y_train", "Y_train")
TEST_KEYS = (
    ("x_test", "y_test"),
    ("X_test", "y_test"),
    ("inputs_test", "targets_test"),
)
LARGE = 2**26  # bytes from which a sparse table is not made dense at any price
MEMORY_OF_A_BYTE = 8  # bytes that one of LIBSVM's text may take when it is read
FEWEST_ENTRIES = 1e-3  # share of a large table that must not be 0


def read(path: Path, label: str | None = None) -> tuple[Arrays, Arrays | None]:
    """Return (inputs, labels), and the test part where the file holds one.

    Parameters
    ----------
    path
        By its ending .npz, .csv, or else LIBSVM.
    label
        Name of the label column of a .csv; the last one if not given.
    """
    if os.path.isdir(path):
        raise InputError(f"dataset `{path}` is a folder. Give a file in it.")
    if not os.path.exists(path):
        raise InputError(f"dataset `{shortened(Path(path))}` does not exist.")
    try:
        with in_one_line(f"dataset `{path}`"):
            if path.suffix == ".npz":
                return _read_npz(path)
            if path.suffix == ".csv":
                return _checked(path, *read_csv(path, label)), None
            return _read_libsvm(path), None
    except UnicodeDecodeError as error:
        raise InputError(f"dataset `{path}` cannot be read: {error}.") from error


def with_same_width(
    file: str | Path, train: Arrays, test: Arrays
) -> tuple[Arrays, Arrays]:
    """Pad the narrower of two tables: LIBSVM files leave out trailing zeros.

    Parameters
    ----------
    file
        Where they come from, for messages.
    train, test
        Inputs and labels.
    """
    if train[0].shape[1:] == test[0].shape[1:]:
        return train, test
    flat = train[0].ndim == test[0].ndim == 2
    if not (flat and Path(file).suffix not in {".npz", ".csv"}):
        raise InputError(
            f"dataset `{file}`: training samples have shape {train[0].shape[1:]} but "
            f"test samples {test[0].shape[1:]}."
        )
    width = max(train[0].shape[1], test[0].shape[1])
    size = 8 * width * (len(train[0]) + len(test[0]))
    require_memory(f"dataset `{file}`", size, "Number its features 1, 2, 3, ...")

    def padded(arrays: Arrays) -> Arrays:
        x, y = arrays
        return np.pad(x, ((0, 0), (0, width - x.shape[1]))), y

    return padded(train), padded(test)


def _read_npz(path: Path) -> tuple[Arrays, Arrays | None]:
    with Archive(path) as archive:
        inputs, labels = archive.first(INPUT_KEYS), archive.first(LABEL_KEYS)
        if inputs is None or labels is None:
            raise InputError(
                f"dataset `{path}` must hold arrays `x` and `y` (and `x_test`, "
                f"`y_test` if you have them), found: {archive.names}."
            )
        train = _checked(path, archive.array(inputs), archive.array(labels))
        for x, y in TEST_KEYS:
            if x in archive and y in archive:
                return train, _checked(path, archive.array(x), archive.array(y))
    return train, None


def _read_libsvm(path: Path) -> Arrays:
    from sklearn.datasets import load_svmlight_file

    with open_regular(path, "dataset") as opened:
        try:
            x, y = load_svmlight_file(_unpacked(path, opened))
        except InputError:
            raise
        except (ValueError, OverflowError, IndexError, EOFError, zlib.error) as error:
            raise InputError(
                f"dataset `{path}` is not in LIBSVM format (`label index:value ...`): "
                f"{shortened(error)}. Known: .npz, .csv, LIBSVM."
            ) from error
    samples, features = x.shape
    size = samples * features * x.dtype.itemsize
    if size > LARGE and x.nnz < FEWEST_ENTRIES * samples * features:
        raise InputError(
            f"dataset `{path}` has {samples:,} samples of {features:,} features, "
            f"almost all of them 0: as a table they take {readable(size)}. Number its "
            "features 1, 2, 3, ..."
        )
    require_memory(f"dataset `{path}`", 2 * size, "Give a part of it.")
    return _checked(path, x.toarray(), y)


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


def _checked(path: Path, x: NDArray[Any], y: NDArray[Any]) -> Arrays:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if x.ndim < 2 or y.ndim != 1 or len(x) != len(y) or not len(x):
        raise InputError(
            f"dataset `{path}`: inputs {x.shape} and labels {y.shape} must be "
            "[samples, ...] and [samples], with at least one sample."
        )
    if 0 in x.shape:
        raise InputError(f"dataset `{path}`: inputs {x.shape} have no features.")
    if y.dtype.kind not in "buifUSO":
        raise InputError(f"dataset `{path}`: labels are {y.dtype}, not classes.")
    if x.dtype.kind not in "buif":
        raise InputError(f"dataset `{path}`: inputs are {x.dtype}, not real numbers.")
    with np.errstate(over="ignore"):
        flat = x.reshape(len(x), -1).astype(np.float32)  # what training will see
    bad = np.argwhere(~np.isfinite(flat))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"dataset `{path}`, row {row}, column {column}: "
            f"{x.reshape(len(x), -1)[row, column]} is not finite in float32. "
            "Remove or replace it."
        )
    whole = y.dtype.kind != "f" or (np.isfinite(y) & (y == np.round(y)))
    if not np.all(whole):
        row = int(np.flatnonzero(~np.asarray(whole))[0])
        raise InputError(
            f"dataset `{path}`, row {row}: label {y[row]} is not a class. The command "
            "line trains classifiers; for regression use `LearningProblem` in Python."
        )
    return x, y
