"""Files of run folders, read with care: they may come from anybody, or be half written.

Whatever is wrong with a file is an `InputError` that names it. Torch is not needed.
"""

import contextlib
import csv
import io
import json
import os
import stat
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxmesh.errors import InputError, shortened
from proxmesh.solver.outcome import Outcome

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MADE_IN_PYTHON",
    "config_in",
    "last_row_in",
    "method_called",
    "method_in",
    "one_line",
    "summary_in",
    "table_in",
    "text_in",
]

MOST_BYTES_OF_TEXT = 16 * 2**20
MOST_BYTES_OF_TABLE = 512 * 2**20
MOST_BYTES_OF_ROW = 2**16
LARGEST_COUNT = 2**53  # up to here a float holds every whole number
MADE_IN_PYTHON = "python"  # the section that only the config of a program's run has
SECTIONS = ("algorithm", "data", "graph", "model", "regularizer", "run", MADE_IN_PYTHON)


def text_in(file: Path, most_bytes: int = MOST_BYTES_OF_TEXT) -> str:
    """The text of a regular file in UTF-8 that is not too large.

    Examples
    --------
    >>> text_in(Path(os.devnull))
    Traceback (most recent call last):
    proxmesh.errors.InputError: `/dev/null` is not a regular file.
    """
    with _opened(file) as handle:
        size = os.fstat(handle.fileno()).st_size
        if size > most_bytes:
            raise InputError(
                f"{_named(file)} has {size:,} bytes; at most {most_bytes:,} are read."
            )
        return _decoded(handle.read(most_bytes), file)


def config_in(file: Path) -> dict[str, Any]:
    """The config of a run: a seed, and sections with names."""
    with _malformed(file, "TOML"):
        tree = tomllib.loads(text_in(file))
    _require(_is_whole_number(tree.get("seed", 0)), file, "seed", "a whole number")
    for section in SECTIONS:
        found = tree.get(section, {})
        _require(isinstance(found, Mapping), file, section, "a table")
        _require(_is_name(found.get("name", "")), file, f"{section}.name", "a name")
    for section, key in (("graph", "agents"), ("run", "steps")):
        count = tree.get(section, {}).get(key, 0)
        is_count = _is_whole_number(count) and _is_count(count)
        _require(is_count, file, f"{section}.{key}", "a count")
    names = tree.get("run", {}).get("automatic", [])
    are_names = isinstance(names, list) and all(map(_is_name, names))
    _require(are_names, file, "run.automatic", "a list of names")
    return tree


def method_called(name: str) -> str:
    """What a method is called in tables; of one in a file, its class.

    Examples
    --------
    >>> method_called("/srv/mine.py:HeavyBall"), method_called("dsgt")
    ('HeavyBall', 'dsgt')
    """
    file, sign, kind = name.rpartition(":")
    return kind if sign and file.endswith(".py") else name


def method_in(config: Mapping[str, Any]) -> str:
    """What the method of a config is called; empty if it names none."""
    return method_called(config.get("algorithm", {}).get("name", ""))


def summary_in(file: Path) -> dict[str, Any]:
    """How a run ended: outcome, message and final numbers."""
    with _malformed(file, "JSON"):
        found = json.loads(text_in(file))
    if not isinstance(found, dict):
        raise InputError(f"{_named(file)} is not the summary of a run.")
    outcome = found.get("outcome")
    known = isinstance(outcome, str) and outcome in set(Outcome)
    _require(known, file, "outcome", f"one of: {', '.join(Outcome)}")
    _require(_is_text(found.get("message")), file, "message", "a text")
    final = found.get("final")
    numbers = isinstance(final, dict) and all(map(_is_number, final.values()))
    _require(numbers, file, "final", "a table of numbers")
    return found


def table_in(file: Path) -> "pd.DataFrame":
    """Rows of numbers, each at an iteration."""
    import pandas as pd
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    text = text_in(file, MOST_BYTES_OF_TABLE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # such as rows longer than the header
            table = pd.read_csv(io.StringIO(text), index_col=False, low_memory=False)
    except (ValueError, OverflowError, Warning) as error:
        raise InputError(f"{_named(file)} is not a table of numbers.") from error
    if "iteration" not in table:
        raise InputError(f"{_named(file)} has no column `iteration`.")
    for name, column in table.items():
        if len(table) and (is_bool_dtype(column) or not is_numeric_dtype(column)):
            raise InputError(
                f"{_named(file)}: column `{shortened(name)}` holds more than numbers."
            )
    if not all(map(_is_count, table["iteration"].tolist())):
        raise InputError(
            f"{_named(file)}: column `iteration` holds more than counts from 0 on."
        )
    return table


def last_row_in(file: Path) -> dict[str, float]:
    """The last complete row of a table, found without reading the others.

    It is empty if there is none. Empty cells are left out.
    """
    with _opened(file) as handle:
        head = handle.readline(MOST_BYTES_OF_ROW)
        end = os.fstat(handle.fileno()).st_size
        handle.seek(max(len(head), end - MOST_BYTES_OF_ROW))
        tail = handle.read(MOST_BYTES_OF_ROW)
    rows = tail[: tail.rfind(b"\n") + 1].splitlines()  # a run may be writing the last
    columns = _cells(head, file)
    if not rows:
        return {}
    cells = _cells(rows[-1], file)
    with _malformed(file, "a table of numbers"):
        row = {
            name: float(cell)
            for name, cell in zip(columns, cells, strict=True)
            if cell.strip()
        }
    if not _is_count(row.get("iteration")):
        raise InputError(f"{_named(file)} does not end with a row at an iteration.")
    return row


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[io.BufferedReader]:
    """Open a regular file; a pipe or a device could be read forever."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise InputError(f"{_named(file)} is not a regular file.")
        with open(handle, "rb") as opened:
            yield opened
    except OSError as error:
        raise InputError(f"{_named(file)} cannot be read: {error.strerror}.") from error


@contextlib.contextmanager
def _malformed(file: Path, kind: str) -> Iterator[None]:
    """Say that a file is not what it should be; nesting can exhaust a parser."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"{_named(file)} is not {kind}.") from error


def _decoded(raw: bytes, file: Path) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{_named(file)} is not text in UTF-8: byte {error.start:,} is wrong."
        ) from error


def _cells(line: bytes, file: Path) -> list[str]:
    try:
        return next(csv.reader([_decoded(line, file)], strict=True), [])
    except csv.Error as error:
        raise InputError(f"{_named(file)} is not a table of numbers.") from error


def _require(holds: bool, file: Path, key: str, wanted: str) -> None:
    if not holds:
        raise InputError(f"{_named(file)}: `{key}` is not {wanted}.")


def _is_whole_number(value: object) -> bool:
    return type(value) is int and abs(value) < 2**63


def _is_number(value: object) -> bool:
    if type(value) is int:
        return abs(value) < 2**1000  # more is too large for a float
    return type(value) is float


def _is_count(value: object) -> bool:
    if not isinstance(value, int | float):
        return False
    return 0 <= value < LARGEST_COUNT and value == int(value)


def _is_text(value: object) -> bool:
    """Whether it is a text that can be written in UTF-8: JSON can say half a letter."""
    return isinstance(value, str) and not any(0xD800 <= ord(c) < 0xE000 for c in value)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()


def _named(file: Path) -> str:
    return f"`{shortened(file)}`"


def one_line(text: str, most: int = 200) -> str:
    """The first line of a text from a file, without what could steer a terminal."""
    first, *_ = text.strip().splitlines() or [""]
    clean = _printable(first)
    return clean if len(clean) <= most else f"{clean[:most]}..."


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
