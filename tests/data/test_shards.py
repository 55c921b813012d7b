from typing import Any

import pytest
import torch
from torch import Tensor, nn

import proxmesh as pm
from proxmesh.data import shards
from proxmesh.data.shards import Packed, Plain, Samples, Stored


@pytest.fixture(autouse=True)
def _pack_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "LARGE", 1)


def pixels(levels: int, rows: int = 40) -> Tensor:
    g = torch.Generator().manual_seed(0)
    return torch.randint(0, levels, (rows, 1, 4, 4), generator=g).float()


@pytest.mark.parametrize(
    "x",
    [
        pytest.param(pixels(256, 700), id="bytes"),
        pytest.param(pixels(256, 700) / 255, id="unit"),
        pytest.param((pixels(256, 700) / 255 - 0.1307) / 0.3081, id="normalized"),
        pytest.param(pixels(2), id="zeros and ones"),
        pytest.param(pixels(2).double() * 3 - 1, id="float64"),
    ],
)
def test_packing_is_exact(x: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "AT_ONCE", 16)
    packed = Packed.of(x)
    assert packed is not None
    assert packed.codes.dtype == torch.uint8
    rows = torch.tensor([3, 0, 3, len(x) - 1])
    assert torch.equal(packed.take(rows), x[rows])
    assert packed.take(rows).dtype == x.dtype


@pytest.mark.parametrize(
    "x",
    [
        pytest.param(torch.randn(40, 3), id="too many values"),
        pytest.param(torch.full((40, 3), 2.0), id="one value"),
        pytest.param(torch.tensor([0.0, 1.0, 10.0]).repeat(5, 1), id="uneven"),
        pytest.param(torch.cat([pixels(2, 600), pixels(3, 600)]), id="a late value"),
        pytest.param(torch.arange(40), id="whole numbers"),
    ],
)
def test_what_cannot_be_packed_exactly_stays_as_it_is(x: Tensor) -> None:
    assert Packed.of(x) is None
    stored = Stored.of(Samples((x,), torch.arange(len(x))))
    assert isinstance(stored.inputs[0], Plain)
    assert torch.equal(stored.take(torch.tensor([[1, 2]])).inputs[0], x[[1, 2]][None])


def test_small_tensors_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "LARGE", 10**9)
    assert Packed.of(pixels(256)) is None


def test_a_packed_problem_is_the_same_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_default_dtype(torch.float32)

    def problem() -> pm.LearningProblem:
        torch.manual_seed(0)
        x, y = pixels(2) / 255, torch.arange(40) % 2
        data: Any = [(x[:25], y[:25]), (x[25:], y[25:])]
        model = pm.models.logistic(16, 2)
        return pm.LearningProblem(
            model, nn.functional.cross_entropy, data, batch_size=8
        )

    packed = problem()
    monkeypatch.setattr(shards, "LARGE", 10**9)
    plain = problem()
    assert isinstance(packed.local_shards.samples, Stored)
    assert isinstance(packed.local_shards.samples.inputs[0], Packed)
    x = plain.x0("different")
    a, b = packed.sample(3), plain.sample(3)
    assert torch.equal(a.inputs[0], b.inputs[0])
    assert torch.equal(packed.grad(x, a), plain.grad(x, b))
    alone, other = packed.local([1]), plain.local([1])
    assert torch.equal(alone.full_grad(x[1:]), other.full_grad(x[1:]))
