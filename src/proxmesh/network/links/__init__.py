"""Networks as they are: links that lose, delay or compress what is sent, and change.

A model is a frozen dataclass with its main number first. Several of them together wrap
any engine; an empty list is perfect links. The same seed loses the same messages on
every engine and after every resume.

Examples
--------
>>> import proxmesh as pm
>>> from torch import nn
>>> problem = pm.LearningProblem(
...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
...     pm.datasets.breast_cancer().split(4))
>>> links = [pm.links.Loss(0.3), pm.links.Compressed(pm.links.Bits(4))]
>>> result = pm.solve(problem, pm.HSMADMM(), pm.graphs.ring(4), steps=50, links=links)
>>> str(result.outcome), result.algorithm.dual_gain
('finished', 0.25)
"""

from proxmesh.compressors import Bits, Identity, Pow2, RandomK, Sign, TopK
from proxmesh.network.links.failing import (
    GilbertElliott,
    Loss,
    Outages,
    Participation,
    Schedule,
    Speeds,
)
from proxmesh.network.links.messages import Compressed, Delay, Every, Noise
from proxmesh.network.links.names import LINKS, named
from proxmesh.network.links.plan import Link, Plan
from proxmesh.network.links.timing import Bandwidth, Latency
from proxmesh.network.links.world import LinkedWorld as LinkedWorld

__all__ = [
    "LINKS",
    "Bandwidth",
    "Bits",
    "Compressed",
    "Delay",
    "Every",
    "GilbertElliott",
    "Identity",
    "Latency",
    "Link",
    "Loss",
    "Noise",
    "Outages",
    "Participation",
    "Plan",
    "Pow2",
    "RandomK",
    "Schedule",
    "Sign",
    "Speeds",
    "TopK",
    "named",
]
