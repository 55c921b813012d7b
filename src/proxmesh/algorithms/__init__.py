"""The methods, one file each; a step reads like its equations."""

from collections.abc import Mapping
from typing import Any

from proxmesh.algorithms.hsm_admm import HSMADMM, HSMADMMState

__all__ = ["ALGORITHMS", "HSMADMM", "HSMADMMState"]

ALGORITHMS: Mapping[str, type[Any]] = {"hsm-admm": HSMADMM}
"""Every method by its command-line name."""
