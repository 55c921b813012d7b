"""Sparse samples: the same numbers as dense ones, in every way and on every method."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import proxmesh as pm
from proxmesh.algorithms.registry import ALGORITHMS
from proxmesh.data.sparse import SparseTable
from proxmesh.problems.sparse_kernel import has_kernel
from proxmesh.problems.sparse_ops import times

WAYS = ("kernel", "gather", "dense")
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}


def matrices(
    agents: int = 4, rows: int = 20, features: int = 30, seed: int = 0
) -> list[tuple[Any, Tensor]]:
    rng = np.random.default_rng(seed)
    found = []
    for agent in range(agents):
        x = sp.random_array(
            (rows + agent, features), density=0.1, rng=rng, format="csr"
        )
        found.append((x, torch.from_numpy(rng.integers(0, 3, rows + agent))))
    return found


def model_of(dtype: torch.dtype, features: int = 30, hidden: int = 5) -> nn.Module:
    torch.manual_seed(0)
    return pm.models.mlp(features, 3, hidden=hidden).to(dtype)


def problems(
    dtype: torch.dtype, sparse: Any = "auto", **options: Any
) -> tuple[pm.LearningProblem, pm.LearningProblem]:
    """The same problem, dense and sparse."""
    shards = matrices()
    dense = [(torch.from_numpy(x.toarray()), y) for x, y in shards]
    given: Any = {"regularizer": pm.L1(1e-3), "batch_size": 6, **options}
    model = model_of(dtype)
    plain = pm.LearningProblem(
        model, cross_entropy, dense, test=dense[0], sparse="dense", **given
    )
    ours = pm.LearningProblem(
        model, cross_entropy, shards, test=shards[0], sparse=sparse, **given
    )
    assert plain.sparse is None
    assert ours.sparse is not None
    return plain, ours


def close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=0, atol=TOLERANCE[a.dtype])


# -- the product itself, against a loop over entries ----------------------------------


def literal_product(w: Tensor, x: Any) -> Tensor:
    """Entry by entry."""
    out = torch.zeros(x.shape[0], len(w), dtype=w.dtype)
    for i in range(x.shape[0]):
        for e in range(x.indptr[i], x.indptr[i + 1]):
            for j in range(len(w)):
                out[i, j] += float(x.data[e]) * w[j, int(x.indices[e])]
    return out


@pytest.mark.parametrize("way", ["kernel", "gather"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("outputs", [1, 2, 7])
def test_product_and_its_derivatives(
    way: Any, dtype: torch.dtype, outputs: int
) -> None:
    if way == "kernel":
        assert has_kernel(torch.zeros(1, dtype=dtype)), "this machine has a compiler"
    x = matrices(1, 9, 11)[0][0]
    table = SparseTable.of(x).to(torch.device("cpu"), dtype)
    rows = torch.tensor([3, 0, 3, 8, 5])
    samples = pm.SparseRows(rows, table, way)
    w = torch.randn(outputs, 11, dtype=dtype, requires_grad=True)
    found = times(w, samples)
    assert close(found, literal_product(w, x)[rows])

    g = torch.randn(5, outputs, dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(found, w, g, create_graph=True)
    dense = torch.from_numpy(x.toarray()).to(dtype)[rows]
    assert close(slope, g.T @ dense)
    u = torch.randn_like(w)  # the derivative of that by g
    (again,) = torch.autograd.grad(slope, g, u)
    assert close(again, dense @ u.T)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("outputs", [8, 41, 64])
def test_wide_weights_are_not_turned_and_narrow_ones_are(
    outputs: int, dtype: torch.dtype
) -> None:
    """Every branch of the kernel is held to the same products."""
    for features, density in ((2000, 0.002), (21, 0.5)):
        x: Any = sp.random_array((16, features), density=density, rng=1, format="csr")
        table = SparseTable.of(x).to(torch.device("cpu"), dtype)
        w = torch.randn(outputs, features, dtype=dtype, requires_grad=True)
        found = times(w, pm.SparseRows(torch.arange(16), table, "kernel"))
        dense = torch.from_numpy(x.toarray()).to(dtype)
        large = 10  # sums of products of this size
        tolerance = large * TOLERANCE[dtype]
        assert torch.allclose(found, dense @ w.T, rtol=0, atol=tolerance)
        (slope,) = torch.autograd.grad(found.square().sum(), w)
        expected = (2 * found).T @ dense
        assert torch.allclose(slope, expected, rtol=0, atol=10 * tolerance)


# -- problems -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("options", [{}, {"vectorize": False}, {"chunk_size": 4}])
def test_gradients_are_those_of_dense_samples(
    dtype: torch.dtype, way: Any, options: dict[str, Any]
) -> None:
    plain, ours = problems(dtype, way, **options)
    x = plain.x0("different")
    batch, dense = ours.sample(3), plain.sample(3)
    assert close(ours.grad(x, batch), plain.grad(x, dense))
    for a, b in zip(
        ours.grad_pair(x, x + 1, batch), plain.grad_pair(x, x + 1, dense), strict=True
    ):
        assert close(a, b)
    u = torch.randn_like(x)
    assert close(ours.hvp(x, u, batch), plain.hvp(x, u, dense))
    assert close(ours.hessian(x, 1, batch)(u[1]), plain.hessian(x, 1, dense)(u[1]))
    assert close(ours.full_grad(x), plain.full_grad(x))
    assert torch.allclose(ours.value(x), plain.value(x), atol=TOLERANCE[dtype])
    assert ours.test(x[0]) == pytest.approx(plain.test(x[0]), abs=TOLERANCE[dtype])


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_method_agrees_with_dense_samples(name: str) -> None:
    method = ALGORITHMS[name]
    graph = pm.graphs.ring(4)
    for dtype, tolerance in TOLERANCE.items():
        plain, ours = problems(dtype, "kernel")
        algorithm = method.kind(**method.fixed)
        histories = [
            pm.solve(p, algorithm, graph, steps=5, eval_every=5, progress=False)
            for p in (plain, ours)
        ]
        a, b = (h.state.x for h in histories)
        assert torch.allclose(
            a, b, rtol=0, atol=tolerance * max(1, float(a.abs().max()))
        )


def test_samples_that_are_mostly_zero_become_sparse_if_the_model_takes_them() -> None:
    data = pm.datasets.a9a()
    shards = data.split(4)
    ready = pm.LearningProblem(
        pm.models.mlp(123, 2), cross_entropy, shards, test=data.test
    )
    assert ready.sparse is not None
    own = nn.Sequential(nn.Linear(123, 8), nn.Tanh(), nn.Linear(8, 2))
    assert pm.LearningProblem(own, cross_entropy, shards, test=data.test).sparse is None


def test_one_agents_part_and_its_shape() -> None:
    plain, ours = problems(torch.float64)
    assert ours.sample_shape == plain.sample_shape == ((30,), ())
    part = ours.local([1, 3])
    x = part.x0()
    assert close(
        part.grad(x, part.sample(2)), ours.grad(ours.x0(), ours.sample(2))[[1, 3]]
    )


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_compiled_steps_agree_with_dense_ones(way: Any) -> None:
    plain, ours = problems(torch.float64, way)
    found = [
        pm.solve(p, pm.HSMADMM(), pm.graphs.ring(4), steps=6, compile=c, progress=False)
        for p, c in ((plain, False), (ours, True))
    ]
    assert found[1].compiled
    assert close(found[0].state.x, found[1].state.x)


# -- what is refused ------------------------------------------------------------------


def refused(shards: Any, model: nn.Module | None = None) -> str:
    with pytest.raises(pm.InputError) as error:
        pm.LearningProblem(model or model_of(torch.float32), cross_entropy, shards)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_model_that_takes_no_sparse_samples_names_its_layer() -> None:
    own = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(30, 3)))
    message = refused(matrices(), own)
    assert "layer `1.0` (Linear)" in message
    assert "SparseLinear" in message


def test_sparse_and_dense_shards_are_not_mixed() -> None:
    shards = matrices()
    mixed = [shards[0], (torch.from_numpy(shards[1][0].toarray()), shards[1][1])]
    assert "some are sparse and some dense" in refused(mixed)


def test_other_widths_and_broken_matrices_are_refused() -> None:
    a, b = matrices(1, features=30), matrices(1, features=31)
    assert "30 and 31" in refused([*a, *b])
    assert "takes 30 features, but a sparse sample has 31" in refused(b)
    x, y = matrices(1)[0]
    x.data[7] = np.nan
    assert "hold nan in row" in refused([(x, y)])
    x, y = matrices(1)[0]
    x.indices[3] = 77
    x.has_canonical_format = True
    assert "run from 0 to 77, but it has 30" in refused([(x, y)])
    x, y = matrices(1)[0]
    assert "sparse matrix must be the only input" in refused([((x, x), y)])
    assert "20 inputs but 3 targets" in refused([(x, y[:3])])
    other: Any = "x"
    with pytest.raises(pm.InputError, match="`sparse`"):
        pm.LearningProblem(
            model_of(torch.float32), cross_entropy, [(x, y)], sparse=other
        )
