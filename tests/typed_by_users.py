"""What a type checker tells people about their scripts; `make test-types` reads this.

Every line that must be an error is marked as one, and mypy complains about a mark that
is not needed. Nothing here is run.
"""

from typing import assert_type

import torch
from torch import nn

import proxmesh as pm
from proxmesh.algorithms import HSMADMMState


def names_that_do_not_exist() -> None:
    pm.L2(0.1)  # type: ignore[attr-defined]
    pm.HSMADMM(lr=0.1)  # type: ignore[call-arg]
    pm.solv  # type: ignore[attr-defined]  # noqa: B018


def arguments_of_a_problem(shards: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    model = nn.Linear(3, 2)
    pm.LearningProblem(model, "loss", shards)  # type: ignore[arg-type]
    pm.LearningProblem(model, nn.functional.cross_entropy, shards)
    pm.LearningProblem(model, nn.CrossEntropyLoss(), shards)


def constants_of_the_optimizer(model: nn.Module, graph: pm.Graph) -> None:
    pm.optim.HSMADMM(model.parameters(), graph, c_rhoo=1)  # type: ignore[call-arg]
    pm.optim.HSMADMM(model.parameters(), graph, c_rho=0.1, lr=0.5)


def results(problem: pm.LearningProblem, graph: pm.Graph) -> None:
    result = pm.solve(problem, pm.HSMADMM(), graph, steps=10)
    assert_type(result.state, HSMADMMState)
    assert_type(result.state.beta, torch.Tensor)
    assert_type(pm.prepare(problem, pm.HSMADMM(), graph, 10).go().outcome, pm.Outcome)
    pm.solve(problem, pm.HSMADMM(), graph, stepz=10)  # type: ignore[call-arg]
    pm.solve(problem, "hsm-admm", graph, 10)  # type: ignore[arg-type]
    pm.solve(problem, pm.HSMADMM(), graph, 10, callbacks=[pm.EarlyStopping("norm", 3)])
    pm.solve(problem, pm.HSMADMM(), graph, 10, callbacks=[pm.loggers.CSV("rows.csv")])
