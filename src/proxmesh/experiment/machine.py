"""What a run takes of the machine: cores and memory."""

import ctypes
import os
import sys

from torch import Tensor

__all__ = ["cores", "reuse_large_blocks", "threads_allowed"]

LARGE = 2**20
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
UP_TO = 2**30


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_allowed() -> int:
    """Threads that a run may use: ``OMP_NUM_THREADS``, or as many as cores."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores(), int(asked)) if asked.isdecimal() and int(asked) else cores()


def reuse_large_blocks(rows: Tensor) -> None:
    """Have glibc keep the freed tensors of a large state and hand them out again.

    Left alone, it gets every block beyond a few MB from the system and returns it at
    once; the system clears each page anew, which takes longer than a step's arithmetic:
    1,024 agents then need two to three times as long for an iteration. It stays so for
    the process: what a run has used is kept for the next.
    """
    if rows.device.type != "cpu" or rows.numel() * rows.element_size() < LARGE:
        return
    if sys.platform == "linux":
        tune = getattr(ctypes.CDLL(None), "mallopt", None)
        if tune is not None and tune(M_MMAP_THRESHOLD, UP_TO):  # older ones refuse it
            tune(M_TRIM_THRESHOLD, 2 * UP_TO - 1)
