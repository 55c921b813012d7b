"""What started this process: mpiexec, torchrun, or no launcher at all."""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import final

from proxmesh.errors import InputError

__all__ = [
    "MPI_LAUNCHERS",
    "Launch",
    "cores",
    "launched",
    "threads_allowed",
    "wait_to_be_ended",
]

SECONDS_TO_BE_ENDED = 2.0

MOST_PORT = 2**16 - 1
DIGITS = 9  # Python refuses to read very long numbers
MOST = 10**DIGITS - 1

# Where launchers of MPI programs put rank, size, and both of them on this machine.
MPI_LAUNCHERS = {
    "mpiexec": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "mpiexec (Hydra)": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "srun": (
        "PMIX_RANK",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        "SLURM_NTASKS_PER_NODE",
    ),
}


@final
@dataclass(frozen=True, slots=True)
class Launch:
    """How this process was started.

    Attributes
    ----------
    launcher
        Its name in the user's words, or ``"nobody"``.
    engine
        The engine that fits it: ``"simulated"``, ``"mpi"`` or ``"torch"``.
    rank, size
        Number of this process, from 0, and how many there are.
    local_rank, local_size
        The same among the processes on this machine.
    """

    launcher: str
    engine: str
    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1


def launched(
    environment: Mapping[str, str] | None = None, *, checked: bool = True
) -> Launch:
    """Read from the environment what started this process.

    Parameters
    ----------
    environment
        Variables by name. None: those of this process.
    checked
        Refuse values that cannot be; otherwise nobody is said to have started it, so
        that a message about them can be printed.

    Examples
    --------
    >>> found = launched({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"})
    >>> found.engine, found.rank, found.size
    ('mpi', 1, 4)
    >>> launched({}).engine
    'simulated'
    >>> launched({"RANK": "5", "WORLD_SIZE": "2"})
    Traceback (most recent call last):
    proxmesh.errors.InputError: RANK is `5`, but must be a whole number from 0 to 1:
    WORLD_SIZE is 2. Let the launcher set it, or unset both.
    """
    found = os.environ if environment is None else environment
    try:
        return _read(found)
    except InputError:
        if checked:
            raise
        return Launch("nobody", "simulated")


def _read(found: Mapping[str, str]) -> Launch:
    if "RANK" in found and "WORLD_SIZE" in found:
        if found.get("MASTER_PORT"):
            _number(found, "MASTER_PORT", 1, MOST_PORT)
        keys = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        return Launch("torchrun", "torch", *_places(found, *keys))
    for launcher, keys in MPI_LAUNCHERS.items():
        rank_key, size_key, *_ = keys
        if rank_key in found and size_key in found:
            return Launch(launcher, "mpi", *_places(found, *keys))
    return Launch("nobody", "simulated")


def _places(
    found: Mapping[str, str], rank_key: str, size_key: str, place_key: str, key: str
) -> tuple[int, int, int, int]:
    """Rank and size, and both on this machine, which not every launcher tells."""
    size = _number(found, size_key, 1)
    told = f": {size_key} is {size}"
    rank = _number(found, rank_key, 0, size - 1, told)
    local = min(_number(found, key, 1) if found.get(key) else size, size)
    place = _number(found, place_key, 0) if found.get(place_key) else rank % local
    return rank, size, place, local


def _number(
    found: Mapping[str, str], key: str, least: int, most: int = MOST, told: str = ""
) -> int:
    text = found[key]
    if len(text) <= DIGITS and text.isdecimal() and least <= int(text) <= most:
        return int(text)
    limits = f"from {least} to {most}" if most < MOST else f"of at least {least}"
    raise InputError(
        f"{key} is `{text[:40]}`, but must be a whole number {limits}{told}. Let the "
        f"launcher set it, or unset {'both' if told else 'it'}."
    )


def wait_to_be_ended() -> None:
    """Give the launcher time to end this process, as it does when another has ended."""
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(SECONDS_TO_BE_ENDED)


def cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_allowed() -> int:
    """Threads that a run may use: ``OMP_NUM_THREADS``, or its share of the cores.

    Processes on one machine share its cores; Slurm says how many belong to each task.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked):
        return min(cores(), int(asked))
    own = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if own.isdecimal() and int(own):
        return min(cores(), int(own))
    return max(1, cores() // launched().local_size)
