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
from proxmesh.data.dataset import Arrays, Dataset
from proxmesh.errors import InputError, shortened
from proxmesh.limits import require_memory

__all__ = ["AgentData", "LargestOfAll", "agent_files", "load_agents"]

NAMED_BY_AGENT = re.compile(r"(?:agent|shard|client)?[-_]?(\d+)")
LARGEST_LABEL = 10**6
SUFFIXES = (".npz", ".csv", ".libsvm", ".svm")

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

    shards: dict[int, tuple[torch.Tensor, torch.Tensor]]
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
        match = NAMED_BY_AGENT.fullmatch(file.stem)
        if match is None or file.suffix not in SUFFIXES:
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
    """
    places = agent_files(folder)
    missing = [agent for agent in agents if agent not in places]
    if missing:
        raise InputError(
            f"`{folder}` has no file for agent {missing[0]} (`agent-{missing[0]}.npz`, "
            "`.csv`, `.libsvm` or `.svm`), which this process holds."
        )
    parts = {agent: files.read(places[agent], label)[0] for agent in agents}
    tests = sorted(p for p in Path(folder).glob("test.*") if p.suffix in SUFFIXES)
    test = files.read(tests[0], label)[0] if tests else None

    everything = [*parts.values(), *([test] if test is not None else [])]
    names = [*(places[agent] for agent in parts), *tests[:1]]
    for file, (_, labels) in zip(names, everything, strict=True):
        _require_classes(file, labels)
    low = -largest(-min(int(y.min()) for _, y in everything))
    high = largest(max(int(y.max()) for _, y in everything))
    zero = largest(int(any((y == 0).any() for _, y in everything)))
    signs = (low, high, zero) == (-1, 1, 0)  # LIBSVM's two classes: -1 and +1
    # LIBSVM files leave out trailing zeros; every process must ask, whatever it holds.
    sparse = any(places[agent].suffix not in {".npz", ".csv"} for agent in agents)
    width = largest(max(x.shape[1] for x, _ in everything) if sparse else 0)
    rows = sum(len(x) for x, _ in everything)
    require_memory(f"`{folder}`", 4 * rows * width, "Number the features 1, 2, 3, ...")
    if high == low:
        raise InputError(
            f"`{folder}`: all agents have only one class, `{low}`; a classifier needs "
            "two or more."
        )

    def tensors(arrays: Arrays) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = arrays
        if x.ndim == 2 and x.shape[1] < width:
            x = np.pad(x, ((0, 0), (0, width - x.shape[1])))
        y = (y > 0).astype(np.int64) if signs else y.astype(np.int64) - low
        x = np.ascontiguousarray(x, np.float32)
        return torch.from_numpy(x), torch.from_numpy(y)

    shards = {agent: tensors(arrays) for agent, arrays in parts.items()}
    first = shards[agents[0]]
    dataset = Dataset(
        name=Path(folder).name,
        inputs=first[0],
        targets=first[1],
        num_classes=2 if signs else high - low + 1,
        test=None if test is None else tensors(test),
    )
    return AgentData(shards, dataset)


def _require_classes(file: Path, labels: NDArray[Any]) -> None:
    """Refuse labels that cannot be the numbers of classes."""
    what, first = "a whole number", labels[:1]
    if labels.dtype.kind in "buif":
        first = labels[np.abs(labels.astype(float)) > LARGEST_LABEL]
        what = f"between -{LARGEST_LABEL:,} and {LARGEST_LABEL:,}"
    if len(first):
        raise InputError(
            f"`{file}`: the label `{shortened(first[0])}` is not {what}. Encode labels "
            "as 0, 1, 2, ..., the same way for all agents."
        )
