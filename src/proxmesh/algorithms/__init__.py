"""The methods, one file each; a step reads like its equations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from proxmesh.algorithms.centralized import ProxSGD, ProxSTORM
from proxmesh.algorithms.deepstorm import DEEPSTORM
from proxmesh.algorithms.dpsgd import DPSGD
from proxmesh.algorithms.dsgt import DSGT
from proxmesh.algorithms.hsm_admm import HSMADMM, HSMADMMState
from proxmesh.algorithms.prox_dasa import ProxDASA
from proxmesh.algorithms.prox_gt import ProxGT
from proxmesh.algorithms.sppdm import SPPDM

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


@final
@dataclass(frozen=True, slots=True)
class Method:
    """What a command-line name stands for.

    Attributes
    ----------
    kind
        The class.
    fixed
        Its fields that the name decides, such as ``{"version": 1}``.
    """

    kind: type[Any]
    fixed: Mapping[str, Any] = field(default_factory=dict)


ALGORITHMS: Mapping[str, Method] = {
    "d-psgd": Method(DPSGD),
    "deepstorm-v1": Method(DEEPSTORM, {"version": 1}),
    "deepstorm-v2": Method(DEEPSTORM, {"version": 2}),
    "dsgt": Method(DSGT),
    "hsm-admm": Method(HSMADMM),
    "hsm-admm-blind": Method(HSMADMM, {"assumed_degree": 2}),
    "hsm-admm-uniform": Method(HSMADMM, {"heterogeneous": False}),
    "prox-dasa": Method(ProxDASA, {"tracking": False}),
    "prox-dasa-gt": Method(ProxDASA, {"tracking": True}),
    "prox-gt-sa": Method(ProxGT, {"estimator": "sa"}),
    "prox-gt-sr-e": Method(ProxGT, {"estimator": "sr-e"}),
    "prox-gt-sr-o": Method(ProxGT, {"estimator": "sr-o"}),
    "prox-sgd": Method(ProxSGD),
    "prox-storm": Method(ProxSTORM),
    "sppdm": Method(SPPDM),
}
"""Every method by its command-line name."""
