"""agents.csv and first_layer.csv: what a run shows close up, as text that runs no code.

Torch is not needed to read them.
"""

import base64
import binascii
import csv
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final

from proxmesh.errors import InputError, shortened
from proxmesh.solver.reading import LARGEST_COUNT, table_in, text_in

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

__all__ = [
    "AGENT_COLUMNS",
    "FULL",
    "LAYER_COLUMNS",
    "MOST_CELLS",
    "FirstLayer",
    "agents_in",
    "first_layer_in",
    "lines_of_agents",
    "lines_of_layer",
]

AGENT_COLUMNS = ("iteration", "agent", "train_loss", "consensus")
LAYER_COLUMNS = (
    "iteration",
    "weight_rows",
    "weight_columns",
    "rows",
    "columns",
    "cells",
)
MOST_CELLS = 96  # of a side
MOST_PATTERNS_READ = 100
FULL = 255  # the byte of a cell without a zero


@final
@dataclass(frozen=True, slots=True)
class FirstLayer:
    """Which weights of a model's first layer are not zero, along a run.

    Parameters
    ----------
    iterations
        When it was looked at.
    density
        Share of weights in each cell that are not zero: ``[iterations, rows, columns]``
        of numbers in 0..1, at most 96 rows and columns.
    shape
        Rows and columns of the whole weight; those of a kernel count as columns.
    """

    iterations: list[int]
    density: "np.ndarray"
    shape: tuple[int, int]


def lines_of_agents(iteration: int, values: Sequence[Sequence[float]]) -> str:
    r"""One evaluation: a line for each agent's loss and consensus error.

    Examples
    --------
    >>> lines_of_agents(5, [[0.5, 1e-9]])
    '5,0,0.5,1e-09\n'
    """
    return "".join(
        f"{iteration},{agent},{loss:.7g},{consensus:.7g}\n"
        for agent, (loss, consensus) in enumerate(values)
    )


def lines_of_layer(
    iteration: int, shape: tuple[int, int], rows: int, columns: int, cells: bytes
) -> str:
    r"""One look at the first layer: its cells as bytes, compressed.

    Examples
    --------
    >>> lines_of_layer(5, (2, 1), 2, 1, bytes([0, 255]))
    '5,2,1,2,1,eNpj+A8AAQEBAA==\n'
    """
    packed = base64.b64encode(zlib.compress(cells, 9)).decode()
    return f"{iteration},{shape[0]},{shape[1]},{rows},{columns},{packed}\n"


def agents_in(file: Path) -> "pd.DataFrame":
    """Each agent's loss and consensus error at every evaluation that was kept."""
    table = table_in(file)
    if tuple(table.columns) != AGENT_COLUMNS:
        raise _not_of_a_run(file, f"its columns are not {', '.join(AGENT_COLUMNS)}")
    agents = table["agent"]
    if not ((agents >= 0) & (agents < LARGEST_COUNT) & (agents % 1 == 0)).all():
        raise _not_of_a_run(file, "column `agent` holds more than counts from 0 on")
    if table.duplicated(["iteration", "agent"]).any():
        raise _not_of_a_run(file, "an agent is there twice at one iteration")
    return table.astype({"iteration": "int64", "agent": "int64"})


def first_layer_in(file: Path) -> FirstLayer:
    """The pattern of the first layer at every look that was kept."""
    import numpy as np

    text = text_in(file)
    try:
        found = _patterns(list(csv.reader(text.splitlines(), strict=True)))
    except (ValueError, csv.Error, zlib.error, binascii.Error) as error:
        raise _not_of_a_run(file, "it holds no patterns") from error
    sizes = {(shape, size) for _, shape, size, _ in found}
    iterations = [iteration for iteration, *_ in found]
    if len(sizes) > 1 or sorted(set(iterations)) != iterations:
        raise _not_of_a_run(file, "its lines do not follow one another")
    ((shape, (rows, columns)),) = sizes
    cells = np.frombuffer(b"".join(c for *_, c in found), np.uint8)
    density = cells.reshape(len(found), rows, columns) / FULL
    return FirstLayer(iterations, density, shape)


_Pattern: TypeAlias = tuple[int, tuple[int, int], tuple[int, int], bytes]
"""Iteration, shape of the weight, rows and columns of the cells, the cells."""


def _patterns(table: Sequence[Sequence[str]]) -> list[_Pattern]:
    """All lines, or a ValueError."""
    head, *lines = table
    if tuple(head) != LAYER_COLUMNS or not 0 < len(lines) <= MOST_PATTERNS_READ:
        raise ValueError
    return [_pattern(line) for line in lines]


def _pattern(line: Sequence[str]) -> _Pattern:
    *numbers, packed = line
    iteration, weight_rows, weight_columns, rows, columns = map(_count, numbers)
    if not (0 < rows <= MOST_CELLS and 0 < columns <= MOST_CELLS):
        raise ValueError
    if rows > weight_rows or columns > weight_columns:
        raise ValueError
    size = rows * columns
    # One byte more is asked for: a file that holds too many is found without them.
    raw = base64.b64decode(packed, validate=True)
    opened = zlib.decompressobj()
    cells = opened.decompress(raw, size + 1)
    if len(cells) != size or not opened.eof:
        raise ValueError
    return iteration, (weight_rows, weight_columns), (rows, columns), cells


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 16):
        raise ValueError
    value = int(text)
    if value >= LARGEST_COUNT:
        raise ValueError
    return value


def _not_of_a_run(file: Path, why: str) -> InputError:
    return InputError(f"`{shortened(file)}` is not of a run: {why}.")
