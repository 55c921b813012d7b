import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap

from proxmesh.problems.replay import Traced


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


def test_products_asked_for_transposed_are_taken_so() -> None:
    """The gradient of a linear layer is one product in the layout of its weight."""

    def loss(weight: Tensor, x: Tensor) -> Tensor:
        rows: Tensor = vmap(lambda w, a: (a @ w.T).square().sum())(weight, x)
        return rows.sum()

    weight, x = torch.randn(3, 4, 5), torch.randn(3, 6, 5)
    traced = Traced(grad(loss))
    found = traced(weight, x)
    assert found.is_contiguous()
    torch.testing.assert_close(found, grad(loss)(weight, x))
    (recorded,) = traced._recorded.values()
    after = [
        user.target
        for node in recorded.graph.nodes  # type: ignore[attr-defined]
        if node.target is torch.ops.aten.bmm.default
        for user in node.users
    ]
    assert torch.ops.aten.transpose.int not in after


def test_what_changes_a_tensor_from_outside_is_not_recorded() -> None:
    def doubling(x: Tensor) -> Tensor:
        weight = torch.tensor([1.0, 5.0])
        weight *= 2
        return x * weight

    traced, x = Traced(doubling), torch.ones(2)
    for _ in range(3):
        assert torch.equal(traced(x), torch.tensor([2.0, 10.0]))


def test_own_tensors_may_be_changed_in_place() -> None:
    def filling(x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        total += x
        total[0] = 7.0
        return total

    traced, x = Traced(filling), torch.ones(2)
    for value in (1.0, 2.0):
        assert torch.equal(traced(x * value), torch.tensor([7.0, value]))


def test_strides_count_as_shapes() -> None:
    def flat(x: Tensor) -> Tensor:
        return (x.contiguous() * 2).view(-1)

    traced, x = Traced(flat), torch.arange(6.0).view(2, 3)
    assert torch.equal(traced(x), flat(x))
    assert torch.equal(traced(x.T.contiguous().T), flat(x))
