"""Every method by its command-line name, with all that other packages know about it.

A new method is one file beside this one, one entry here and one row in docs/methods.md.
The order is that of the documentation, of tables and of legends.

A search space has an entry for each hyperparameter that `proxmesh tune` may change::

    {"low": 0.1, "high": 10.0}                  # on a logarithmic scale
    {"low": 0.0, "high": 1.0, "log": False}     # on a linear one
    {"low": 1.2, "high": 4.0, "times": "c_rho"}  # a multiple of another one
    {"choices": [8, 16, 32]}                    # one of a list

A dotted name is a part of a schedule, such as ``alpha.exponent``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from proxmesh.algorithms.cdprox_sgt import CDProxSGT
from proxmesh.algorithms.centralized import ProxSGD, ProxSTORM
from proxmesh.algorithms.checks import say_options
from proxmesh.algorithms.deepstorm import DEEPSTORM
from proxmesh.algorithms.depositum import DEPOSITUM
from proxmesh.algorithms.dpga import DPGA
from proxmesh.algorithms.dpsgd import DPSGD
from proxmesh.algorithms.dsgt import DSGT
from proxmesh.algorithms.hsm_admm import HSMADMM
from proxmesh.algorithms.linearized_admm import LinearizedADMM
from proxmesh.algorithms.penalty_admm import PenaltyADMM
from proxmesh.algorithms.perturbed_admm import PerturbedADMM
from proxmesh.algorithms.pg_extra import PGEXTRA
from proxmesh.algorithms.prox_dasa import ProxDASA
from proxmesh.algorithms.prox_ed import ProxED
from proxmesh.algorithms.prox_gt import ProxGT
from proxmesh.algorithms.sm_admm import SMADMM
from proxmesh.algorithms.sppdm import SPPDM

__all__ = ["ALGORITHMS", "Method"]

SearchSpace: TypeAlias = Mapping[str, Mapping[str, Any]]


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
    color
        Of its curves, in all figures.
    space
        What `proxmesh tune` may change, and within which limits.
    server
        Whether it averages over all agents, as only a server can, and sends nothing
        over edges: a reference, not a competitor.
    in_paper
        Whether the figures of the HSM-ADMM paper show it.
    """

    kind: type[Any]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    color: str = field(kw_only=True)
    space: SearchSpace = field(kw_only=True)
    server: bool = field(default=False, kw_only=True)
    in_paper: bool = field(default=False, kw_only=True)


ADMM_SPACE: SearchSpace = {
    "c_rho": {"low": 0.02, "high": 0.5},
    "c_eta": {"low": 1.2, "high": 4.0, "times": "c_rho"},
    "c_a": {"low": 0.5, "high": 10.0},
}
POWER_SPACE: SearchSpace = {
    "alpha.coefficient": {"low": 0.1, "high": 10.0},
    "alpha.exponent": {"choices": [-1 / 2, -1 / 3, 0.0]},
}
STORM_SPACE: SearchSpace = {
    "alpha": {"low": 0.2, "high": 6.0},
    "beta": {"low": 0.1, "high": 10.0},
}
DASA_SPACE: SearchSpace = {
    "gamma": {"low": 0.2, "high": 10.0},
    "alpha": {"low": 0.05, "high": 1.0},
}
DPGA_SPACE: SearchSpace = {
    "rho": {"low": 0.02, "high": 2.0},
    "smoothness": {"low": 0.2, "high": 20.0},
}
RECURSIVE_SPACE: SearchSpace = {
    "alpha": {"low": 0.05, "high": 2.0},
    "period": {"choices": [8, 16, 32, 64]},
}

ALGORITHMS: Mapping[str, Method] = {  # one hue per family, gray for a server
    "hsm-admm": Method(HSMADMM, color="#c01722", space=ADMM_SPACE, in_paper=True),
    "hsm-admm-uniform": Method(
        HSMADMM, {"heterogeneous": False}, color="#e8853b", space=ADMM_SPACE
    ),
    "hsm-admm-blind": Method(
        HSMADMM, {"assumed_degree": 2}, color="#7a4a1d", space=ADMM_SPACE
    ),
    "hsm-admm-direct": Method(
        HSMADMM, {"split": False}, color="#ff6b6b", space=ADMM_SPACE
    ),
    "d-psgd": Method(DPSGD, color="#1f5fb4", space=POWER_SPACE),
    "dsgt": Method(DSGT, color="#d9a900", space=POWER_SPACE),
    "sppdm": Method(
        SPPDM,
        color="#e377c2",
        space={
            "gamma": {"low": 0.5, "high": 50.0},
            "c": {"low": 0.05, "high": 2.0, "times": "gamma"},
            "alpha": {"low": 0.003, "high": 1.0, "times": "c"},
        },
        in_paper=True,
    ),
    "prox-gt-sa": Method(
        ProxGT, {"estimator": "sa"}, color="#17becf", space=POWER_SPACE
    ),
    "prox-gt-sr-o": Method(
        ProxGT,
        {"estimator": "sr-o"},
        color="#0b6e74",
        space={**RECURSIVE_SPACE, "large_batch": {"choices": [512, 2048]}},
        in_paper=True,
    ),
    "prox-gt-sr-e": Method(
        ProxGT, {"estimator": "sr-e"}, color="#7fb8bd", space=RECURSIVE_SPACE
    ),
    "deepstorm-v1": Method(
        DEEPSTORM, {"version": 1}, color="#9bc46b", space=STORM_SPACE
    ),
    "deepstorm-v2": Method(
        DEEPSTORM, {"version": 2}, color="#2c8c2c", space=STORM_SPACE, in_paper=True
    ),
    "prox-dasa": Method(
        ProxDASA, {"tracking": False}, color="#7d4fb3", space=DASA_SPACE
    ),
    "prox-dasa-gt": Method(
        ProxDASA, {"tracking": True}, color="#bb9ddf", space=DASA_SPACE
    ),
    "dlm": Method(DPGA, {"prox": False}, color="#9ecae1", space=DPGA_SPACE),
    "dpga": Method(DPGA, color="#08519c", space=DPGA_SPACE),
    "sdpga": Method(DPGA, {"growth": 1.0}, color="#4292c6", space=DPGA_SPACE),
    "prox-ed": Method(ProxED, color="#b5179e", space=POWER_SPACE),
    "linearized-admm": Method(
        LinearizedADMM,
        color="#fb9a99",
        space={
            "rho": {"low": 0.02, "high": 2.0},
            "c_eta": {"low": 1.2, "high": 8.0, "times": "rho"},
            "smoothness": {"low": 0.0, "high": 5.0, "log": False},
        },
    ),
    "cdprox-sgt": Method(
        CDProxSGT,
        color="#ffbf00",
        space={
            "alpha": {"low": 0.02, "high": 2.0},
            "gain_x": {"low": 0.05, "high": 1.0},
            "gain_y": {"low": 0.05, "high": 1.0},
        },
    ),
    "depositum": Method(
        DEPOSITUM,
        color="#b15928",
        space={
            "alpha": {"low": 0.02, "high": 3.0},
            "momentum": {"low": 0.0, "high": 0.95, "log": False},
        },
    ),
    "pg-extra": Method(PGEXTRA, color="#66c2a4", space=POWER_SPACE),
    "perturbed-admm": Method(
        PerturbedADMM,
        color="#6a3d9a",
        space={
            "rho": {"low": 0.02, "high": 0.45},
            "beta": {"low": 0.02, "high": 2.0},
            "smoothness": {"low": 0.2, "high": 20.0},
        },
    ),
    "penalty-admm": Method(
        PenaltyADMM,
        color="#cab2d6",
        space={
            "tau": {"low": 0.5, "high": 100.0},
            "rho": {"low": 0.1, "high": 10.0},
            "smoothness": {"low": 0.2, "high": 20.0},
        },
    ),
    "prox-sgd": Method(ProxSGD, color="#8a8f98", space=POWER_SPACE, server=True),
    "prox-storm": Method(ProxSTORM, color="#222222", space=STORM_SPACE, server=True),
    "sm-admm": Method(SMADMM, color="#5b5b5b", space=ADMM_SPACE, server=True),
}
"""Every method by its command-line name."""

for _method in ALGORITHMS.values():
    say_options(_method.kind)
