"""Gradients in 16 bits, rows in 32."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from zoo import ROUND
from zoo.models import AGENTS, MODELS

import proxmesh as pm

HALF = torch.bfloat16


@pytest.fixture(autouse=True)
def _single(_precise: None) -> None:
    torch.set_default_dtype(torch.float32)


def far(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm())


@pytest.mark.parametrize("name", ["lenet", "vit", "regression"])
@pytest.mark.parametrize("way", ["vmap", False])
def test_autocast_changes_gradients_by_its_rounding_only(name: str, way: Any) -> None:
    full = MODELS[name].problem(vectorize=way)
    half = MODELS[name].problem(vectorize=way, precision="bfloat16")
    x, batch = full.x0(), full.sample(1)
    assert half.x0().dtype == torch.float32
    found = half.grad(x, batch)
    assert found.dtype == torch.float32
    assert 1e-5 < far(found, full.grad(x, batch)) < 0.03
    pair = half.grad_pair(x, x, batch)
    assert far(pair[0], found) < 0.01
    # Curvature and metrics are exact.
    assert torch.equal(half.hvp(x, x, batch), full.hvp(x, x, batch))
    assert torch.equal(half.value(x), full.value(x))


def test_ways_round_alike() -> None:
    one, other = (
        MODELS["mlp"].problem(vectorize=way, precision="bfloat16")
        for way in ("vmap", False)
    )
    assert far(
        one.grad(one.x0(), one.sample(1)), other.grad(one.x0(), one.sample(1))
    ) < (0.01)


def test_a_run_in_16_bits_learns() -> None:
    problem = MODELS["mlp"].problem(precision="bfloat16")
    result = pm.solve(problem, ROUND, pm.graphs.ring(AGENTS), 60, eval_every=60)
    assert result.state.x.dtype == torch.float32
    assert result.final["train_accuracy"] >= 0.65


def test_unknown_precision() -> None:
    with pytest.raises(pm.InputError, match=r"`half` of `precision`.*bfloat16, full"):
        MODELS["mlp"].problem(precision="half")


@pytest.mark.parametrize("way", ["vmap", False])
def test_parameters_of_16_bits_have_rows_of_32(way: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 2))
    shards = [(torch.randn(20, 6), torch.arange(20) % 2) for _ in range(AGENTS)]
    options: Any = {"batch_size": 8, "vectorize": way}
    full = pm.LearningProblem(model, F.cross_entropy, shards, **options)
    half = pm.LearningProblem(
        nn.Sequential(*model).to(HALF), F.cross_entropy, shards, **options
    )
    x = half.x0()
    assert x.dtype == half.dtype == torch.float32
    batch = half.sample(1)
    assert batch.inputs[0].dtype == HALF
    found = half.grad(x, batch)
    assert found.dtype == torch.float32
    module = half.module(x[0] + 0.5)
    assert {w.dtype for w in module.parameters()} == {HALF}
    plain = pm.LearningProblem(model.float(), F.cross_entropy, shards, **options)
    assert far(found, plain.grad(x, plain.sample(1))) < 0.03
    assert full.p == half.p
    result = pm.solve(half, ROUND, pm.graphs.ring(AGENTS), 20, eval_every=20)
    assert result.final["train_loss"] < result.history["train_loss"].iloc[0]


def test_a_regression_in_16_bits_keeps_its_targets() -> None:
    inputs, targets = torch.randn(9, 5), torch.randn(9, 1)
    model = nn.Linear(5, 1).to(HALF)
    problem = pm.LearningProblem(
        model, F.mse_loss, [(inputs, targets)] * 2, batch_size=4
    )
    assert torch.equal(problem.local_shards.of_agent(0)[1], targets)
    assert problem.value(problem.x0()).isfinite().all()
