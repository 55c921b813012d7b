"""Gradients against plain autograd, agent by agent, and everything that is refused."""

import copy
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import Dataset, TensorDataset

from proxmesh.data.shards import Samples
from proxmesh.errors import InputError, Notice
from proxmesh.problems import L1, LearningProblem, Simplex
from proxmesh.problems.layout import Layout
from proxmesh.problems.models import MODELS, lenet, logistic, mlp

SAME = 1e-12  # the same float64 sums in another order
DIFFERENCES = 1e-7  # central differences with h = 1e-5: h^2 and rounding / h

FEATURES, CLASSES = 4, 3
Shard = tuple[Tensor, Tensor]


def shard(size: int, seed: int = 0, features: int = FEATURES) -> Shard:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(size, features, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(CLASSES, (size,), generator=generator)


def shards_of(*sizes: int) -> list[Shard]:
    return [shard(size, seed=i) for i, size in enumerate(sizes)]


def small_mlp() -> nn.Module:
    torch.manual_seed(3)
    return mlp(FEATURES, CLASSES, hidden=5)


def problem_of(
    shards: Any = None, model: nn.Module | None = None, **options: Any
) -> LearningProblem:
    options.setdefault("batch_size", 6)
    return LearningProblem(
        model or small_mlp(),
        options.pop("loss", F.cross_entropy),
        shards_of(20, 20, 20) if shards is None else shards,
        **options,
    )


def message_of(build: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        build()
    return str(caught.value)


def rows_for(problem: LearningProblem, seed: int = 0) -> Tensor:
    shape = len(problem.agents), problem.layout.p
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def plain_grad(
    model: nn.Module, row: Tensor, inputs: Any, targets: Tensor, loss: Any
) -> tuple[Tensor, float]:
    """Copy the model, set its parameters, go backward: nothing of `torch.func`."""
    model = copy.deepcopy(model)
    trainable = [w for w in model.parameters() if w.requires_grad]
    start = 0
    for weight in trainable:
        weight.data = row[start : start + weight.numel()].view_as(weight).clone()
        start += weight.numel()
    value = loss(model(*inputs), targets)
    value.backward()
    grads = [w.grad for w in trainable if w.grad is not None]
    return torch.cat([g.reshape(-1) for g in grads]), value.item()


def plain_grads(
    model: nn.Module, x: Tensor, batch: Samples, loss: Any = F.cross_entropy
) -> Tensor:
    """Row i from a plain backward pass of agent i's own copy."""
    return torch.stack(
        [
            plain_grad(
                model, x[i], [part[i] for part in batch.inputs], batch.targets[i], loss
            )[0]
            for i in range(len(x))
        ]
    )


def assert_same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=SAME)


# -- gradients -------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(20, 20, 20), (7, 30, 12)])
@pytest.mark.parametrize("vectorize", [True, False, "auto"])
def test_grad_against_plain_autograd(sizes: tuple[int, ...], vectorize: Any) -> None:
    model = small_mlp()
    problem = problem_of(shards_of(*sizes), model, vectorize=vectorize)
    x = rows_for(problem)
    for k in (0, 1, 50):
        batch = problem.sample(k)
        assert_same(problem.grad(x, batch), plain_grads(model, x, batch))


def test_grad_against_finite_differences() -> None:
    problem = problem_of(shards_of(9, 14))
    x, batch, h = rows_for(problem), problem.sample(2), 1e-5

    def values(rows: Tensor) -> Tensor:
        outputs = [
            F.cross_entropy(problem.module(row)(batch.inputs[0][i]), batch.targets[i])
            for i, row in enumerate(rows)
        ]
        return torch.stack(outputs).detach()

    numeric = torch.empty_like(x)
    for j in range(problem.layout.p):
        shift = torch.zeros_like(x)
        shift[:, j] = h
        numeric[:, j] = (values(x + shift) - values(x - shift)) / (2 * h)
    torch.testing.assert_close(
        problem.grad(x, batch), numeric, rtol=0, atol=DIFFERENCES
    )


def test_gradients_of_a_convolution() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3))
    shards = [
        (torch.randn(6, 1, 4, 4), torch.arange(6) % CLASSES),
        (torch.randn(9, 1, 4, 4), torch.arange(9) % CLASSES),
    ]
    problem = problem_of(shards, model)
    x, batch = rows_for(problem), problem.sample(1)
    assert_same(problem.grad(x, batch), plain_grads(model, x, batch))


def test_gradients_of_a_regression() -> None:
    torch.manual_seed(0)
    model = nn.Linear(FEATURES, 1)
    shards = [(inputs, inputs.sum(1, keepdim=True)) for inputs, _ in shards_of(8, 11)]
    problem = problem_of(shards, model, loss=nn.MSELoss(), test=shards[0])
    x, batch = rows_for(problem), problem.sample(1)
    assert_same(problem.grad(x, batch), plain_grads(model, x, batch, F.mse_loss))
    assert problem.evaluate(x).metrics == {}
    assert set(problem.test(x[0])) == {"test_loss"}


@pytest.mark.parametrize("vectorize", [True, False])
@pytest.mark.parametrize("chunk_size", [4096, 12, 1])
def test_grad_pair_is_two_grads(vectorize: bool, chunk_size: int) -> None:
    model = small_mlp()
    problem = problem_of(model=model, vectorize=vectorize, chunk_size=chunk_size)
    x, x_old, batch = rows_for(problem), rows_for(problem, 1), problem.sample(4)
    new, old = problem.grad_pair(x, x_old, batch)
    assert_same(new, plain_grads(model, x, batch))
    assert_same(old, plain_grads(model, x_old, batch))


@pytest.mark.parametrize("chunk_size", [1, 6, 12, 13])
def test_chunks_change_no_minibatch_gradient(chunk_size: int) -> None:
    shards = shards_of(20, 8, 30, 20, 9)
    whole, chunked = problem_of(shards), problem_of(shards, chunk_size=chunk_size)
    x, batch = rows_for(whole), whole.sample(3)
    assert_same(chunked.grad(x, batch), whole.grad(x, batch))


@pytest.mark.parametrize("vectorize", [True, False])
@pytest.mark.parametrize("chunk_size", [256, 700, 4096])
@pytest.mark.parametrize("sizes", [(600, 256, 600, 3), (257, 9)])  # 257: one is left
def test_chunks_change_no_evaluation(
    vectorize: bool, chunk_size: int, sizes: tuple[int, ...]
) -> None:
    shards, model = shards_of(*sizes), small_mlp()
    problem = problem_of(
        shards, model, chunk_size=chunk_size, vectorize=vectorize, batch_size=2
    )
    x = rows_for(problem)
    found = problem.evaluate(x)
    assert found.grad is not None
    assert found.loss is not None
    for i, (inputs, targets) in enumerate(shards):
        grad, loss = plain_grad(model, x[i], [inputs], targets, F.cross_entropy)
        right = problem.module(x[i])(inputs).argmax(1) == targets
        assert_same(found.grad[i], grad)
        assert float(found.loss[i]) == pytest.approx(loss, abs=SAME)
        accuracy = float(found.metrics["train_accuracy"][i])
        assert accuracy == pytest.approx(float(right.double().mean()), abs=SAME)
    assert_same(problem.full_grad(x), found.grad)
    assert_same(problem.value(x), found.loss)


def test_full_grad_is_the_gradient_on_the_whole_shard() -> None:
    problem = problem_of(shards_of(12, 12))
    x = rows_for(problem)
    every = torch.arange(24).view(2, 12)
    inputs = torch.cat([s[0] for s in shards_of(12, 12)])[every]
    targets = torch.cat([s[1] for s in shards_of(12, 12)])[every]
    assert_same(problem.full_grad(x), problem.grad(x, Samples((inputs,), targets)))


def test_chunks_change_no_test_scores() -> None:
    test = shard(50, seed=9)
    whole, chunked = (problem_of(test=test, chunk_size=size) for size in (4096, 7))
    row = rows_for(whole)[0]
    outputs = whole.module(row)(test[0])
    accuracy = float((outputs.argmax(1) == test[1]).double().mean())
    loss = F.cross_entropy(outputs, test[1]).item()
    for problem in (whole, chunked):
        scores = problem.test(row)
        assert scores["test_loss"] == pytest.approx(loss, abs=SAME)
        assert scores["test_accuracy"] == pytest.approx(accuracy, abs=SAME)
    assert problem_of().test(row) == {}


def test_rows_keep_float32() -> None:
    torch.set_default_dtype(torch.float32)
    problem = problem_of(test=shard(5))  # the data is float64, the model float32
    x = problem.x0()
    assert x.dtype == torch.float32
    assert problem.grad(x, problem.sample(1)).dtype == torch.float32
    assert problem.full_grad(x).dtype == torch.float32
    assert set(problem.test(x[0])) == {"test_loss", "test_accuracy"}


# -- sampling --------------------------------------------------------------------------


def test_minibatches_come_from_the_own_shard() -> None:
    shards = [
        (torch.full((size, FEATURES), float(agent)), torch.full((size,), agent))
        for agent, size in enumerate((5, 40, 11))
    ]
    batch = problem_of(shards, batch_size=4).sample(1, size=30)
    assert batch.targets.tolist() == [[agent] * 30 for agent in range(3)]
    assert batch.inputs[0].shape == (3, 30, FEATURES)
    assert (batch.inputs[0][:, :, 0] == batch.targets).all()


def test_sample_is_a_function_of_seed_k_and_stream() -> None:
    def inputs(problem: LearningProblem, *args: Any, **options: Any) -> Tensor:
        return problem.sample(*args, **options).inputs[0]

    problem = problem_of(batch_size=10)
    drawn = inputs(problem, 3)
    assert drawn.shape == (3, 10, FEATURES)
    assert torch.equal(inputs(problem_of(batch_size=10), 3), drawn)
    assert torch.equal(inputs(problem, torch.tensor(3)), drawn)
    assert torch.equal(inputs(problem, 3, size=4), drawn[:, :4])
    assert not torch.equal(inputs(problem, 4), drawn)
    assert not torch.equal(inputs(problem, 3, stream=1), drawn)
    assert not torch.equal(inputs(problem_of(batch_size=10, seed=1), 3), drawn)


# -- shards in every form --------------------------------------------------------------


class Squares(Dataset[tuple[Tensor, int]]):
    """A map-style data set without tensors of its own."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return torch.arange(FEATURES, dtype=torch.float64) * i / 10, i % CLASSES


def as_arrays(pair: Shard) -> Any:
    return pair[0].numpy(), pair[1].numpy()


def as_dataset(pair: Shard) -> Any:
    return TensorDataset(*pair)


def as_list(pair: Shard) -> Any:
    return list(pair)


@pytest.mark.parametrize("form", [as_arrays, as_dataset, as_list])
def test_shards_in_other_forms(form: Callable[[Shard], Any]) -> None:
    shards = shards_of(9, 13)
    expected, found = problem_of(shards), problem_of([form(s) for s in shards])
    x = rows_for(expected)
    assert_same(found.full_grad(x), expected.full_grad(x))


def test_map_style_datasets() -> None:
    problem = problem_of([Squares(8), Squares(12)], test=Squares(5))
    tensors = [
        (
            torch.stack([inputs for inputs, _ in pairs]),
            torch.tensor([t for _, t in pairs]),
        )
        for pairs in ([Squares(size)[i] for i in range(size)] for size in (8, 12))
    ]
    x = rows_for(problem)
    assert_same(problem.full_grad(x), problem_of(tensors).full_grad(x))
    assert "test_loss" in problem.test(x[0])


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.left = nn.Linear(FEATURES, CLASSES)
        self.right = nn.Linear(2, CLASSES)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        outputs: Tensor = torch.tanh(self.left(a)) * self.right(b)
        return outputs


def test_tuples_of_inputs() -> None:
    shards = [
        ((inputs, shard(len(inputs), seed=8, features=2)[0]), targets)
        for inputs, targets in shards_of(10, 15)
    ]
    model = TwoInputs()
    problem = problem_of(shards, model, test=shards[0])
    x, batch = rows_for(problem), problem.sample(1)
    assert len(batch.inputs) == 2
    assert_same(problem.grad(x, batch), plain_grads(model, x, batch))
    for i, (inputs, targets) in enumerate(shards):
        grad, _ = plain_grad(model, x[i], inputs, targets, F.cross_entropy)
        assert_same(problem.full_grad(x)[i], grad)
    assert set(problem.test(x[0])) == {"test_loss", "test_accuracy"}


def test_mappings_hold_shards_by_agent() -> None:
    shards = dict(enumerate(shards_of(9, 13, 11)))
    backwards = dict(reversed(shards.items()))
    x = rows_for(problem_of(shards))
    assert problem_of(backwards).agents == (0, 1, 2)
    assert_same(problem_of(backwards).full_grad(x), problem_of(shards).full_grad(x))


def test_callables_open_only_the_asked_shards() -> None:
    opened: list[int] = []

    def open_one(agent: int) -> Shard:
        opened.append(agent)
        return shards_of(20, 30, 25, 40)[agent]

    problem = problem_of(open_one)
    assert opened == []
    some = problem.local((1, 3))
    assert opened == [1, 3]
    everyone = problem_of(shards_of(20, 30, 25, 40))
    x = rows_for(everyone)
    assert_same(some.full_grad(x[[1, 3]]), everyone.full_grad(x)[[1, 3]])
    assert torch.equal(some.sample(5).targets, everyone.sample(5).targets[[1, 3]])
    assert torch.equal(some.x0("different"), everyone.x0("different")[[1, 3]])
    assert message_of(problem.x0) == (
        "LearningProblem: `shards` is a callable, so the agents are not known yet. "
        "Use `problem = problem.local(world.agents)` first."
    )


def test_local_keeps_the_rows_of_its_agents() -> None:
    everyone = problem_of(shards_of(20, 30, 25, 40))
    some = everyone.local([2, 3])
    x = rows_for(everyone)
    assert some.agents == (2, 3)
    assert everyone.agents == (0, 1, 2, 3)
    assert everyone.local(range(4)) is everyone
    batch, mine = everyone.sample(7), some.sample(7)
    assert torch.equal(mine.inputs[0], batch.inputs[0][2:])
    assert_same(some.grad(x[2:], mine), everyone.grad(x, batch)[2:])


# -- rows and models -------------------------------------------------------------------


def frozen_mlp() -> nn.Module:
    model = small_mlp()
    for weight in model.get_submodule("1").parameters():
        weight.requires_grad = False
    return model


def test_frozen_parameters_stay_out_of_the_rows_and_unchanged() -> None:
    model = frozen_mlp()
    before = {name: w.detach().clone() for name, w in model.named_parameters()}
    problem = problem_of(model=model)
    assert problem.layout.names == ("3.weight", "3.bias")
    assert problem.layout.p == 5 * CLASSES + CLASSES
    for init in ("same", "different"):
        x = problem.x0(init)
        batch = problem.sample(1)
        assert_same(problem.grad(x, batch), plain_grads(model, x, batch))
        trained = dict(problem.module(x[0] + 1).named_parameters())
        for name in ("1.weight", "1.bias"):
            assert torch.equal(trained[name], before[name])
            assert not trained[name].requires_grad
        assert not torch.equal(trained["3.bias"], before["3.bias"])


def test_the_user_s_model_is_left_alone() -> None:
    model = small_mlp()
    before = copy.deepcopy(model.state_dict())
    problem = problem_of(model=model)
    x = problem.x0("different")
    problem.evaluate(x)
    problem.grad(x, problem.sample(1))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    assert all(weight.grad is None for weight in model.parameters())
    start = problem.x0()
    with torch.no_grad():
        next(model.parameters()).add_(1)  # and the problem does not follow the model
    assert torch.equal(problem.x0(), start)


def test_module_of_a_row_and_back() -> None:
    problem = problem_of()
    row = rows_for(problem)[1]
    model = problem.module(row)
    assert torch.equal(problem.layout.flatten(model), row)
    assert torch.equal(Layout.of(model).flatten(model), row)
    before = row.clone()
    start = problem.x0()
    row += 1  # the model holds a copy, and is one
    assert torch.equal(problem.layout.flatten(problem.module(row)), row)
    assert torch.equal(problem.layout.flatten(model), before)
    assert torch.equal(problem.x0(), start)
    assert not torch.equal(start[1], before)


def test_the_same_start_is_the_model_s_own() -> None:
    model = small_mlp()
    x = problem_of(model=model).x0("same")
    own = torch.cat([w.detach().reshape(-1) for w in model.parameters()])
    assert torch.equal(x, own.repeat(3, 1))


def test_different_starts_differ_and_repeat() -> None:
    problem = problem_of()
    random_state = torch.random.get_rng_state()
    x = problem.x0("different")
    assert torch.equal(torch.random.get_rng_state(), random_state)
    assert torch.equal(problem_of().x0("different"), x)
    assert not torch.equal(problem_of(seed=1).x0("different"), x)
    for i in range(3):
        assert not torch.equal(x[i], x[(i + 1) % 3])
    # PyTorch's own start: uniform within 1 / sqrt(fan in) of each layer.
    weights = problem.layout.unflatten(x.abs().amax(0))
    assert weights["1.weight"].max() <= FEATURES**-0.5
    assert weights["1.weight"].max() > 0.8 * FEATURES**-0.5
    assert weights["3.weight"].max() <= 5**-0.5


def test_unknown_start() -> None:
    assert message_of(lambda: problem_of().x0("difference")) == (
        "unknown init `difference`. Did you mean `different`? Known: different, same."
    )


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.linear(x) * self.scale
        return outputs


def test_a_parameter_that_cannot_be_drawn_again() -> None:
    problem = problem_of(model=Scaled())
    assert problem.x0().shape == (3, FEATURES * CLASSES + CLASSES + 1)
    assert message_of(lambda: problem.x0("different")) == (
        'LearningProblem: init="different" cannot draw `scale`: its module has no '
        "`reset_parameters`. Add one, or pass your own rows as `x0`."
    )


def test_regularizer_is_passed_on() -> None:
    problem = problem_of(regularizer=L1(0.5))
    x, u = rows_for(problem), rows_for(problem, 1)
    assert torch.equal(problem.prox(x, 0.1), L1(0.5).prox(x, 0.1))
    assert torch.equal(problem.penalty(x), L1(0.5).value(x))
    assert torch.equal(problem.subgrad(x), L1(0.5).subgrad(x))
    distance = problem.distance(u, x)
    assert distance is not None
    assert torch.equal(distance, L1(0.5).distance(u, x))
    assert problem_of(regularizer=Simplex()).distance(u, x) is None
    assert not problem_of().penalty(x).any()


# -- models that vmap cannot take ------------------------------------------------------


class Branching(nn.Module):
    """Looks at its numbers: `vmap` cannot follow."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.linear = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.linear(x)
        return 2 * outputs if outputs.sum().item() > 0 else -outputs


def test_models_that_vmap_cannot_take_run_agent_by_agent() -> None:
    model = Branching()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problem = problem_of(model=model)
        x, x_old, batch = problem.x0("different"), rows_for(problem), problem.sample(1)
        pair = problem.grad_pair(x, x_old, batch)
        full = problem.full_grad(x)
    assert [w.category for w in caught] == [Notice]
    assert str(caught[0].message).startswith(
        "model `Branching` runs agent by agent, since vmap cannot take it: "
    )
    assert caught[0].filename == __file__
    assert_same(pair[0], plain_grads(model, x, batch))
    assert_same(pair[1], plain_grads(model, x_old, batch))
    for i, (inputs, targets) in enumerate(shards_of(20, 20, 20)):
        grad, _ = plain_grad(model, x[i], [inputs], targets, F.cross_entropy)
        assert_same(full[i], grad)


# -- what is refused -------------------------------------------------------------------


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.linear(F.dropout(x, 0.5))
        return outputs


class Jittering(Dropping):
    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.linear(x) + float(np.random.default_rng().normal())
        return outputs


class Noisy(Dropping):
    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.linear(x + torch.randn_like(x))
        return outputs


class Counting(nn.Module):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        outputs: Tensor = self.linear(x)
        return outputs


def with_layer(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 4), layer, nn.Linear(4, CLASSES))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            with_layer(nn.BatchNorm1d(4)),
            "model layer `1` (BatchNorm1d) normalizes over the batch and keeps running "
            "statistics. Keep those of a pretrained model, "
            "`pm.nn.frozen_statistics(model)`, or replace such layers, "
            "`pm.nn.group_norm(model)`.",
        ),
        (
            with_layer(nn.BatchNorm1d(4, track_running_stats=False).eval()),
            "model layer `1` (BatchNorm1d) normalizes over the batch. Replace such "
            "layers: `pm.nn.group_norm(model)`.",
        ),
        (
            with_layer(nn.RReLU()),
            "model layer `1` (RReLU) draws random numbers. Replace it with "
            "`nn.LeakyReLU`.",
        ),
        (
            nn.InstanceNorm1d(4, affine=True, track_running_stats=True),
            "model layer itself keeps running statistics. Set "
            "`track_running_stats=False`, or keep them as they are: "
            "`pm.nn.frozen_statistics(model)`.",
        ),
        (
            Dropping(),
            "model `Dropping` draws random numbers in eval mode too. Give its dropout "
            "`training=self.training`.",
        ),
        (
            Jittering(),
            "model `Jittering` gives two different outputs for the same input; its "
            "forward pass draws random numbers that torch does not know of. Use "
            "`nn.Dropout`, or none.",
        ),
        (
            Noisy(),
            "the model draws random numbers by `aten.randn_like.default`; of all that "
            "is random only dropout is supported, on GPUs outside of fused attention "
            "and LSTM kernels.",
        ),
        (
            nn.Linear(FEATURES, CLASSES, device="meta"),
            "model `Linear`: `weight` is on the device `meta` and has no values. Build "
            "the model on a real device, or load its values first.",
        ),
        (
            nn.Sequential(nn.LazyLinear(CLASSES)),
            "model `Sequential`: `0.weight` has no shape yet. Call the model on a "
            "sample first.",
        ),
        (
            Counting(),
            "model `Counting` changes its buffer `calls` in the forward pass; agents "
            "need a model without running statistics.",
        ),
        (
            nn.Tanh(),
            "model `Tanh` has no trainable parameter. Give it some, or set "
            "`requires_grad=True`.",
        ),
        (
            nn.Linear(FEATURES, CLASSES).requires_grad_(False),
            "model `Linear` has no trainable parameter. Give it some, or set "
            "`requires_grad=True`.",
        ),
        (
            "mlp",
            "LearningProblem: `model` must be an nn.Module, got str.",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_models_that_cannot_be_trained(model: Any, message: str) -> None:
    assert message_of(lambda: problem_of(model=model)) == message


@pytest.mark.parametrize(
    "layer",
    [
        nn.Dropout(0.0),
        nn.LayerNorm(4),
        nn.ReLU(),
        nn.BatchNorm1d(4).double().eval(),
        nn.BatchNorm1d(4).double().eval().requires_grad_(False),
    ],
)
def test_harmless_layers_are_taken(layer: nn.Module) -> None:
    assert problem_of(model=with_layer(layer)).x0().shape[0] == 3


def test_sum_reduced_loss() -> None:
    found = message_of(
        lambda: problem_of(loss=partial(F.cross_entropy, reduction="sum"))
    )
    assert found.startswith(
        "loss `cross_entropy` must be the mean over samples, but a doubled batch "
        "changes it from "
    )
    assert found.endswith('Use `reduction="mean"`.')


def test_loss_that_is_not_reduced() -> None:
    loss = nn.CrossEntropyLoss(reduction="none")
    assert message_of(lambda: problem_of(loss=loss)) == (
        "loss `CrossEntropyLoss` must return one number, the mean over samples, got "
        'shape (8,). Use `reduction="mean"`.'
    )
    assert message_of(lambda: problem_of(loss=lambda _outputs, _targets: 0.5)) == (
        "loss `<lambda>` must return one number, the mean over samples, got 0.5. "
        'Use `reduction="mean"`.'
    )


def with_label(label: int) -> list[Shard]:
    shards = shards_of(20, 20, 20)
    shards[1][1][15] = label
    return shards


@pytest.mark.parametrize(("label", "low", "high"), [(3, 0, 3), (-2, -2, 2)])
def test_labels_outside_the_classes(label: int, low: int, high: int) -> None:
    complaint = (
        f"labels run from {low} to {high} but the model has 3 outputs; labels must be "
        "0 .. 2."
    )
    bad = with_label(label)
    assert message_of(lambda: problem_of(bad)) == f"training {complaint}"
    assert message_of(lambda: problem_of(test=bad[1])) == f"test {complaint}"


def test_output_that_does_not_fit() -> None:
    found = message_of(lambda: problem_of(model=nn.Linear(FEATURES + 1, CLASSES)))
    assert found.startswith(
        "model `Linear` with loss `cross_entropy` does not fit the samples (inputs "
        "(8, 4), targets (8,) torch.int64): mat1 and mat2 shapes"
    )
    wide = [(torch.zeros(20, FEATURES), torch.zeros(20, CLASSES + 2))]
    found = message_of(lambda: problem_of(wide))
    assert found.startswith(
        "model `Sequential` with loss `cross_entropy` does not fit the samples (inputs "
        "(8, 4), targets (8, 5) torch.float64): "
    )


NAN = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, float("nan")]])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            (torch.empty(0, 4), torch.empty(0)),
            "agent 1 has no samples; every agent needs at least one.",
        ),
        (Squares(0), "agent 1 has no samples; every agent needs at least one."),
        (
            (NAN, torch.zeros(3, dtype=torch.int64)),
            "agent 1: inputs hold nan in row 2, column 1. Remove or replace it.",
        ),
        (
            (torch.ones(2, 3, 2) / torch.tensor([1.0, 0.0]), torch.zeros(2)),
            "agent 1: inputs hold inf in row 0, column 1. Remove or replace it.",
        ),
        (
            (torch.zeros(2, 2), torch.tensor([0.0, -torch.inf])),
            "agent 1: targets hold -inf in row 1, column 0. Remove or replace it.",
        ),
        (
            (torch.zeros(3, 4), torch.zeros(2)),
            "agent 1: 3 inputs but 2 targets; they must pair up.",
        ),
        (
            (torch.zeros(3, 4), torch.zeros(3), torch.zeros(3)),
            "agent 1: expected a pair (inputs, targets), got 3 parts. Several inputs "
            "go into a tuple: ((a, b), targets).",
        ),
        (
            (torch.zeros(()), torch.zeros(())),
            "agent 1: inputs and targets need a first dimension of samples.",
        ),
        (
            5,
            "agent 1: expected (inputs, targets) or a map-style Dataset, got int.",
        ),
        (
            (torch.zeros(3, 7), torch.zeros(3, dtype=torch.int64)),
            "`shards` differ in the shape of a sample: [(4,), ()] and [(7,), ()].",
        ),
    ],
)
def test_shards_that_cannot_be_used(bad: Any, message: str) -> None:
    assert message_of(lambda: problem_of([shard(20), bad])) == message


def test_test_set_is_checked_too() -> None:
    bad = (NAN, torch.zeros(3, dtype=torch.int64))
    assert message_of(lambda: problem_of(test=bad)) == (
        "test set: inputs hold nan in row 2, column 1. Remove or replace it."
    )


def test_batch_larger_than_the_training_set() -> None:
    assert message_of(lambda: problem_of(shards_of(5, 6), batch_size=12)) == (
        "LearningProblem: `batch_size` is 12 but the whole training set has 11 "
        "samples. Lower it."
    )


def test_batch_larger_than_one_shard_is_noticed() -> None:
    expected = (
        "batch_size 12 exceeds the 6 samples of agent 1: samples repeat within a batch."
    )
    with pytest.warns(Notice) as caught:
        problem = problem_of(shards_of(20, 6), batch_size=12)
    assert [str(w.message) for w in caught] == [expected]
    assert problem.sample(1).targets.shape == (2, 12)


@pytest.mark.parametrize("name", ["batch_size", "chunk_size"])
@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_sizes_must_be_positive_whole_numbers(name: str, size: Any) -> None:
    options = {name: size}
    assert message_of(lambda: problem_of(**options)) == (
        f"LearningProblem: `{name}` must be a whole number of at least 1, got {size}."
    )


def test_shards_must_be_as_many_as_agents() -> None:
    problem = problem_of()
    assert message_of(lambda: problem.local(range(5))) == (
        "LearningProblem: `shards` has no agent 3; it holds 3 agents."
    )
    assert problem.local(range(2)).agents == (0, 1)


# -- the papers' models ----------------------------------------------------------------


def shapes_of(model: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(weight.shape) for weight in model.parameters()]


def test_mlp_is_the_papers() -> None:
    model = mlp(123, 2)
    assert Layout.of(model).p == 8066
    assert shapes_of(model) == [(64, 123), (64,), (2, 64), (2,)]
    x = torch.randn(5, 123)
    w1, b1, w2, b2 = model.parameters()
    assert_same(model(x), torch.tanh(x @ w1.T + b1) @ w2.T + b2)


def test_lenet_is_the_papers() -> None:
    model = lenet()
    assert Layout.of(model).p == 25010
    assert shapes_of(model) == [
        (6, 1, 5, 5),
        (6,),
        (16, 6, 5, 5),
        (16,),
        (84, 256),
        (84,),
        (10, 84),
        (10,),
    ]
    x = torch.randn(2, 1, 28, 28)
    c1, b1, c2, b2, w3, b3, w4, b4 = model.parameters()
    hidden = F.max_pool2d(torch.tanh(F.conv2d(x, c1, b1)), 2)
    assert hidden.shape == (2, 6, 12, 12)
    hidden = F.max_pool2d(torch.tanh(F.conv2d(hidden, c2, b2)), 2)
    assert hidden.shape == (2, 16, 4, 4)
    hidden = torch.tanh(hidden.flatten(1) @ w3.T + b3)
    assert_same(model(x), hidden @ w4.T + b4)


def test_logistic_is_one_linear_map() -> None:
    model = logistic(6, 3)
    weight, bias = model.parameters()
    x = torch.randn(4, 2, 3)
    assert_same(model(x), x.flatten(1) @ weight.T + bias)


def test_lenet_takes_28_by_28_only() -> None:
    assert message_of(lambda: lenet(123, 2)) == (
        "model `lenet` needs 28 x 28 images, got 123 features per sample. Use `mlp` or "
        "`logistic`."
    )


@pytest.mark.parametrize("name", sorted(MODELS))
def test_ready_models_can_be_trained(name: str) -> None:
    torch.manual_seed(0)
    inputs = torch.from_numpy(np.random.default_rng(0).normal(size=(6, 1, 28, 28)))
    shards = [(inputs, torch.arange(6)), (inputs + 1, torch.arange(6))]
    model = MODELS[name](784, 10)
    problem = problem_of(shards, model, batch_size=3)
    x, batch = problem.x0("different"), problem.sample(1)
    assert_same(problem.grad(x, batch), plain_grads(model, x, batch))
