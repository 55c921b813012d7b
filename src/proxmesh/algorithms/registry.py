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
    title
        Its proper name, as its paper writes it: in figures and in LaTeX tables.
    color
        Of its curves, in all figures.
    space
        What `proxmesh tune` may change, and within which limits.
    server
        Whether it averages over all agents, as only a server can, and sends nothing
        over edges: a reference, not a competitor.
    in_paper
        Whether the figures of the HSM-ADMM paper show it.
    papers_form
        Values for the rule of its paper, where its defaults are found otherwise.
    about
        One line, where that of the class does not tell it from its siblings.
    """

    kind: type[Any]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    title: str = field(kw_only=True)
    color: str = field(kw_only=True)
    space: SearchSpace = field(kw_only=True)
    server: bool = field(default=False, kw_only=True)
    in_paper: bool = field(default=False, kw_only=True)
    papers_form: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    about: str = field(default="", kw_only=True)


ROUND_NUMBERS = {"c_rho": 0.25, "c_eta": 0.5, "c_a": 1.0}  # the paper has none
ADMM_SPACE: SearchSpace = {
    "c_rho": {"low": 0.02, "high": 0.5},
    "c_eta": {"low": 1.2, "high": 4.0, "times": "c_rho"},
    "c_a": {"low": 0.5, "high": 10.0},
    "smoothness": {"low": 0.0, "high": 10.0, "log": False},
    "k0": {"choices": [0, 30, 300]},
}
SM_ADMM_SPACE: SearchSpace = {  # a server knows neither L_f nor k0
    name: ADMM_SPACE[name] for name in ("c_rho", "c_eta", "c_a")
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

# One hue per family, gray for a server. Those of the usual methods can be told apart by
# the color-blind, which a test measures.
ALGORITHMS: Mapping[str, Method] = {
    "hsm-admm": Method(
        HSMADMM,
        title="HSM-ADMM",
        color="#c01722",
        space={**ADMM_SPACE, "split": {"choices": [True, False]}},
        papers_form=ROUND_NUMBERS,
        in_paper=True,
    ),
    "hsm-admm-uniform": Method(
        HSMADMM,
        {"heterogeneous": False},
        title="HSM-ADMM (uniform)",
        color="#e8853b",
        space=ADMM_SPACE,
        papers_form=ROUND_NUMBERS,
        about="HSM-ADMM whose steps all fit the largest degree: an ablation",
    ),
    "hsm-admm-blind": Method(
        HSMADMM,
        {"assumed_degree": 2},
        title="HSM-ADMM (blind)",
        color="#7a4a1d",
        space=ADMM_SPACE,
        papers_form=ROUND_NUMBERS,
        about="HSM-ADMM whose steps fit a ring on any graph: an ablation",
    ),
    "hsm-admm-direct": Method(
        HSMADMM,
        {"split": False},
        title="HSM-ADMM (direct)",
        color="#ff6b6b",
        space=ADMM_SPACE,
        papers_form=ROUND_NUMBERS,
        about="HSM-ADMM with the prox on x itself, so that x has exact zeros",
    ),
    "d-psgd": Method(DPSGD, title="D-PSGD", color="#233f8c", space=POWER_SPACE),
    "dsgt": Method(DSGT, title="DSGT", color="#d9a900", space=POWER_SPACE),
    "sppdm": Method(
        SPPDM,
        title="SPPDM",
        color="#e377c2",
        space={
            "gamma": {"low": 0.5, "high": 50.0},
            "c": {"low": 0.05, "high": 2.0, "times": "gamma"},
            "alpha": {"low": 0.003, "high": 1.0, "times": "c"},
        },
        in_paper=True,
    ),
    "prox-gt-sa": Method(
        ProxGT,
        {"estimator": "sa"},
        title="ProxGT-SA",
        color="#17becf",
        space=POWER_SPACE,
        about="Proximal gradient tracking with fresh minibatch gradients",
    ),
    "prox-gt-sr-o": Method(
        ProxGT,
        {"estimator": "sr-o"},
        title="ProxGT-SR-O",
        color="#0b6e74",
        space={**RECURSIVE_SPACE, "large_batch": {"choices": [512, 2048]}},
        in_paper=True,
        about="ProxGT with a recursive estimate, renewed by large batches",
    ),
    "prox-gt-sr-e": Method(
        ProxGT,
        {"estimator": "sr-e"},
        title="ProxGT-SR-E",
        color="#7fb8bd",
        space=RECURSIVE_SPACE,
        about="ProxGT with a recursive estimate, renewed by whole shards",
    ),
    "deepstorm-v1": Method(
        DEEPSTORM,
        {"version": 1},
        title="DEEPSTORM v1",
        color="#1d6b2a",
        space=STORM_SPACE,
        about="Tracking and proximal steps on STORM gradients of two batches",
    ),
    "deepstorm-v2": Method(
        DEEPSTORM,
        {"version": 2},
        title="DEEPSTORM v2",
        color="#4cbb52",
        space=STORM_SPACE,
        in_paper=True,
        about="Tracking and proximal steps on STORM gradients of one batch",
    ),
    "prox-dasa": Method(
        ProxDASA,
        {"tracking": False},
        title="Prox-DASA",
        color="#875cc6",
        space=DASA_SPACE,
        about="Average models toward proximal steps, gradients toward new ones",
    ),
    "prox-dasa-gt": Method(
        ProxDASA,
        {"tracking": True},
        title="Prox-DASA-GT",
        color="#bb9ddf",
        space=DASA_SPACE,
        about="Prox-DASA that tracks the mean gradient",
    ),
    "dlm": Method(
        DPGA,
        {"prox": False},
        title="DLM",
        color="#9ecae1",
        space=DPGA_SPACE,
        about="Linearized ADMM on the edges; h enters through a subgradient",
    ),
    "dpga": Method(DPGA, title="DPGA", color="#08519c", space=DPGA_SPACE),
    "sdpga": Method(
        DPGA,
        {"growth": 1.0},
        title="SDPGA",
        color="#4292c6",
        space=DPGA_SPACE,
        about="DPGA whose steps shrink, for minibatches",
    ),
    "prox-ed": Method(ProxED, title="Prox-ED", color="#b5179e", space=POWER_SPACE),
    "linearized-admm": Method(
        LinearizedADMM,
        title="Linearized ADMM",
        color="#fb9a99",
        space={
            "rho": {"low": 0.02, "high": 2.0},
            "c_eta": {"low": 1.2, "high": 8.0, "times": "rho"},
            "smoothness": {"low": 0.0, "high": 5.0, "log": False},
        },
    ),
    "cdprox-sgt": Method(
        CDProxSGT,
        title="CDProxSGT",
        color="#ffbf00",
        space={
            "alpha": {"low": 0.02, "high": 2.0},
            "gain_x": {"low": 0.05, "high": 1.0},
            "gain_y": {"low": 0.05, "high": 1.0},
        },
    ),
    "depositum": Method(
        DEPOSITUM,
        title="DEPOSITUM",
        color="#b15928",
        space={
            "alpha": {"low": 0.02, "high": 3.0},
            "momentum": {"low": 0.0, "high": 0.95, "log": False},
        },
    ),
    "pg-extra": Method(PGEXTRA, title="PG-EXTRA", color="#66c2a4", space=POWER_SPACE),
    "perturbed-admm": Method(
        PerturbedADMM,
        title="Perturbed ADMM",
        color="#6a3d9a",
        space={
            "rho": {"low": 0.02, "high": 0.45},
            "beta": {"low": 0.02, "high": 2.0},
            "smoothness": {"low": 0.2, "high": 20.0},
        },
    ),
    "penalty-admm": Method(
        PenaltyADMM,
        title="Penalty ADMM",
        color="#cab2d6",
        space={
            "tau": {"low": 0.5, "high": 100.0},
            "rho": {"low": 0.1, "high": 10.0},
            "smoothness": {"low": 0.2, "high": 20.0},
        },
    ),
    "prox-sgd": Method(
        ProxSGD,
        title="Prox-SGD",
        color="#8a8f98",
        space=POWER_SPACE,
        server=True,
        about="A server: proximal SGD on the average of all gradients",
    ),
    "prox-storm": Method(
        ProxSTORM,
        title="Prox-STORM",
        color="#222222",
        space=STORM_SPACE,
        server=True,
        about="A server: proximal STORM on the average of all gradients",
    ),
    "sm-admm": Method(
        SMADMM,
        title="SM-ADMM",
        color="#5b5b5b",
        space=SM_ADMM_SPACE,
        server=True,
        about="A server: linearized ADMM with STORM gradients of all losses",
    ),
}
"""Every method by its command-line name."""

for _method in ALGORITHMS.values():
    say_options(_method.kind)
