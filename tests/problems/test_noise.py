"""Dropout: the same mask whichever way gradients are taken, another one each time."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from zoo import ROUND

import proxmesh as pm
from proxmesh.data.shards import Samples
from proxmesh.problems.noise import SampledNoise
from proxmesh.solver import compile_step as compiling
from proxmesh.solver.compile_step import CompiledStep

AGENTS = 4
SIZE = (6, 5)  # of a sample: a sequence, or an image


class Through(nn.Module):
    """Reshape, one layer that drops out, and a head."""

    def __init__(self, layer: nn.Module, shape: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.layer = layer
        self.shape = shape
        self.head = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Any:
        found = self.layer(x.view(len(x), *self.shape))
        found = found[0] if isinstance(found, tuple) else found
        return self.head(found.flatten(1))


class SequenceFirst(nn.Module):
    """What it is for most layers of torch, unless one says `batch_first`."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Any:
        found = self.layer(x.transpose(0, 1))
        found = found[0] if isinstance(found, tuple) else found
        return found.transpose(0, 1)


class Twice(nn.Module):
    """One dropout in two places, once as a function."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.first, self.second = nn.Linear(30, 30), nn.Linear(30, 2)

    def forward(self, x: Tensor) -> Any:
        x = self.dropout(self.first(self.dropout(x)))
        return self.second(F.dropout(x, 0.2, self.training))


class Attending(nn.Module):
    def __init__(self, need_weights: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(5, 1, dropout=0.3, batch_first=True)
        self.need_weights = need_weights

    def forward(self, x: Tensor) -> Any:
        return self.attention(x, x, x, need_weights=self.need_weights)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(30, 8), nn.Dropout(0.3), nn.Tanh())


def encoder(batch_first: bool) -> nn.Module:
    return nn.TransformerEncoderLayer(5, 1, 7, dropout=0.2, batch_first=batch_first)


def images(*layers: nn.Module) -> nn.Module:
    return Through(nn.Sequential(nn.Conv2d(1, 4, 2), *layers), (1, *SIZE), 80)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "dropout": lambda: Through(mlp(), SIZE, 8),
    "twice": lambda: nn.Sequential(nn.Flatten(), Twice()),
    "alpha": lambda: images(nn.AlphaDropout(0.3), nn.FeatureAlphaDropout(0.2)),
    "channels": lambda: images(nn.Dropout2d(0.3), nn.MaxPool2d(1)),
    "attention": lambda: Through(Attending(need_weights=True), SIZE, 30),
    "fused attention": lambda: Through(Attending(need_weights=False), SIZE, 30),
    "encoder": lambda: Through(encoder(batch_first=True), SIZE, 30),
    "sequence first": lambda: Through(
        SequenceFirst(encoder(batch_first=False)), SIZE, 30
    ),
}
RECURRENT: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: Through(SequenceFirst(nn.LSTM(5, 3, 2, dropout=0.4)), SIZE, 18),
    "gru": lambda: Through(
        nn.GRU(5, 3, 2, dropout=0.4, bidirectional=True, batch_first=True), SIZE, 36
    ),
}


def problem_of(model: nn.Module, **options: Any) -> pm.LearningProblem:
    torch.manual_seed(0)
    x = torch.randn(40, *SIZE)
    shards = [(part, (part[:, 0, 0] > 0).long()) for part in x.split((9, 12, 8, 11))]
    options = {"batch_size": 4, "vectorize": False, **options}
    return pm.LearningProblem(model, F.cross_entropy, shards, **options)


def rows(problem: pm.LearningProblem) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    x = problem.x0()
    moved = x + 0.1 * torch.randn(x.shape, generator=draw, dtype=x.dtype)
    return x, moved


def assert_same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", MODELS)
def test_every_way_sees_the_same_masks(name: str) -> None:
    model = MODELS[name]()
    plain = problem_of(model)
    x, moved = rows(plain)
    batch = plain.sample(3)
    one, other = plain.grad(x, batch), plain.grad(moved, batch)
    product = plain.hvp(x, moved, batch)
    for way in ("vmap", "channels") if "channels" in name else ("vmap",):
        for paired in (True, False):
            fast = problem_of(model, vectorize=way, paired=paired)
            for _ in range(2):  # recorded, and replayed
                found = fast.grad_pair(x, moved, fast.sample(3))
                assert_same(found[0], one)
                assert_same(found[1], other)
        assert_same(fast.hvp(x, moved, fast.sample(3)), product)
        # A replay has no masks of its own.
        assert_same(fast.grad(x, fast.sample(4)), plain.grad(x, plain.sample(4)))


@pytest.mark.parametrize("name", [*MODELS, *RECURRENT])
def test_gradients_are_those_of_the_loss_with_its_masks(name: str) -> None:
    problem = problem_of({**MODELS, **RECURRENT}[name]())
    x, moved = rows(problem)
    batch = problem.sample(3)
    assert batch.keys is not None

    def losses(at: Tensor) -> Tensor:
        assert batch.keys is not None
        found = []
        for i, row in enumerate(at):
            with SampledNoise(batch.keys[i]):
                inputs = tuple(part[i] for part in batch.inputs)
                of_row = problem.ways.of_row
                found.append(of_row.in_training(row, inputs, batch.targets[i]))
        return torch.stack(found)

    along = (moved - x) / (moved - x).norm(dim=1, keepdim=True)
    slope = (losses(x + 1e-6 * along) - losses(x - 1e-6 * along)) / 2e-6
    torch.testing.assert_close(
        (problem.grad(x, batch) * along).sum(1), slope, rtol=1e-5, atol=1e-8
    )
    bent = problem.grad(x + 1e-5 * along, batch) - problem.grad(x - 1e-5 * along, batch)
    torch.testing.assert_close(
        problem.hvp(x, along, batch), bent / 2e-5, rtol=1e-4, atol=1e-6
    )


def test_a_rank_with_a_few_agents_sees_their_masks() -> None:
    whole = problem_of(MODELS["encoder"](), vectorize="vmap")
    x, _ = rows(whole)
    part = whole.local([3, 1])
    found = part.grad(x[[3, 1]], part.sample(5))
    assert_same(found, whole.grad(x, whole.sample(5))[[3, 1]])


def test_batches_in_pieces_have_masks_in_every_piece() -> None:
    model = MODELS["dropout"]()
    x, _ = rows(problem_of(model))
    found = [
        problem_of(model, vectorize=way, chunk_size=3, batch_size=8)
        for way in (False, "vmap")
    ]
    one, other = (problem.grad(x, problem.sample(2)) for problem in found)
    assert_same(one, other)
    assert problem_of(model, chunk_size=3).ways.chunk_size == 3
    pieces = list(found[0].gradients._columns(found[0].sample(2)))
    keys = torch.stack([p.keys for p in pieces if p.keys is not None])
    assert len(keys) == 3
    assert len(keys.unique()) == keys.numel()


def masks(problem: pm.LearningProblem, k: int | Tensor, **options: Any) -> Tensor:
    """What a dropout of many ones keeps, for every agent."""
    keys = problem.sample(k, **options).keys
    assert keys is not None
    kept = []
    for key in keys:
        with SampledNoise(key):
            kept.append(F.dropout(torch.ones(2, 5000), 0.3)[1] > 0)
    return torch.stack(kept).double()


def test_masks_are_drawn_anew_everywhere_and_alike_when_asked_again() -> None:
    problem = problem_of(MODELS["dropout"]())
    other = problem_of(MODELS["dropout"](), seed=1)
    first = masks(problem, 7)
    assert torch.equal(first, masks(problem, 7))
    assert torch.equal(first, masks(problem, torch.tensor(7)))
    drawn = torch.cat(
        [first, masks(problem, 8), masks(problem, 7, stream=1), masks(other, 7)]
    )
    assert ((drawn.mean(1) - 0.7).abs() < 4 * (0.21 / 5000) ** 0.5).all()
    apart = torch.corrcoef(drawn) - torch.eye(len(drawn))
    assert apart.abs().max() < 4.5 / 5000**0.5


def test_layers_draw_apart_even_where_one_is_used_twice() -> None:
    ones, keep = torch.ones(1, 5000), nn.Dropout(0.5)
    with SampledNoise(torch.tensor(11)) as noise:
        drawn = torch.cat([keep(ones), keep(ones), F.dropout(ones, 0.5)]) > 0
    assert noise.draws == 3
    apart = torch.corrcoef(drawn.double()) - torch.eye(3)
    assert apart.abs().max() < 4.5 / 5000**0.5


def test_the_fused_dropout_of_gpus_is_replaced_too() -> None:
    x = torch.randn(3, 50)
    with SampledNoise(torch.tensor(11)):
        fused, kept = torch.ops.aten.native_dropout.default(x, 0.3, True)
    with SampledNoise(torch.tensor(11)):
        plain = F.dropout(x, 0.3)
    assert_same(fused, plain)
    assert torch.equal(kept, plain != 0)


def test_evaluations_and_models_are_in_eval_mode() -> None:
    test = (torch.randn(6, *SIZE), torch.tensor([0, 1] * 3))
    model = MODELS["encoder"]()
    for way in ("vmap", False):
        problem = problem_of(model, test=test, vectorize=way)
        x, _ = rows(problem)
        module = problem.module(x[0])
        assert not any(layer.training for layer in module.modules())
        for i in range(AGENTS):
            inputs, targets = problem.local_shards.of_agent(i)
            expected = F.cross_entropy(module(*inputs), targets)
            assert_same(problem.value(x)[i], expected.detach())
        expected = F.cross_entropy(module(test[0]), test[1])
        assert_same(torch.tensor(problem.test(x[0])["test_loss"]), expected.detach())
    assert all(layer.training for layer in model.modules())


def test_a_model_in_eval_mode_does_not_drop() -> None:
    model = MODELS["dropout"]().eval()
    problem = problem_of(model, vectorize="vmap")
    assert problem.sample(1).keys is None
    inputs, targets = problem.local_shards.of_agent(0)
    whole = Samples((inputs[0][None],), targets[None])
    assert_same(
        problem.grad(problem.x0()[:1], whole), problem.full_grad(problem.x0())[:1]
    )


def test_models_without_dropout_carry_no_keys() -> None:
    assert problem_of(Through(nn.Flatten(), SIZE, 30)).sample(1).keys is None


@pytest.mark.parametrize("wide", [compiling.WIDE, 10])
def test_compiled_steps_draw_the_same_masks(
    wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "WIDE", wide)
    monkeypatch.setattr(compiling, "TABLE_ROWS", 7)
    # Interpreted, not compiled: the recording and its cut are what could go wrong.
    monkeypatch.setattr(torch._inductor, "compile", lambda graph, *_, **__: graph)
    problem = problem_of(MODELS["dropout"](), vectorize="vmap", paired=True)
    world = pm.connect(pm.graphs.ring(AGENTS))
    ours = plain = ROUND.init(problem.x0(), problem, world)
    fast = CompiledStep(ROUND, problem, world, ours)
    for _ in range(20):
        ours, plain = fast(ours), ROUND.step(plain, problem, world)
    assert_same(ours.x, plain.x)
