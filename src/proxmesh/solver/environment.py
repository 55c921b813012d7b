"""What a run was made with: versions and machine, for the record."""

import platform
from importlib.metadata import version
from typing import Any

import torch

__all__ = ["environment"]

PACKAGES = ("proxmesh", "torch", "numpy")


def environment() -> dict[str, Any]:
    """Versions of Python and packages, and the kind of machine, ready for JSON.

    Examples
    --------
    >>> sorted(environment())
    ['machine', 'versions']
    """
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "threads": torch.get_num_threads(),
        },
    }
