"""What started this process: mpiexec, torchrun, or no launcher at all."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

__all__ = ["MPI_LAUNCHERS", "Launch", "cores", "launched", "threads_allowed"]

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


def launched(environment: Mapping[str, str] | None = None) -> Launch:
    """Read from the environment what started this process.

    Parameters
    ----------
    environment
        Variables by name. None: those of this process.

    Examples
    --------
    >>> found = launched({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"})
    >>> found.engine, found.rank, found.size
    ('mpi', 1, 4)
    >>> launched({}).engine
    'simulated'
    """
    found = os.environ if environment is None else environment
    if "RANK" in found and "WORLD_SIZE" in found:
        rank, size = _number(found, "RANK", 0), _number(found, "WORLD_SIZE", 1)
        local = _number(found, "LOCAL_WORLD_SIZE", size)
        place = _number(found, "LOCAL_RANK", rank % local)
        return Launch("torchrun", "torch", rank, size, place, local)
    for launcher, (rank_key, size_key, place_key, local_key) in MPI_LAUNCHERS.items():
        if rank_key in found and size_key in found:
            rank, size = _number(found, rank_key, 0), _number(found, size_key, 1)
            local = min(_number(found, local_key, size), size)
            place = _number(found, place_key, rank % local)
            return Launch(launcher, "mpi", rank, size, place, local)
    return Launch("nobody", "simulated")


def _number(found: Mapping[str, str], key: str, otherwise: int) -> int:
    text = found.get(key, "")
    return int(text) if text.isdecimal() else otherwise


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
