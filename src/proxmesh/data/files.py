"""Your own data files: .npz, .csv and LIBSVM, with errors that name row and column."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxmesh.data.csv_table import read_csv
from proxmesh.data.dataset import Arrays
from proxmesh.data.npz import Archive
from proxmesh.data.sparse import is_sparse
from proxmesh.data.sparse_files import (
    SPARSE_KEYS,
    Table,
    dense_if_small,
    read_libsvm,
    read_sparse_npz,
    widened,
)
from proxmesh.errors import InputError, shortened
from proxmesh.limits import in_one_line, require_memory

__all__ = [
    "read",
    "read_inputs",
    "require_classes",
    "require_numbers",
    "with_same_width",
]

INPUT_KEYS = ("x", "X", "inputs", "features", "data", "x_train", "X_train")
LABEL_KEYS = ("y", "Y", "targets", "labels", "target", "y_train", "Y_train")
TEST_KEYS = (
    ("x_test", "y_test"),
    ("X_test", "y_test"),
    ("inputs_test", "targets_test"),
)


def read(
    path: Path,
    label: str | None = None,
    *,
    zero_based: bool = False,
    labels: str | Path | None = None,
) -> tuple[Arrays, Arrays | None]:
    """Return (inputs, labels), and the test part where the file holds one.

    Inputs of a large file that are mostly 0 are a sparse array of scipy's.

    Parameters
    ----------
    path
        By its ending .npz, .csv, or else LIBSVM.
    label
        Name of the label column of a .csv; the last one if not given.
    zero_based
        Whether the first feature of a LIBSVM file has the number 0 in place of 1.
    labels
        An .npz with the labels, where that of the inputs has none.
    """
    if os.path.isdir(path):
        raise InputError(f"dataset `{path}` is a folder. Give a file in it.")
    if not os.path.exists(path):
        raise InputError(f"dataset `{shortened(Path(path))}` does not exist.")
    try:
        with in_one_line(f"dataset `{path}`"):
            if path.suffix == ".npz":
                return _read_npz(path, labels)
            if path.suffix == ".csv":
                return _checked(path, *read_csv(path, label)), None
            x, y = read_libsvm(path, zero_based)
            return _checked(path, dense_if_small(path, x), y), None
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
    size = 8 * width * sum(x.shape[0] for x, _ in (train, test) if not is_sparse(x))
    require_memory(f"dataset `{file}`", size, "Number its features 1, 2, 3, ...")
    (x, y), (xt, yt) = train, test
    return (widened(x, width), y), (widened(xt, width), yt)


def _read_npz(path: Path, elsewhere: str | Path | None) -> tuple[Arrays, Arrays | None]:
    with Archive(path) as archive:
        sparse = all(name in archive for name in SPARSE_KEYS)
        inputs, labels = archive.first(INPUT_KEYS), archive.first(LABEL_KEYS)
        y = None if labels is None else archive.array(labels)
        if elsewhere is not None:
            y = _labels_in(Path(elsewhere))
        if sparse and y is None:
            raise InputError(
                f"dataset `{path}` holds a sparse matrix but no labels. Add an array "
                "`y` to it, or name an .npz that has one: `--set data.labels=FILE`."
            )
        if sparse and y is not None:
            x = read_sparse_npz(archive)
            return _checked(path, dense_if_small(path, x), y), None
        if inputs is None or y is None:
            raise InputError(
                f"dataset `{path}` must hold arrays `x` and `y` (and `x_test`, "
                f"`y_test` if you have them), found: {archive.names}."
            )
        train = _checked(path, archive.array(inputs), y)
        for held, right in TEST_KEYS:
            if held in archive and right in archive:
                test = _checked(path, archive.array(held), archive.array(right))
                return train, test
    return train, None


def read_inputs(path: Path) -> Arrays:
    """Return the inputs of an .npz that need not have labels, and zeros for them.

    Parameters
    ----------
    path
        The file.
    """
    with in_one_line(f"dataset `{path}`"), Archive(path) as archive:
        inputs = archive.first(INPUT_KEYS)
        if all(name in archive for name in SPARSE_KEYS):
            x: Table = dense_if_small(path, read_sparse_npz(archive))
        elif inputs is not None:
            x = archive.array(inputs)
        else:
            raise InputError(
                f"dataset `{path}` must hold an array `x`, found: {archive.names}."
            )
    return _checked(path, x, np.zeros(x.shape[0] if x.ndim else 0))


def _labels_in(path: Path) -> NDArray[Any]:
    with Archive(path) as archive:
        name = archive.first(LABEL_KEYS)
        if name is None:
            raise InputError(
                f"`{path}` must hold an array `y` of labels, found: {archive.names}."
            )
        return archive.array(name)


def _checked(path: Path, x: Table, y: NDArray[Any]) -> Arrays:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if x.ndim < 2 or y.ndim != 1 or x.shape[0] != len(y) or not len(y):
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
    values = x.data[:, None] if is_sparse(x) else x.reshape(len(x), -1)
    with np.errstate(over="ignore"):
        flat = values.astype(np.float32)  # what training will see
    bad = np.argwhere(~np.isfinite(flat))
    if len(bad):
        row, column = bad[0]
        value = values[row, column]
        if is_sparse(x):
            entry, row = row, np.searchsorted(x.indptr, row, side="right") - 1
            column = x.indices[entry]
        raise InputError(
            f"dataset `{path}`, row {row}, column {column}: {value} is not finite in "
            "float32. Remove or replace it."
        )
    return x, y


def require_classes(path: Path, y: NDArray[Any]) -> None:
    """Refuse labels that are no classes: words and whole numbers are.

    Parameters
    ----------
    path
        Where they are from, for messages.
    y
        The labels.
    """
    whole = y.dtype.kind != "f" or (np.isfinite(y) & (y == np.round(y)))
    if not np.all(whole):
        row = int(np.flatnonzero(~np.asarray(whole))[0])
        raise InputError(
            f"dataset `{path}`, row {row}: label {y[row]} is not a class. To predict "
            "numbers, use `--loss squared` or `--loss huber`."
        )


def require_numbers(path: Path, y: NDArray[Any]) -> NDArray[np.float32]:
    """Return labels as real numbers; refuse words, and what is not finite.

    Parameters
    ----------
    path
        Where they are from, for messages.
    y
        The labels.
    """
    if y.dtype.kind not in "buif":
        raise InputError(
            f"dataset `{path}`: label `{shortened(y[0])}` is a word, not a number. "
            "Classes need `--loss cross-entropy` or `--loss logistic`."
        )
    with np.errstate(over="ignore"):
        found = y.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(found))
    if len(bad):
        raise InputError(
            f"dataset `{path}`, row {bad[0]}: label {y[bad[0]]} is not finite in "
            "float32. Remove or replace it."
        )
    return found
