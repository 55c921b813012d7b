"""One file of data for each agent: a process opens those of its own agents only."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from proxmesh.data import files
from proxmesh.data.datasets import Dataset
from proxmesh.errors import InputError

__all__ = ["AgentData", "Extreme", "agent_files", "load_agents"]

NAMED_BY_AGENT = re.compile(r"(?:agent|shard|client)?[-_]?(\d+)")
SUFFIXES = (".npz", ".csv", ".libsvm", ".svm")

Arrays = tuple[NDArray[Any], NDArray[Any]]
Extreme = Callable[[int], int]
"""The largest value over all agents of a number that each process finds."""


@final
@dataclass(frozen=True, slots=True)
class AgentData:
    """What lies here: the shards of some agents, and all of them as one data set."""

    shards: dict[int, tuple[torch.Tensor, torch.Tensor]]
    dataset: Dataset


def agent_files(folder: str | Path) -> dict[int, Path]:
    """The files of a folder that are named by an agent: `3.npz`, `agent-3.csv`, ...

    Names are read, contents are not.
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
                f"`{found[agent]}` and `{file}` are both of agent {agent}. Keep one."
            )
        found[agent] = file
    return found


def load_agents(
    folder: str | Path,
    agents: Sequence[int],
    largest: Extreme,
    *,
    label: str | None = None,
) -> AgentData:
    """Open these agents' files.

    Labels are whole numbers. The smallest and largest of them and, for LIBSVM files,
    the number of features must be known to all processes: three numbers, found by
    `largest` before the run, and all that is told about the data.
    """
    places = agent_files(folder)
    missing = [agent for agent in agents if agent not in places]
    if missing:
        raise InputError(
            f"`{folder}` has no file of agent {missing[0]} (`agent-{missing[0]}.npz`, "
            "`.csv`, `.libsvm` or `.svm`), which this process holds."
        )
    parts = {agent: files.read(places[agent], label)[0] for agent in agents}
    tests = sorted(p for p in Path(folder).glob("test.*") if p.suffix in SUFFIXES)
    test = files.read(tests[0], label)[0] if tests else None

    everything = [*parts.values(), *([test] if test is not None else [])]
    for agent, (_, labels) in parts.items():
        if labels.dtype.kind not in "buif":
            raise InputError(
                f"`{places[agent]}`: the label `{labels[0]}` is not a whole number. "
                "Encode labels as 0, 1, 2, ... for all agents alike."
            )
    low = -largest(-min(int(y.min()) for _, y in everything))
    high = largest(max(int(y.max()) for _, y in everything))
    zero = largest(int(any((y == 0).any() for _, y in everything)))
    signs = (low, high, zero) == (-1, 1, 0)  # LIBSVM's two classes: -1 and +1
    # LIBSVM files leave out trailing zeros; all processes must ask, whatever they hold.
    sparse = any(places[agent].suffix not in {".npz", ".csv"} for agent in agents)
    width = largest(max(x.shape[1] for x, _ in everything) if sparse else 0)
    if high == low:
        raise InputError(
            f"`{folder}`: all agents have one class only, `{low}`; a classifier needs "
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
