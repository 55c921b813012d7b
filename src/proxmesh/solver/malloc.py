"""What a run takes of the machine's memory."""

import ctypes
import sys

from torch import Tensor

__all__ = ["reuse_large_blocks"]

LARGE = 2**20
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
UP_TO = 2**30


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
