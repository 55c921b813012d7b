"""proxmesh: train one model across a network of peers that keep their data.

Decentralized optimization of ``mean_i f_i(x) + h(x)`` with f_i smooth, possibly
nonconvex, seen through minibatches, and h convex with a prox. No server, no all-reduce.

Names are imported on first use, so that importing the package costs nothing.
"""

import os
import re
from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# Threads that wait for one another should sleep: torch's OpenMP has them spin, and
# beside other jobs that can make a run a hundred times longer. OpenMP reads this once,
# as torch is loaded; processes that are started from here inherit it.
if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"} & os.environ.keys():
    os.environ["OMP_WAIT_POLICY"] = "passive"

if TYPE_CHECKING:
    from proxmesh import compressors as compressors
    from proxmesh import graphs as graphs
    from proxmesh import loggers as loggers
    from proxmesh import optim as optim
    from proxmesh import schedules as schedules
    from proxmesh import theory as theory
    from proxmesh.algorithms import DEEPSTORM as DEEPSTORM
    from proxmesh.algorithms import DEPOSITUM as DEPOSITUM
    from proxmesh.algorithms import DPGA as DPGA
    from proxmesh.algorithms import DPSGD as DPSGD
    from proxmesh.algorithms import DSGT as DSGT
    from proxmesh.algorithms import HSMADMM as HSMADMM
    from proxmesh.algorithms import PGEXTRA as PGEXTRA
    from proxmesh.algorithms import SMADMM as SMADMM
    from proxmesh.algorithms import SPPDM as SPPDM
    from proxmesh.algorithms import CDProxSGT as CDProxSGT
    from proxmesh.algorithms import LinearizedADMM as LinearizedADMM
    from proxmesh.algorithms import PenaltyADMM as PenaltyADMM
    from proxmesh.algorithms import PerturbedADMM as PerturbedADMM
    from proxmesh.algorithms import ProxDASA as ProxDASA
    from proxmesh.algorithms import ProxED as ProxED
    from proxmesh.algorithms import ProxGT as ProxGT
    from proxmesh.algorithms import ProxSGD as ProxSGD
    from proxmesh.algorithms import ProxSTORM as ProxSTORM
    from proxmesh.data import datasets as datasets
    from proxmesh.data.dataset_shard import DatasetShard as DatasetShard
    from proxmesh.data.sparse import SparseRows as SparseRows
    from proxmesh.errors import InputError as InputError
    from proxmesh.errors import LostRankError as LostRankError
    from proxmesh.errors import Notice as Notice
    from proxmesh.estimators import DecentralizedClassifier as DecentralizedClassifier
    from proxmesh.estimators import DecentralizedRegressor as DecentralizedRegressor
    from proxmesh.front.comparing import Comparison as Comparison
    from proxmesh.front.comparing import compare as compare
    from proxmesh.front.plotting import plot as plot
    from proxmesh.front.solving import prepare as prepare
    from proxmesh.front.solving import resume as resume
    from proxmesh.front.solving import solve as solve
    from proxmesh.front.tuning import Tuned as Tuned
    from proxmesh.front.tuning import tune as tune
    from proxmesh.graphs import Graph as Graph
    from proxmesh.network import connect as connect
    from proxmesh.network import links as links
    from proxmesh.problems import L1 as L1
    from proxmesh.problems import Box as Box
    from proxmesh.problems import ElasticNet as ElasticNet
    from proxmesh.problems import GroupLasso as GroupLasso
    from proxmesh.problems import LearningProblem as LearningProblem
    from proxmesh.problems import LInfBall as LInfBall
    from proxmesh.problems import NonNegative as NonNegative
    from proxmesh.problems import NoRegularizer as NoRegularizer
    from proxmesh.problems import Only as Only
    from proxmesh.problems import Simplex as Simplex
    from proxmesh.problems import SquaredL2 as SquaredL2
    from proxmesh.problems import models as models
    from proxmesh.problems import nn as nn
    from proxmesh.report import report as report
    from proxmesh.runs.loading import load as load
    from proxmesh.solver.outcome import Outcome as Outcome
    from proxmesh.solver.result import Result as Result
    from proxmesh.solver.run import Run as Run
    from proxmesh.solver.settings import Settings as Settings
    from proxmesh.solver.stopping import EarlyStopping as EarlyStopping
    from proxmesh.types import Cost as Cost

# Every name is listed once, above, where type checkers read it; its home is read off.
_SOURCE = __spec__.loader.get_source(__name__)  # type: ignore[union-attr]
_HOMES = {
    name: home
    for home, name in re.findall(r"from (proxmesh\S*) import (\w+) as", _SOURCE)
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - derived, so never stale


if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module `proxmesh` has no attribute `{name}`")
        home = import_module(_HOMES[name])
        if name in vars(home):
            return vars(home)[name]
        return import_module(f"{_HOMES[name]}.{name}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
