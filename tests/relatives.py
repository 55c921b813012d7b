"""The relatives of HSM-ADMM: a literal version, golden values and a lasso for each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import reference
import torch

import proxmesh as pm
from proxmesh import compressors

Rows = list[reference.Vector]
Reference = Callable[[pm.Graph, Rows, Any, Any], Iterator[Rows]]


@dataclass(frozen=True)
class Relative:
    """What the common tests of methods take for one name."""

    noisy: Any  # for the comparison with the literal version
    literal: Reference
    golden: Any
    third: list[float]  # X^3 of RELATIVES.md, 13.7
    reached: float  # distance of its limit to the solution 0.8
    lasso: Any
    near: float


def w(graph: pm.Graph) -> reference.Weights:
    return reference.metropolis(graph.n, list(graph.edges))


def pow2(u: reference.Vector, k: int) -> reference.Vector:
    """Q(u) = sign(u) 2^floor(log2 |u|), by way of torch's own `frexp`."""
    del k
    mantissa, exponent = torch.frexp(torch.from_numpy(u))
    found: reference.Vector = torch.ldexp(mantissa.sign(), exponent - 1).numpy()
    return found


RELATIVES: dict[str, Relative] = {
    "dlm": Relative(
        pm.DPGA(0.4, 3.0, prox=False),
        lambda g, x, d, h: reference.dpga(
            list(g.edges), x, d, h, rho=0.4, smoothness=3.0, l1=0.1
        ),
        pm.DPGA(1.0, 2.0, prox=False),
        [0.841796875, 0.296875, 1.0458984375, 1.0234375],
        1e-13,
        pm.DPGA(1.0, 4.0, prox=False),
        0.1,  # a subgradient of l1 never settles
    ),
    "dpga": Relative(
        pm.DPGA(0.4, 3.0),
        lambda g, x, d, h: reference.dpga(
            list(g.edges), x, d, h, rho=0.4, smoothness=3.0
        ),
        pm.DPGA(1.0, 2.0),
        [0.818359375, 0.03125, 1.0302734375, 1.037109375],
        1e-13,
        pm.DPGA(1.0, 4.0),
        1e-8,
    ),
    "sdpga": Relative(
        pm.DPGA(0.4, 3.0, growth=1.0),
        lambda g, x, d, h: reference.dpga(
            list(g.edges), x, d, h, rho=0.4, smoothness=3.0, growth=1.0
        ),
        pm.DPGA(1.0, 2.0, growth=1.0),
        [0.7614025754, 0.0, 1.019070658, 1.024941532],
        1e-13,
        pm.DPGA(1.0, 4.0, growth=1.0),
        1e-8,
    ),
    "prox-ed": Relative(
        pm.ProxED(pm.schedules.power(0.1, -0.5)),
        lambda g, x, d, h: reference.prox_ed(w(g), x, d, h, alpha=0.1),
        pm.ProxED(0.3),
        [0.7628670654, 0.0, 1.4323641357, 1.3667861328],
        1e-13,
        pm.ProxED(0.1),
        1e-8,
    ),
    "linearized-admm": Relative(
        pm.LinearizedADMM(0.4, 0.9, 2.0),
        lambda g, x, d, h: reference.linearized_admm(
            list(g.edges), x, d, h, rho=0.4, c_eta=0.9, smoothness=2.0
        ),
        pm.LinearizedADMM(1.0, 2.0),
        [0.794921875, 0.078125, 1.0458984375, 1.0234375],
        1e-13,
        pm.LinearizedADMM(1.0, 4.0),
        1e-8,
    ),
    "cdprox-sgt": Relative(
        pm.CDProxSGT(0.05, 0.6, 0.5, compressors.Pow2()),
        lambda g, x, d, h: reference.cdprox_sgt(
            w(g), x, d, h, alpha=0.05, gain_x=0.6, gain_y=0.5, compress=pow2
        ),
        pm.CDProxSGT(0.1, 0.5, 0.5, compressors.Pow2()),
        [0.4832890625, -0.7544921875, 0.9675703125, 0.7468359375],
        1e-12,
        pm.CDProxSGT(0.1, 0.5, 0.5, compressors.Bits(4)),
        1e-8,
    ),
    "sm-admm": Relative(
        pm.SMADMM(0.4, 3.0, 2.5),
        lambda _, x, d, h: reference.sm_admm(x, d, h, c_rho=0.4, c_eta=3.0, c_a=2.5),
        pm.SMADMM(1.0, 2.0),
        [0.7901840264] * 4,
        1e-13,
        pm.SMADMM(1.0, 4.0),
        1e-8,
    ),
    "depositum": Relative(
        pm.DEPOSITUM(0.05, 0.6, 3),
        lambda g, x, d, h: reference.depositum(
            w(g), x, d, h, alpha=0.05, momentum=0.6, period=3
        ),
        pm.DEPOSITUM(0.1, 0.5, 1),
        [0.2122600403, -0.3996253281, 0.5741463547, 0.4622590942],
        1e-13,
        pm.DEPOSITUM(0.1, 0.5),
        1e-8,
    ),
    "pg-extra": Relative(
        pm.PGEXTRA(0.08),
        lambda g, x, d, h: reference.pg_extra(w(g), x, d, h, alpha=0.08),
        pm.PGEXTRA(0.3),
        [0.821125, 0.0, 1.2809375, 1.3040625],
        1e-13,
        pm.PGEXTRA(0.1),
        1e-8,
    ),
    "perturbed-admm": Relative(
        pm.PerturbedADMM(0.4, 0.7, 6.0),
        lambda g, x, d, h: reference.perturbed_admm(
            list(g.edges), x, d, h, rho=0.4, beta=0.7, smoothness=6.0, decay=True
        ),
        pm.PerturbedADMM(1.0, 0.1, 2.0),
        [0.8427302751, 0.2402513818, 0.9815330038, 0.9973123937],
        1e-3,  # like 1/k
        pm.PerturbedADMM(1.0, 0.1, 4.0),
        1e-3,
    ),
    "perturbed-admm, constant": Relative(
        pm.PerturbedADMM(0.4, 0.7, 6.0, decay=False),
        lambda g, x, d, h: reference.perturbed_admm(
            list(g.edges), x, d, h, rho=0.4, beta=0.7, smoothness=6.0, decay=False
        ),
        pm.PerturbedADMM(1.0, 0.1, 2.0, decay=False),
        [0.8535914723, 0.1938679847, 1.0085778061, 1.0192697704],
        0.256,  # biased by design
        pm.PerturbedADMM(1.0, 1e-3, 4.0, decay=False),
        1e-2,
    ),
    "penalty-admm": Relative(
        pm.PenaltyADMM(2.0, 0.8, 3.0),
        lambda g, x, d, h: reference.penalty_admm(
            list(g.edges), x, d, h, tau=2.0, rho=0.8, smoothness=3.0
        ),
        pm.PenaltyADMM(4.0, 1.0, 2.0),
        [0.4315102041, 0.1467055394, 0.8293221574, 0.9032653061],
        0.531,  # biased by design
        pm.PenaltyADMM(100.0, 1.0, 4.0),
        2e-2,
    ),
}
"""By command-line name."""
