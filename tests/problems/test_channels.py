import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import proxmesh as pm
from proxmesh.data.shards import Samples
from proxmesh.problems import fastest_way
from proxmesh.problems.fastest_way import fastest

AGENTS = 3


def net(*layers: nn.Module, outputs: int = 3) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(outputs))


class Functional(nn.Module):
    """Calls the operations itself, by name, and pools what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 2, 3, 3))
        self.last = nn.Linear(4 * 3 * 3, 3)

    def forward(self, x: Tensor) -> Any:
        x = functional.max_pool2d(input=x, kernel_size=2)
        x = functional.conv2d(x, self.weight, stride=2, padding=1)
        best, _ = functional.max_pool2d(x, 1, return_indices=True)
        return self.last((best + x).flatten(1))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: net(nn.Conv2d(2, 4, 3), nn.MaxPool2d(2), nn.Tanh()),
    "two layers": lambda: net(
        nn.Conv2d(2, 4, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 2), nn.Sigmoid()
    ),
    "strides": lambda: net(
        nn.Conv2d(2, 4, 3, stride=2, padding=1, dilation=2, bias=False),
        nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=True),
    ),
    "groups": lambda: net(nn.Conv2d(2, 4, 3, groups=2), nn.Conv2d(4, 8, 1, groups=4)),
    "same": lambda: net(nn.Conv2d(2, 4, 3, padding="same"), nn.AvgPool2d(2)),
    "circular": lambda: net(nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular")),
    "functional": Functional,
}


def problem_of(model: nn.Module, way: Any, **options: Any) -> pm.LearningProblem:
    torch.manual_seed(1)
    shards = [(torch.randn(6, 2, 10, 10), torch.arange(6) % 3) for _ in range(AGENTS)]
    return pm.LearningProblem(
        model, functional.cross_entropy, shards, vectorize=way, batch_size=4, **options
    )


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    model = MODELS[name]()
    model(torch.randn(1, 2, 10, 10))  # shapes what is lazy
    return model.to(torch.get_default_dtype())


@pytest.mark.parametrize("name", MODELS)
def test_channels_give_the_gradients_of_a_loop(name: str) -> None:
    torch.set_default_dtype(torch.float64)
    model = made(name)
    ours, loop = problem_of(model, "channels"), problem_of(model, False)
    assert ours.way == "channels"
    x = ours.x0() + 0.1 * torch.randn(AGENTS, ours.p)
    batch = ours.sample(1)
    torch.testing.assert_close(ours.grad(x, batch), loop.grad(x, batch))
    found, expected = ours.evaluate(x), loop.evaluate(x)
    torch.testing.assert_close(found.grad, expected.grad)
    torch.testing.assert_close(found.loss, expected.loss)


class Shared(nn.Module):
    """All agents convolve one picture that is part of the model."""

    picture: Tensor

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.register_buffer("picture", torch.randn(1, 2, 4, 4))
        self.conv = nn.Conv2d(2, 4, 3, groups=groups)
        self.last = nn.Linear(200, 3)

    def forward(self, x: Tensor) -> Any:
        return self.last(x.flatten(1)) * self.conv(self.picture).mean()


@pytest.mark.parametrize("groups", [1, 2])
def test_channels_with_one_picture_for_all_agents(groups: int) -> None:
    torch.set_default_dtype(torch.float64)
    model = Shared(groups)
    ours, loop = problem_of(model, "channels"), problem_of(model, False)
    x, batch = ours.x0() + 0.1 * torch.randn(AGENTS, ours.p), ours.sample(1)
    torch.testing.assert_close(ours.grad(x, batch), loop.grad(x, batch))


def test_channels_leave_frozen_convolutions_alone() -> None:
    torch.set_default_dtype(torch.float64)
    model = made("two layers")
    for weight in model[0].parameters():  # type: ignore[index]
        weight.requires_grad_(False)
    ours, loop = problem_of(model, "channels"), problem_of(model, False)
    x, batch = ours.x0() + 0.1 * torch.randn(AGENTS, ours.p), ours.sample(1)
    torch.testing.assert_close(ours.grad(x, batch), loop.grad(x, batch))


def test_channels_see_every_agents_own_images() -> None:
    """Agents swapped are gradients swapped, and nothing of a neighbor leaks in."""
    problem = problem_of(made("plain"), "channels")
    x, batch = problem.x0() + 0.1 * torch.randn(AGENTS, problem.p), problem.sample(1)
    order = torch.tensor([2, 0, 1])
    turned = Samples((batch.inputs[0][order],), batch.targets[order])
    torch.testing.assert_close(
        problem.grad(x[order], turned), problem.grad(x, batch)[order]
    )


@pytest.fixture
def _own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastest_way, "cache_folder", lambda: tmp_path)


@pytest.mark.usefixtures("_own_cache")
def test_the_fastest_way_is_timed_once_and_remembered() -> None:
    calls: list[str] = []
    small, large = torch.ones(4, 4), torch.ones(700, 700)

    def slow() -> Tensor:
        calls.append("slow")
        return large @ large

    def quick() -> Tensor:
        calls.append("quick")
        return small @ small

    assert fastest({"slow": slow, "quick": quick}, "task") == "quick"
    assert set(calls) == {"slow", "quick"}
    calls.clear()
    assert fastest({"slow": slow, "quick": quick}, "task") == "quick"
    assert not calls
    assert fastest({"slow": slow, "quick": quick}, "another task") == "quick"
    assert calls


@pytest.mark.usefixtures("_own_cache")
def test_the_first_way_stays_unless_another_clearly_wins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock: Iterator[float] = iter([])

    def refuses() -> None:
        raise RuntimeError("no rule")

    def works() -> None:
        pass

    def chosen(first: float, second: float) -> str:
        nonlocal clock
        clock = iter([first, second] * fastest_way.ROUNDS)
        return fastest({"first": works, "second": works}, first, second)

    monkeypatch.setattr(fastest_way, "_seconds", lambda _: next(clock))
    assert chosen(1.0, 0.95) == "first"
    assert chosen(1.0, 0.85) == "second"
    assert chosen(1.0, 1.5) == "first"
    assert fastest({"refuses": refuses, "second": works}, "task") == "second"
    assert fastest({"only": works}, "task") == "only"


def test_a_cache_that_cannot_be_written_or_read_costs_nothing(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(fastest_way, "cache_folder", lambda: tmp_path / "file")
    ways = {"a": lambda: None, "b": lambda: None}
    assert fastest(ways, "task") in ways
    monkeypatch.setattr(fastest_way, "cache_folder", lambda: tmp_path)
    (tmp_path / fastest_way.FILE).write_text("{broken")
    assert fastest(ways, "task") in ways


@pytest.mark.usefixtures("_own_cache")
def test_a_model_is_recognized_in_another_process(tmp_path: Any) -> None:
    """Nothing that it is recognized by may be an address in memory."""
    for _ in range(2):
        torch.manual_seed(1)
        x, y = torch.randn(6, 2, 10, 10), torch.arange(6) % 3

        def loss(outputs: Tensor, targets: Tensor) -> Tensor:  # made anew every time
            return functional.cross_entropy(outputs, targets)

        problem = pm.LearningProblem(made("plain"), loss, [(x, y)] * 2, batch_size=4)
        assert problem.way in {"vmap", "channels"}
        kept = json.loads((tmp_path / fastest_way.FILE).read_text())
        assert len(kept) == 1


@pytest.mark.usefixtures("_own_cache")
def test_auto_takes_a_way_and_says_which() -> None:
    problem = problem_of(made("plain"), "auto")
    assert problem.way in {"vmap", "channels"}
    assert problem_of(made("plain"), "auto", paired=False).paired is False
    assert problem_of(made("plain"), True).way == "vmap"
    with pytest.raises(pm.InputError, match="unknown value `channel`"):
        problem_of(made("plain"), "channel")
    with pytest.raises(pm.InputError, match="`paired`"):
        problem_of(made("plain"), "vmap", paired="twice")
