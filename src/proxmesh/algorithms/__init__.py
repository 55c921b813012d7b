"""The methods, one file each; a step reads like its equations."""

from typing import get_type_hints

from torch.serialization import add_safe_globals

from proxmesh.algorithms.cdprox_sgt import CDProxSGT
from proxmesh.algorithms.centralized import ProxSGD, ProxSTORM
from proxmesh.algorithms.deepstorm import DEEPSTORM
from proxmesh.algorithms.depositum import DEPOSITUM
from proxmesh.algorithms.dpga import DPGA
from proxmesh.algorithms.dpsgd import DPSGD
from proxmesh.algorithms.dsgt import DSGT
from proxmesh.algorithms.hsm_admm import HSMADMM
from proxmesh.algorithms.hsm_admm_direct import (
    HSMADMMDirectFollowingState,
    HSMADMMDirectState,
)
from proxmesh.algorithms.hsm_admm_state import HSMADMMFollowingState, HSMADMMState
from proxmesh.algorithms.linearized_admm import LinearizedADMM
from proxmesh.algorithms.penalty_admm import PenaltyADMM
from proxmesh.algorithms.perturbed_admm import PerturbedADMM
from proxmesh.algorithms.pg_extra import PGEXTRA
from proxmesh.algorithms.prox_dasa import ProxDASA
from proxmesh.algorithms.prox_ed import ProxED
from proxmesh.algorithms.prox_gt import ProxGT
from proxmesh.algorithms.registry import ALGORITHMS, Method
from proxmesh.algorithms.sm_admm import SMADMM
from proxmesh.algorithms.sppdm import SPPDM

_STATES = {get_type_hints(method.kind.init)["return"] for method in ALGORITHMS.values()}
# Records of tensors, which `torch.load(weights_only=True)` may build.
add_safe_globals(
    [
        *_STATES,
        HSMADMMFollowingState,
        HSMADMMDirectState,
        HSMADMMDirectFollowingState,
    ]
)

__all__ = [
    "ALGORITHMS",
    "DEEPSTORM",
    "DEPOSITUM",
    "DPGA",
    "DPSGD",
    "DSGT",
    "HSMADMM",
    "PGEXTRA",
    "SMADMM",
    "SPPDM",
    "CDProxSGT",
    "HSMADMMDirectState",
    "HSMADMMState",
    "LinearizedADMM",
    "Method",
    "PenaltyADMM",
    "PerturbedADMM",
    "ProxDASA",
    "ProxED",
    "ProxGT",
    "ProxSGD",
    "ProxSTORM",
]
