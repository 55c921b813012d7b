"""Every kind of model trains untouched, together where torch can, and learns."""

import warnings
from collections.abc import Iterator

import pytest
import torch
from zoo.models import AGENTS, MODELS

import proxmesh as pm

SLOW = {"resnet, group norm", "resnet, frozen batch norm", "vit", "lstm", "gru"}
"""What takes seconds to train, not one."""


@pytest.fixture(autouse=True)
def _single(_precise: None) -> Iterator[None]:
    """As users have it."""
    torch.set_default_dtype(torch.float32)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*runs agent by agent", pm.Notice)
        yield


@pytest.mark.parametrize("name", MODELS)
def test_gradients_equal_those_agent_by_agent(name: str) -> None:
    case = MODELS[name]
    problem = case.problem()
    assert (problem.way != "loop") == case.together
    assert problem.reason_for_way.startswith("vmap cannot") == (not case.together)
    plain = case.problem(vectorize=False)
    draw = torch.Generator().manual_seed(1)
    x = problem.x0()
    moved = x + 0.1 * torch.randn(x.shape, generator=draw)
    ours = problem.grad_pair(x, moved, problem.sample(2))
    for found, at in zip(ours, (x, moved), strict=True):
        expected = plain.grad(at, plain.sample(2))
        assert (found - expected).norm() <= 1e-5 * expected.norm()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.documented] if name in SLOW else [])
        for name in MODELS
    ],
)
def test_it_learns(name: str) -> None:
    result = pm.solve(
        MODELS[name].problem(), pm.HSMADMM(), pm.graphs.ring(AGENTS), steps=300,
        eval_every=300,
    )  # fmt: skip
    first, last = result.history.iloc[0], result.history.iloc[-1]
    assert last["train_loss"] < 0.9 * first["train_loss"]
    if "train_accuracy" in last:
        assert last["train_accuracy"] >= 0.65
