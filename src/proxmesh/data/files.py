"""Your own data files: .npz, .csv and LIBSVM, with errors that name row and column."""

import csv
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxmesh.data.dataset import Arrays
from proxmesh.errors import InputError

__all__ = ["read", "with_same_width"]

INPUT_KEYS = ("x", "X", "inputs", "features", "data", "x_train", "X_train")
LABEL_KEYS = ("y", "Y", "targets", "labels", "target", "y_train", "Y_train")
TEST_KEYS = (
    ("x_test", "y_test"),
    ("X_test", "y_test"),
    ("inputs_test", "targets_test"),
)


def read(path: Path, label: str | None = None) -> tuple[Arrays, Arrays | None]:
    """Return (inputs, labels), and the test part where the file holds one.

    Parameters
    ----------
    path
        By its ending .npz, .csv, or else LIBSVM.
    label
        Name of the label column of a .csv; the last one if not given.
    """
    if path.is_dir():
        raise InputError(f"dataset `{path}` is a folder. Give a file in it.")
    if not path.is_file():
        raise InputError(f"dataset `{path}` does not exist.")
    try:
        if path.suffix == ".npz":
            return _read_npz(path)
        if path.suffix == ".csv":
            return _read_csv(path, label), None
        return _read_libsvm(path), None
    except (OSError, UnicodeDecodeError) as error:
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

    def padded(arrays: Arrays) -> Arrays:
        x, y = arrays
        return np.pad(x, ((0, 0), (0, width - x.shape[1]))), y

    return padded(train), padded(test)


def _read_npz(path: Path) -> tuple[Arrays, Arrays | None]:
    if not zipfile.is_zipfile(path):
        raise InputError(f"dataset `{path}` is not a plain .npz: it is no zip archive.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = dict(archive)
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"dataset `{path}` is not a plain .npz: {error}.") from error
    inputs = next((k for k in INPUT_KEYS if k in arrays), None)
    labels = next((k for k in LABEL_KEYS if k in arrays), None)
    if inputs is None or labels is None:
        raise InputError(
            f"dataset `{path}` must hold arrays `x` and `y` (and `x_test`, `y_test` "
            f"if you have them), found: {', '.join(arrays) or 'none'}."
        )
    train = _checked(path, arrays[inputs], arrays[labels])
    for x, y in TEST_KEYS:
        if x in arrays and y in arrays:
            return train, _checked(path, arrays[x], arrays[y])
    return train, None


def _read_csv(path: Path, label: str | None) -> Arrays:
    import pandas as pd

    header, lines = _csv_scan(path)
    try:
        table = pd.read_csv(path, header=0 if header else None, skip_blank_lines=True)
    except pd.errors.ParserError as error:
        raise InputError(f"dataset `{path}` is not a readable csv: {error}.") from error
    names = [str(name) for name in table.columns]
    table.columns = pd.Index(names)
    if label is not None and label not in names:
        raise InputError(
            f"dataset `{path}` has no column `{label}`. Its columns: "
            f"{', '.join(names[:20])}."
        )
    chosen = label or names[-1]
    features = table.drop(columns=chosen)
    for name in features:
        numbers = pd.to_numeric(features[name], errors="coerce")
        bad = np.flatnonzero(~np.isfinite(numbers.to_numpy(float)))
        if len(bad):
            value = features[name].iloc[bad[0]]
            raise InputError(
                f"dataset `{path}`, line {lines[bad[0]]}, column `{name}`: "
                f"`{value}` is not a finite number. Replace or encode it."
            )
    labels = table[chosen]
    if labels.isna().any():
        line = lines[int(np.flatnonzero(labels.isna())[0])]
        raise InputError(
            f"dataset `{path}`, line {line}: the label `{chosen}` is missing."
        )
    return _checked(path, features.to_numpy(np.float64), labels.to_numpy())


def _csv_scan(path: Path) -> tuple[bool, list[int]]:
    """Check that rows are equally long; find a header and the lines of the samples."""
    with path.open(newline="", encoding="utf-8") as text:
        reader = csv.reader(text)
        try:
            rows = [(reader.line_num, row) for row in reader if row]
        except csv.Error as error:
            raise InputError(
                f"dataset `{path}`, line {reader.line_num}: {error}."
            ) from error
    if not rows or len(rows[0][1]) < 2:
        raise InputError(
            f"dataset `{path}` needs at least one feature and a label column."
        )
    first = rows[0][1]
    for line, row in rows:
        if len(row) != len(first):
            raise InputError(
                f"dataset `{path}`, line {line}: {len(row)} fields but the first line "
                f"has {len(first)}."
            )
    header = not all(map(_is_number, first[:-1])) or (
        len(rows) > 1 and not _is_number(first[-1]) and _is_number(rows[1][1][-1])
    )
    lines = [line for line, _ in rows]
    return header, lines[1:] if header else lines


def _is_number(text: str) -> bool:
    """Whether a field is a number, or empty where one should be."""
    try:
        float(text or "nan")
    except ValueError:
        return False
    return True


def _read_libsvm(path: Path) -> Arrays:
    from sklearn.datasets import load_svmlight_file

    try:
        x, y = load_svmlight_file(str(path))
    except ValueError as error:
        raise InputError(
            f"dataset `{path}` is not in LIBSVM format (`label index:value ...`): "
            f"{error}. Known: .npz, .csv, LIBSVM."
        ) from error
    return _checked(path, x.toarray(), y)


def _checked(path: Path, x: NDArray[Any], y: NDArray[Any]) -> Arrays:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if x.ndim < 2 or y.ndim != 1 or len(x) != len(y) or not len(x):
        raise InputError(
            f"dataset `{path}`: inputs {x.shape} and labels {y.shape} must be "
            "[samples, ...] and [samples], with at least one sample."
        )
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
    if np.issubdtype(y.dtype, np.floating) and not np.array_equal(y, np.round(y)):
        row = int(np.flatnonzero(y != np.round(y))[0])
        raise InputError(
            f"dataset `{path}`, row {row}: label {y[row]} is not a class. The command "
            "line trains classifiers; for regression use `LearningProblem` in Python."
        )
    return x, y
