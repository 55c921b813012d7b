"""The methods, one file each; a step reads like its equations."""

from typing import get_type_hints

from torch.serialization import add_safe_globals

from proxmesh.algorithms.centralized import ProxSGD, ProxSTORM
from proxmesh.algorithms.deepstorm import DEEPSTORM
from proxmesh.algorithms.dpsgd import DPSGD
from proxmesh.algorithms.dsgt import DSGT
from proxmesh.algorithms.hsm_admm import HSMADMM, HSMADMMState
from proxmesh.algorithms.prox_dasa import ProxDASA
from proxmesh.algorithms.prox_gt import ProxGT
from proxmesh.algorithms.registry import ALGORITHMS, Method
from proxmesh.algorithms.sppdm import SPPDM

_STATES = {get_type_hints(method.kind.init)["return"] for method in ALGORITHMS.values()}
add_safe_globals([*_STATES])  # records of tensors: `torch.load(weights_only=True)`

__all__ = [
    "ALGORITHMS",
    "DEEPSTORM",
    "DPSGD",
    "DSGT",
    "HSMADMM",
    "SPPDM",
    "HSMADMMState",
    "Method",
    "ProxDASA",
    "ProxGT",
    "ProxSGD",
    "ProxSTORM",
]
