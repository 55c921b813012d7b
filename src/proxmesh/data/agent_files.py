"""One data file per agent: a process opens those of its own agents only."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from proxmesh.data import files
from proxmesh.data.dataset import Arrays, Dataset, as_tensors
from proxmesh.data.sparse import is_sparse
from proxmesh.data.sparse_files import widened
from proxmesh.errors import InputError, shortened
from proxmesh.limits import require_memory

__all__ = ["AgentData", "LargestOfAll", "agent_files", "load_agents"]

NAMED_BY_AGENT = re.compile(r"(?:agent|shard|client)?[-_]?(\d+)")
LARGEST_LABEL = 10**6
SUFFIXES = (".npz", ".csv", ".libsvm", ".svm")
PACKED = (".gz", ".bz2")  # behind those of LIBSVM files

LargestOfAll = Callable[[int], int]
"""Returns the largest of the numbers that all processes call it with."""


@final
@dataclass(frozen=True, slots=True)
class AgentData:
    """The shards of this process's agents.

    Parameters
    ----------
    shards
        Inputs and targets, by agent.
    dataset
        What the agents share: the shape of a sample, the classes, the test set.
    """

    shards: dict[int, tuple[Any, torch.Tensor]]
    dataset: Dataset


def agent_files(folder: str | Path) -> dict[int, Path]:
    """Return the files of a folder that are named by an agent: `3.npz`, `agent-3.csv`.

    Names are read, contents are not.

    Parameters
    ----------
    folder
        Where they lie.
    """
    path = Path(folder)
    if not path.is_dir():
        raise InputError(f"`--data-dir {folder}` is not a folder.")
    found: dict[int, Path] = {}
    for file in sorted(path.iterdir()):
        match = NAMED_BY_AGENT.fullmatch(_unpacked_name(file).stem)
        if match is None or not _is_data(file):
            continue
        agent = int(match[1])
        if agent in found:
            raise InputError(
                f"`{found[agent]}` and `{file}` both belong to agent {agent}. Keep one."
            )
        found[agent] = file
    return found


def load_agents(
    folder: str | Path,
    agents: Sequence[int],
    largest: LargestOfAll,
    *,
    label: str | None = None,
    zero_based: bool = False,
    numbers: bool = False,
) -> AgentData:
    """Open these agents' files.

    Labels are whole numbers. All processes must know the smallest and largest of them,
    whether 0 occurs and, for LIBSVM files, the number of features. These numbers, found
    by `largest` before the run, are all that leaves the process.

    Parameters
    ----------
    folder
        Where the files lie; `test.npz`, `test.csv`, ... in it is the test set.
    agents
        Whose files to open.
    largest
        Called by all processes in the same order.
    label
        Name of the label column of a .csv; the last one if not given.
    zero_based
        Whether the first feature of a LIBSVM file has the number 0 in place of 1.
    numbers
        Whether labels are numbers to be predicted, and not classes.
    """
    places = agent_files(folder)
    missing = [agent for agent in agents if agent not in places]
    if missing:
        raise InputError(
            f"`{folder}` has no file for agent {missing[0]} (`agent-{missing[0]}.npz`, "
            "`.csv`, `.libsvm` or `.svm`), which this process holds."
        )

    def read(file: Path) -> Arrays:
        x, y = files.read(file, label, zero_based=zero_based)[0]
        return (x, files.require_numbers(file, y)) if numbers else (x, y)

    parts = {agent: read(places[agent]) for agent in agents}
    tests = sorted(p for p in Path(folder).glob("test.*") if _is_data(p))
    test = read(tests[0]) if tests else None

    everything = [*parts.values(), *([test] if test is not None else [])]
    names = [*(places[agent] for agent in parts), *tests[:1]]
    signs, low, high = False, 0, 0
    if not numbers:
        for file, (_, labels) in zip(names, everything, strict=True):
            _require_classes(file, labels)
        low = -largest(-min(int(y.min()) for _, y in everything))
        high = largest(max(int(y.max()) for _, y in everything))
        zero = largest(int(any((y == 0).any() for _, y in everything)))
        signs = (low, high, zero) == (-1, 1, 0)  # LIBSVM's two classes: -1 and +1
    # LIBSVM files leave out trailing zeros; every process must ask, whatever it holds.
    libsvm = any(places[agent].suffix not in {".npz", ".csv"} for agent in agents)
    width = largest(max(x.shape[1] for x, _ in everything) if libsvm else 0)
    # All agents keep their samples in one form, or a process could not hold several.
    sparse = bool(largest(int(any(is_sparse(x) for x, _ in everything))))
    rows = 0 if sparse else sum(len(x) for x, _ in everything)
    require_memory(f"`{folder}`", 4 * rows * width, "Number the features 1, 2, 3, ...")
    if high == low and not numbers:
        raise InputError(
            f"`{folder}`: all agents have only one class, `{low}`; a classifier needs "
            "two or more."
        )

    def tensors(arrays: Arrays) -> tuple[Any, torch.Tensor]:
        x, y = arrays
        if sparse and not is_sparse(x):
            x = _sparse(x)
        if x.ndim == 2 and x.shape[1] < width:
            x = widened(x, width)
        if not numbers:
            y = (y > 0).astype(np.int64) if signs else y.astype(np.int64) - low
        return as_tensors((x, y))

    shards = {agent: tensors(arrays) for agent, arrays in parts.items()}
    first = shards[agents[0]]
    dataset = Dataset(
        name=Path(folder).name,
        inputs=first[0],
        targets=first[1],
        num_classes=2 if signs else high - low + 1,  # of numbers 1
        test=None if test is None else tensors(test),
        labels=() if numbers else (-1, 1) if signs else tuple(range(low, high + 1)),
    )
    return AgentData(shards, dataset)


def _is_data(file: Path) -> bool:
    """Whether a file's name ends as those of data do."""
    inner = _unpacked_name(file)
    return inner.suffix in SUFFIXES and (inner == file or inner.suffix in SUFFIXES[2:])


def _unpacked_name(file: Path) -> Path:
    return file.with_suffix("") if file.suffix in PACKED else file


def _sparse(x: Any) -> Any:
    """The small table of an agent, sparse since others are."""
    from scipy.sparse import csr_array

    return csr_array(x)


def _require_classes(file: Path, labels: NDArray[Any]) -> None:
    """Refuse labels that cannot be the numbers of classes."""
    files.require_classes(file, labels)
    what, first = "a whole number", labels[:1]
    if labels.dtype.kind in "buif":
        first = labels[np.abs(labels.astype(float)) > LARGEST_LABEL]
        what = f"between -{LARGEST_LABEL:,} and {LARGEST_LABEL:,}"
    if len(first):
        raise InputError(
            f"`{file}`: the label `{shortened(first[0])}` is not {what}. Encode labels "
            "as 0, 1, 2, ..., the same way for all agents."
        )
