"""Keep the process as small as what is alive in it."""

import ctypes
import sys

from torch import Tensor

__all__ = ["return_large_blocks"]

LARGE = 4 * 2**20
M_MMAP_THRESHOLD = -3  # of glibc's malloc.h


def return_large_blocks(rows: Tensor) -> None:
    """Have glibc give freed tensors of a large state back to the system at once.

    Left alone, its threshold adapts to their size; they then come from the heap, leave
    holes there, and a long run of many agents needs twice the memory that is alive.
    """
    if rows.device.type != "cpu" or rows.numel() * rows.element_size() < LARGE:
        return
    if sys.platform == "linux":
        tune = getattr(ctypes.CDLL(None), "mallopt", None)
        if tune is not None:
            tune(M_MMAP_THRESHOLD, LARGE)
