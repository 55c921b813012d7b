"""Objectives: models, losses, regularizers and the data behind them."""

from proxmesh.problems.learning import LearningProblem
from proxmesh.problems.regularizers import (
    L1,
    Box,
    ElasticNet,
    GroupLasso,
    LInfBall,
    NonNegative,
    NoRegularizer,
    Only,
    Simplex,
    SquaredL2,
)

__all__ = [
    "L1",
    "Box",
    "ElasticNet",
    "GroupLasso",
    "LInfBall",
    "LearningProblem",
    "NoRegularizer",
    "NonNegative",
    "Only",
    "Simplex",
    "SquaredL2",
]
