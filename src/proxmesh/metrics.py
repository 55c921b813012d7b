"""From a state to the numbers of one row of the history.

Everything is taken at the average ``x_mean`` of the agents' models, except `consensus`,
`density_y` and `kkt`. A column that the problem cannot provide is left out.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from proxmesh.types import (
    Evaluation,
    Problem,
    State,
    World,
    can_be_tested,
    evaluates_itself,
    has_full_gradient,
    has_penalty,
    has_sparse_rows,
    has_value,
    reports_kkt,
)

__all__ = [
    "COLUMNS",
    "HIGHER_IS_BETTER",
    "NONZERO",
    "Metric",
    "density",
    "evaluated",
    "measure",
    "measure_alone",
    "measure_closely",
]

COLUMNS: Mapping[str, str] = {
    "iteration": "finished iterations k",
    "gradients": "sample gradients that each agent has evaluated",
    "vectors_sent": "p-vectors that each agent has sent to each neighbor",
    "bytes_sent": "bytes over all edges, both directions",
    "seconds": "computing time, without evaluation and compilation",
    "simulated_time": "of an asynchronous run in one process, in fastest steps",
    "fewest_steps": "own steps of the slowest agent in an asynchronous run",
    "most_steps": "own steps of the fastest agent in an asynchronous run",
    "simulated_seconds": "time on links with a bandwidth or latency, as modelled",
    "stationarity": "norm + consensus",
    "norm": "|x_mean - prox_h(x_mean - mean gradient)|^2",
    "consensus": "sum_i |x_i - x_mean|^2",
    "objective": "train_loss + h(x_mean); blank where a constraint is infinite",
    "train_loss": "mean over agents of their shard's mean loss",
    "test_loss": "mean loss on the test set",
    "train_accuracy": "share of correct labels, mean over agents",
    "test_accuracy": "share of correct labels on the test set",
    "train_rmse": "root of the mean squared error, mean over agents",
    "test_rmse": "root of the mean squared error on the test set",
    "test_r2": "share of the test targets' variance that is explained",
    "density": "share of entries of x_mean above 1e-6 in absolute value",
    "density_y": "the same of the rows out of the prox (y_i, or x_i), mean over agents",
    "kkt": "dist^2(0, dL): the residual of the paper's Definition 1 (HSM-ADMM)",
}
"""The columns of a history in their order, and what they are."""

HIGHER_IS_BETTER = frozenset({"train_accuracy", "test_accuracy", "test_r2"})
NONZERO = 1e-6
DOUBLE = torch.float64

Metric: TypeAlias = Callable[[Any, Any], float]
"""A user's own column: ``metric(state, problem) -> number``."""


def measure(
    state: State,
    problem: Problem,
    world: World,
    own: Mapping[str, Metric] | None = None,
    kkt: bool = True,
) -> dict[str, float]:
    """Evaluate a state: every process looks at its agents, then reduces.

    What crosses a process boundary here are means, sums and the average model. The test
    set is the root's, so only its row has those columns. A user's own column is the
    mean of what the agents' processes return.
    """
    return measure_closely(state, problem, world, own, kkt)[0]


def measure_closely(
    state: State,
    problem: Problem,
    world: World,
    own: Mapping[str, Metric] | None = None,
    kkt: bool = True,
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """A row as `measure` makes it, and what it is the mean and the sum of.

    That is each local agent's `train_loss` and `consensus`, ``[n_local]``; nothing
    where the problem tells no losses.
    """
    x = state.x
    x_mean = world.reduce(x, "mean")
    apart = (x - x_mean).square().sum(1)
    consensus = world.reduce(apart, "sum").item()
    each: dict[str, Tensor] = {}
    row = {"consensus": consensus, "density": density(x_mean[None]).item()}

    found = evaluated(problem, x_mean.expand_as(x))
    if found.grad is not None:
        forward = x_mean - world.reduce(found.grad, "mean")
        gap = x_mean - problem.prox(forward[None], 1.0)[0]
        row["norm"] = gap.square().sum().item()
        row["stationarity"] = row["norm"] + consensus
    if found.loss is not None:
        row["train_loss"] = world.reduce(found.loss, "mean").item()
        if found.loss.shape == apart.shape:
            each = {"train_loss": found.loss, "consensus": apart}
        if has_penalty(problem):
            penalty = problem.penalty(x_mean[None])[0].item()
            # A constraint is infinite at an average that is only nearly feasible.
            known = math.isfinite(penalty)
            row["objective"] = row["train_loss"] + penalty if known else math.nan
    for name, values in found.metrics.items():
        row[name] = world.reduce(values, "mean").item()
    if world.is_root and can_be_tested(problem):
        row.update(problem.test(x_mean))
    sparse = state.sparse if has_sparse_rows(state) else x
    row["density_y"] = world.reduce(density(sparse), "mean").item()
    residual = state.kkt_residual(problem) if kkt and reports_kkt(state) else None
    if residual is not None:
        row["kkt"] = world.reduce(residual, "sum").item()
    for name, metric in (own or {}).items():
        value = torch.full((len(x),), float(metric(state, problem)), dtype=DOUBLE)
        row[name] = world.reduce(value, "mean").item()
    return row, each


def measure_alone(
    state: State, problem: Problem, agents: Sequence[int]
) -> list[dict[str, float]]:
    """Evaluate each local agent at its own model, with nothing reduced or sent."""
    x = state.x
    found = evaluated(problem, x)
    columns: dict[str, Tensor] = {"density": density(x)}
    if found.grad is not None:
        gap = x - problem.prox(x - found.grad, 1.0)
        columns["norm"] = gap.square().sum(1)
    if found.loss is not None:
        columns["train_loss"] = found.loss
    columns |= found.metrics
    rows = []
    for i, agent in enumerate(agents):
        row = {name: values[i].item() for name, values in columns.items()}
        if can_be_tested(problem):
            row.update(problem.test(x[i]))
        rows.append({"agent": agent, **row})
    return rows


def density(x: Tensor) -> Tensor:
    """Share of entries of each row that are not (nearly) zero, ``[rows]``."""
    return (x.abs() > NONZERO).to(torch.float64).mean(1)


def evaluated(problem: Problem, x: Tensor) -> Evaluation:
    """Gradient and loss over whole shards, in one pass where the problem has one."""
    if evaluates_itself(problem):
        return problem.evaluate(x)
    return Evaluation(
        grad=problem.full_grad(x) if has_full_gradient(problem) else None,
        loss=problem.value(x) if has_value(problem) else None,
    )
