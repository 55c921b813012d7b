"""Tables as text: one sample per line, a column of labels, names of columns or none."""

import csv
import io
import math
import warnings
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proxmesh.data.dataset import Arrays
from proxmesh.errors import InputError, Notice, shortened
from proxmesh.files import open_regular

__all__ = ["read_csv"]

# fmt: off
MISSING = {
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND",
    "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
}
# fmt: on
TRUTHS = {
    **dict.fromkeys(("True", "TRUE", "true"), True),
    **dict.fromkeys(("False", "FALSE", "false"), False),
}

VALUES = {*MISSING, *TRUTHS, "?", "-", "."}  # words that stand for a number

Row: TypeAlias = tuple[int, list[str]]
"""A line's number in the file, and its fields."""


def read_csv(path: Path, label: str | None = None) -> Arrays:
    """Return features and labels; every number takes eight bytes while it is read.

    Parameters
    ----------
    path
        The file.
    label
        Name of the column of labels; the last one if not given.
    """
    with io.TextIOWrapper(
        open_regular(path, "dataset"), "utf-8-sig", newline=""
    ) as text:
        reader = csv.reader(text)
        rows = ((reader.line_num, row) for row in reader if row)
        try:
            return _table(path, rows, label)
        except csv.Error as error:
            raise InputError(
                f"dataset `{path}`, line {reader.line_num}: {error}."
            ) from error


def _table(path: Path, rows: Iterator[Row], label: str | None) -> Arrays:
    head = list(islice(rows, 2))
    if not head or len(head[0][1]) < 2:
        raise InputError(
            f"dataset `{path}` needs at least one feature and a label column."
        )
    names = list(map(str, range(len(head[0][1]))))
    if _is_header(path, head):
        names = head.pop(0)[1]
    if label is not None and label not in names:
        listed = ", ".join(shortened(name) for name in names[:20])
        raise InputError(
            f"dataset `{path}` has no column `{shortened(label)}`. Its columns: "
            f"{listed}."
        )
    at = len(names) - 1 if label is None else names.index(label)
    chosen = names.pop(at)
    numbers, labels = array("d"), list[str]()
    same: dict[str, str] = {}
    for line, row in chain(head, rows):
        if len(row) != len(names) + 1:
            raise InputError(
                f"dataset `{path}`, line {line}: {len(row)} fields but the first line "
                f"has {len(names) + 1}."
            )
        word = row.pop(at)
        if word in MISSING:
            raise InputError(
                f"dataset `{path}`, line {line}: the label `{shortened(chosen)}` is "
                "missing."
            )
        labels.append(same.setdefault(word, word))
        numbers.extend(_numbers(path, line, names, row))
    x = np.frombuffer(numbers, np.float64).reshape(len(labels), len(names))
    return x, _as_labels(labels)


def _is_header(path: Path, head: list[Row]) -> bool:
    """Whether the first line has names; a value that is missing makes no name of it."""
    line, (*features, last) = head[0]
    named = [f for f in features if not _is_number(f) and f not in VALUES]
    if 0 < len(named) < len(features):
        warnings.warn(
            f"dataset `{path}`, line {line} has words and numbers, such as "
            f"`{shortened(named[0])}`. It is taken for the names of the columns.",
            Notice,
            stacklevel=2,
        )
    if named or len(head) == 1:
        return bool(named)
    below = head[1][1]
    words_for_labels = not _is_number(last) and last not in VALUES
    return words_for_labels and bool(below) and _is_number(below[-1])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(
    path: Path, line: int, names: list[str], row: list[str]
) -> Iterable[float]:
    try:
        values = list(map(float, row))
    except ValueError:  # at least one is no number, or a truth value
        values = [
            float(TRUTHS[text]) if text in TRUTHS else _number(path, line, name, text)
            for name, text in zip(names, row, strict=True)
        ]
    if not math.isfinite(sum(values)):  # one is not, or they are very large
        for name, text, value in zip(names, row, values, strict=True):
            if not math.isfinite(value):
                _refuse(path, line, name, text)
    return values


def _number(path: Path, line: int, name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        _refuse(path, line, name, text)


def _refuse(path: Path, line: int, name: str, text: str) -> NoReturn:
    raise InputError(
        f"dataset `{path}`, line {line}, column `{shortened(name)}`: "
        f"`{shortened(text) or 'nan'}` is not a finite number. Replace or encode it."
    )


def _as_labels(words: list[str]) -> NDArray[Any]:
    """All labels as numbers, if all are; otherwise as words."""
    different = dict.fromkeys(words)
    if TRUTHS.keys() >= different.keys():
        return np.array([TRUTHS[word] for word in words], bool)
    for kind, dtype in ((int, np.int64), (float, np.float64)):
        try:
            value = {word: dtype(kind(word)) for word in different}
        except (ValueError, OverflowError):
            continue
        return np.array([value[word] for word in words], dtype)
    return np.array(words, object)
