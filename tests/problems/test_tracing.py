import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap

from proxmesh.problems.tracing import Traced


def energy(x: Tensor, targets: Tensor) -> Tensor:
    rows: Tensor = vmap(lambda a, b: (torch.tanh(a) - b).square().mean())(x, targets)
    return rows.sum()


def test_replays_to_the_same_bits_for_every_shape_and_dtype() -> None:
    calls = []

    def slope(x: Tensor, targets: Tensor) -> Tensor:
        calls.append(x.shape)
        found: Tensor = grad(energy)(x, targets)
        return found

    traced = Traced(slope)
    for dtype in (torch.float32, torch.float64):
        for n in (2, 5):
            for seed in range(3):
                g = torch.Generator().manual_seed(seed)
                x, y = torch.randn(2, n, 4, generator=g, dtype=dtype)
                assert torch.equal(traced(x, y), grad(energy)(x, y))
    assert len(calls) == 4, "once for each shape and dtype"


def test_what_cannot_be_recorded_is_called_as_it_is() -> None:
    def branching(x: Tensor) -> Tensor:
        return x if float(x.sum()) > 0 else -x

    def refusing(x: Tensor) -> Tensor:
        if type(x) is not Tensor:
            raise TypeError("no proxies, please")
        return branching(x)

    traced = Traced(refusing)
    assert traced(torch.ones(3)).sum() == 3
    assert traced(-torch.ones(3)).sum() == 3


def test_errors_of_the_function_are_its_own() -> None:
    with pytest.raises(RuntimeError, match="size"):
        Traced(lambda a, b: a + b)(torch.ones(2), torch.ones(3))
