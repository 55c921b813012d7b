"""Curvature from Hessian-vector products, against Hessians written out."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from zoo import Quadratics

import proxmesh as pm
from proxmesh.theory import estimate_smoothness
from proxmesh.theory import smoothness as module
from proxmesh.theory.smoothness import STREAM


def small(**options: Any) -> pm.LearningProblem:
    g = torch.Generator().manual_seed(0)
    shards = [
        (2 * torch.randn(m, 3, generator=g), torch.randint(0, 2, (m,), generator=g))
        for m in (9, 14, 30)
    ]
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    return pm.LearningProblem(
        model, nn.functional.cross_entropy, shards, batch_size=6, **options
    )


def hessians(problem: pm.LearningProblem, x: Tensor, batch: Any) -> Tensor:
    """Row by row, by torch's own double differentiation of one agent's loss."""
    found = []
    for i, row in enumerate(x):
        inputs, targets = tuple(t[i] for t in batch.inputs), batch.targets[i]

        def loss(
            flat: Tensor, inputs: Any = inputs, targets: Tensor = targets
        ) -> Tensor:
            outputs = torch.func.functional_call(
                problem._model, problem.layout.unflatten(flat), inputs
            )
            return nn.functional.cross_entropy(outputs, targets)

        found.append(torch.autograd.functional.hessian(loss, row))
    return torch.stack(found)


@pytest.mark.parametrize("options", [{}, {"vectorize": False}, {"chunk_size": 4}])
def test_products_are_those_of_the_hessian(options: Any) -> None:
    problem = small(**options)
    x = problem.x0("different")
    batch = problem.sample(3)
    u = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    exact = (hessians(problem, x, batch) @ u[:, :, None])[:, :, 0]
    assert (problem.hvp(x, u, batch) - exact).abs().max() < 1e-12


def test_a_loss_that_is_linear_has_no_curvature() -> None:
    shards = [(torch.ones(4, 2), torch.zeros(4)) for _ in range(3)]
    problem = pm.LearningProblem(
        nn.Linear(2, 1), lambda out, _: out.mean(), shards, batch_size=2
    )
    x = problem.x0()
    assert problem.hvp(x, torch.ones_like(x), problem.sample(0)).abs().max() == 0
    found = estimate_smoothness(problem, x)
    assert float(found.upper.max()) == 0


def test_both_ends_of_the_spectrum() -> None:
    problem = small()
    x = problem.x0("different")
    batch = problem.sample(0, size=200, stream=STREAM)
    exact = torch.linalg.eigvalsh(hessians(problem, x, batch))
    found = estimate_smoothness(problem, x, products=problem.p, samples=200)
    assert torch.allclose(found.upper, exact[:, -1], rtol=1e-6)
    assert torch.allclose(found.lower, exact[:, 0], rtol=1e-5, atol=1e-7)
    quick = estimate_smoothness(problem, x, samples=200)
    assert (quick.upper <= exact[:, -1] + 1e-9).all()  # from inside
    assert torch.allclose(quick.upper, exact[:, -1], rtol=0.02)


def test_mean_square_and_noise_over_minibatches() -> None:
    problem = small()
    x = problem.x0("different")
    found = estimate_smoothness(problem, x, products=problem.p, samples=200, batches=9)
    batch = problem.sample(0, size=200, stream=STREAM)
    _, vectors = torch.linalg.eigh(hessians(problem, x, batch))
    sharpest = vectors[:, :, -1]
    drawn = [problem.sample(j, stream=STREAM) for j in range(1, 10)]
    images = torch.stack(
        [(hessians(problem, x, b) @ sharpest[..., None])[..., 0] for b in drawn]
    )
    square = images.square().sum(2).mean(0).sqrt()
    assert torch.allclose(found.mean_square, square, rtol=1e-5)
    spread = (images - images.mean(0)).square().sum(2).sum(0) / 8
    assert torch.allclose(found.noise, spread.sqrt(), rtol=1e-4)
    assert found.products == problem.p + 9


def test_without_products_differences_of_gradients_serve() -> None:
    problem = Quadratics.random(4, 5, 0.0, seed=2)
    exact = [torch.linalg.eigvalsh(a.T @ a / len(a)) for a in problem.a]
    found = estimate_smoothness(problem, torch.zeros(4, 5), products=5)
    for i, values in enumerate(exact):
        assert float(found.upper[i]) == pytest.approx(float(values[-1]), rel=1e-6)
        assert float(found.lower[i]) == pytest.approx(float(values[0]), abs=1e-5)


def test_each_agent_looks_at_its_own_loss() -> None:
    """An agent's numbers do not depend on who else is in the process."""
    problem = small()
    x = problem.x0("different")
    whole = estimate_smoothness(problem, x)
    for i in range(3):
        alone = estimate_smoothness(problem.local([i]), x[i : i + 1])
        for name in ("upper", "lower", "mean_square", "noise"):
            ours, theirs = getattr(alone, name)[0], getattr(whole, name)[i]
            assert float(ours) == pytest.approx(float(theirs), rel=1e-9)


def test_a_model_that_is_not_finite_is_named() -> None:
    problem = small()
    x = problem.x0()
    x[1] = torch.nan
    with pytest.raises(pm.InputError, match="curvature of agent 1's loss"):
        estimate_smoothness(problem, x)


def test_it_is_quick_on_a9a() -> None:
    torch.set_default_dtype(torch.float32)
    data = pm.datasets.a9a()
    problem = pm.LearningProblem(
        pm.models.mlp(123, 2),
        nn.functional.cross_entropy,
        data.split(8),
        batch_size=64,
    )
    found = estimate_smoothness(problem, problem.x0())
    assert found.seconds < 2
    assert 1 < float(found.upper.max()) < 5
    assert float(found.lower.min()) < -0.3
    assert "12 Hessian-vector products" in str(found)


def test_an_exhausted_space_adds_no_value() -> None:
    """Three eigenvalues, eight products: the lowest is 2, not 0."""
    root = torch.diag(torch.tensor([2.0, 3.0, 5.0]).sqrt()) * 3**0.5
    problem = Quadratics(root.repeat(4, 1, 1), torch.zeros(4, 3), 0.0)
    found = estimate_smoothness(problem, torch.zeros(4, 3))
    assert torch.allclose(found.lower, torch.full((4,), 2.0), rtol=1e-5)
    assert torch.allclose(found.upper, torch.full((4,), 5.0), rtol=1e-5)


def test_rounding_is_not_negative_curvature() -> None:
    torch.set_default_dtype(torch.float32)
    g = torch.Generator().manual_seed(0)
    shards = [(torch.randn(40, 2, generator=g), torch.arange(40) % 2) for _ in range(4)]
    problem = pm.LearningProblem(
        pm.models.logistic(2, 2), nn.functional.cross_entropy, shards
    )
    assert (estimate_smoothness(problem, problem.x0()).lower == 0).all()


# -- models whose kernels have no second derivative ------------------------------------


class Attending(nn.Module):
    """Attention between the tokens of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.out = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Any:
        return self.out(self.attention(x, x, x, need_weights=False)[0].mean(1))


class Encoding(nn.Module):
    """A layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True)
        self.out = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Any:
        return self.out(self.layer(x).mean(1))


class Recurrent(nn.Module):
    """What a recurrent layer has made of the last token."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.layer = kind(4, 3, batch_first=True)
        self.out = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Any:
        return self.out(self.layer(x)[0][:, -1])


SEQUENTIAL: dict[str, Callable[[], nn.Module]] = {
    "encoder": Encoding,
    "attention": Attending,
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
}


def of_sequences(model: nn.Module, **options: Any) -> pm.LearningProblem:
    g = torch.Generator().manual_seed(0)
    shards = [
        (3 * torch.randn(20, 5, 4, generator=g), torch.arange(20) % 2) for _ in range(3)
    ]
    return pm.LearningProblem(
        model, nn.functional.cross_entropy, shards, batch_size=8, **options
    )


class OnlyGradients:
    """A problem without second derivatives of its own."""

    def __init__(self, problem: pm.LearningProblem) -> None:
        self.grad, self.sample = problem.grad, problem.sample


@pytest.mark.filterwarnings("ignore::proxmesh.Notice")
@pytest.mark.parametrize("name", SEQUENTIAL)
def test_attention_and_recurrent_layers_have_their_curvature(name: str) -> None:
    torch.manual_seed(3)
    problem = of_sequences(SEQUENTIAL[name](), vectorize=False)  # the fused kernels
    x = problem.x0()
    found = estimate_smoothness(problem, x, samples=40)
    bare: Any = OnlyGradients(problem)  # in float64, differences are good to 1e-5
    differences = estimate_smoothness(bare, x, samples=40)
    assert torch.allclose(found.upper, differences.upper, rtol=1e-3)
    assert torch.allclose(found.lower, differences.lower, rtol=1e-3)
    assert torch.allclose(found.noise, differences.noise, rtol=1e-3)
    together = of_sequences(SEQUENTIAL[name]())
    result = pm.solve(together, pm.HSMADMM(), pm.graphs.ring(3), 10, compile=False)
    assert result.outcome == "finished"
    assert result.final["train_loss"] < result.history["train_loss"].iloc[0]


def test_attention_is_taken_of_all_agents_together() -> None:
    model = Encoding()
    problem, alone = of_sequences(model), of_sequences(model, vectorize=False)
    assert problem.way == "vmap"
    x, batch = problem.x0(), problem.sample(1)
    assert (problem.grad(x, batch) - alone.grad(x, batch)).abs().max() < 1e-12


class Kernel(nn.Module):
    """Attention by a kernel that nobody can talk out of its missing derivative."""

    def forward(self, x: Tensor) -> Any:
        x = x[:, None]  # one head
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        return fused(x, x, x)[0][:, 0]


class WrittenOut(nn.Module):
    """The same as formulas."""

    def forward(self, x: Tensor) -> Any:
        return (x @ x.mT / x.shape[-1] ** 0.5).softmax(-1) @ x


def with_layer(layer: nn.Module) -> pm.LearningProblem:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 5), layer, nn.Flatten(), nn.Linear(25, 2))
    return of_sequences(model, vectorize=False)


@pytest.mark.parametrize("large", [False, True])
def test_without_second_derivatives_differences_serve(
    large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(module, "LARGE", 0)
    ours, theirs = with_layer(Kernel()), with_layer(WrittenOut())
    found = estimate_smoothness(ours, ours.x0())
    exact = estimate_smoothness(theirs, theirs.x0())
    for name in ("upper", "lower", "noise"):
        assert torch.allclose(getattr(found, name), getattr(exact, name), rtol=1e-3)


# -- rows of which a dozen would be too many -------------------------------------------


@pytest.fixture
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every problem for a large one."""
    monkeypatch.setattr(module, "LARGE", 0)


@pytest.mark.usefixtures("_large")
@pytest.mark.parametrize("options", [{}, {"chunk_size": 5}])
def test_few_rows_find_both_ends_too(
    options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = small(**options)
    x = problem.x0("different")
    batch = problem.sample(0, size=16, stream=STREAM)
    exact = torch.linalg.eigvalsh(hessians(problem, x, batch))
    found = estimate_smoothness(problem, x)
    assert found.products == 7
    assert (found.upper <= exact[:, -1] + 1e-9).all()  # from inside
    assert (found.lower >= exact[:, 0] - 1e-9).all()
    assert torch.allclose(found.upper, exact[:, -1], rtol=0.1)
    assert torch.allclose(found.lower, exact[:, 0], rtol=0.1)
    monkeypatch.setattr(module, "FEWER_PRODUCTS", 12)
    whole = estimate_smoothness(problem, x, products=12)
    assert torch.allclose(whole.upper, exact[:, -1], rtol=1e-6)
    assert torch.allclose(whole.lower, exact[:, 0], rtol=1e-4)


@pytest.mark.usefixtures("_large")
def test_few_rows_find_the_noise_of_a_minibatch() -> None:
    problem = small()
    x = problem.x0("different")
    found = estimate_smoothness(problem, x)
    one, other = (problem.sample(j, size=16, stream=STREAM) for j in (0, 1))
    u = module._directions(x)
    for _ in range(2):
        u = problem.hvp(x, u, one)
        u = u / u.norm(dim=1, keepdim=True)
    images = problem.hvp(x, u, one), problem.hvp(x, u, other)
    spread = (images[0] - images[1]).square().sum(1) / 2
    square = (images[0].square().sum(1) + images[1].square().sum(1)) / 2
    assert torch.allclose(found.noise, (spread * 16 / 6).sqrt())
    assert torch.allclose(found.mean_square, (square + spread * 10 / 6).sqrt())


@pytest.mark.usefixtures("_large")
def test_few_rows_serve_whoever_has_the_problem() -> None:
    problem = small()
    x = problem.x0("different")
    whole = estimate_smoothness(problem, x)
    alone = estimate_smoothness(problem.local([1]), x[1:2])
    assert torch.allclose(alone.upper, whole.upper[1:2])
    own = Quadratics.random(4, 5, 0.0, seed=2)  # with nothing but gradients
    found = estimate_smoothness(own, torch.zeros(4, 5))
    exact = [torch.linalg.eigvalsh(a.T @ a / len(a)) for a in own.a]
    assert torch.allclose(found.upper, torch.stack(exact)[:, -1], rtol=1e-2)
    flat = Quadratics(torch.zeros(4, 3, 2), torch.zeros(4, 3), 0.0)
    assert (estimate_smoothness(flat, torch.zeros(4, 2)).upper == 0).all()
    x[1] = torch.nan
    with pytest.raises(pm.InputError, match="curvature of agent 1's loss"):
        estimate_smoothness(problem, x)


@pytest.mark.usefixtures("_large")
def test_constants_from_few_rows_train() -> None:
    problem = small()
    result = pm.solve(problem, pm.HSMADMM(), pm.graphs.ring(3), 100, compile=False)
    assert result.final["train_loss"] < 0.9 * result.history["train_loss"].iloc[0]
