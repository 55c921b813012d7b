"""Every engine on every graph forms the same products as the matrices."""

import networkx as nx
import numpy as np
import pytest
import torch
from conftest import GRAPH_KINDS, small_graph
from torch import Tensor

from proxmesh import connect, graphs
from proxmesh.errors import InputError
from proxmesh.network import ENGINES, CountingNetwork, Traffic
from proxmesh.types import Reduction

PRODUCT = 1e-12  # float64 sums of at most 8 terms of size 10
ENGINE_NAMES = [name for name in ENGINES if name in {"auto", "simulated"}]


def rows(n: int, columns: int = 5) -> Tensor:
    return torch.randn(n, columns, generator=torch.Generator().manual_seed(n)) * 10


def expected_products(graph: graphs.Graph, x: Tensor) -> tuple[Tensor, Tensor]:
    """Both products edge by edge, without any matrix."""
    laplacian, mixed = torch.zeros_like(x), x.clone()
    degree = [sum(i in edge for edge in graph.edges) for i in range(graph.n)]
    for i, j in graph.edges:
        weight = 1 / (1 + max(degree[i], degree[j]))
        for a, b in ((i, j), (j, i)):
            laplacian[a] += x[a] - x[b]
            mixed[a] += weight * (x[b] - x[a])
    return laplacian, mixed


@pytest.mark.parametrize("engine", ENGINE_NAMES)
@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_products_equal_the_matrices(kind: str, engine: str) -> None:
    graph = small_graph(kind)
    x = rows(graph.n)
    sent = connect(graph, engine).exchange(x)
    laplacian, mixed = expected_products(graph, x)
    assert isinstance(graph.laplacian, np.ndarray)
    torch.testing.assert_close(
        torch.from_numpy(graph.laplacian) @ x, laplacian, rtol=0, atol=PRODUCT
    )
    torch.testing.assert_close(sent.laplacian(), laplacian, rtol=0, atol=PRODUCT)
    torch.testing.assert_close(sent.mix(), mixed, rtol=0, atol=PRODUCT)


def test_exchange_leaves_the_rows_alone() -> None:
    x = rows(6)
    before = x.clone()
    sent = connect(graphs.ring(6)).exchange(x)
    sent.laplacian()
    sent.mix()
    assert torch.equal(x, before)


def test_consensus_is_a_fixed_point_exactly() -> None:
    x = rows(1).repeat(7, 1)
    sent = connect(graphs.path(7)).exchange(x)
    assert not sent.laplacian().any()
    assert torch.equal(sent.mix(), x)


def test_float32_laplacian_near_consensus_keeps_its_zero_column_sums() -> None:
    # Dual variables add up L x over many steps: a common error of all rows, harmless
    # once, would move the average. Differences keep the column sums at rounding of
    # the small spread, the plain product at rounding of the large common value.
    torch.set_default_dtype(torch.float32)
    n, steps = 9, 200
    generator = torch.Generator().manual_seed(0)
    world = connect(graphs.star(n))
    matrix = graphs.star(n).laplacian
    assert isinstance(matrix, np.ndarray)
    plain = torch.from_numpy(matrix).float()
    drift_ours = drift_plain = torch.zeros(50, dtype=torch.float64)
    for _ in range(steps):
        common = 1000 + torch.rand(1, 50, generator=generator)
        x = common + 1e-3 * torch.randn(n, 50, generator=generator)
        assert x.dtype == torch.float32
        ours = world.exchange(x).laplacian()
        drift_ours = drift_ours + ours.double().sum(0)
        drift_plain = drift_plain + (plain @ x).double().sum(0)
    # Differences of nearby floats are exact, so ours is not only small but tiny.
    assert drift_ours.abs().max() < 1e-3 * drift_plain.abs().max()


# -- the world -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_world_knows_the_graph(kind: str) -> None:
    graph = small_graph(kind)
    world = connect(graph)
    assert world.n == graph.n
    assert world.agents == tuple(range(graph.n))
    assert world.is_root
    assert world.num_links == sum(graph.degrees)
    assert world.max_degree == max(graph.degrees)
    assert world.mixing_lambda == graph.mixing_lambda
    assert world.degree.tolist() == [[d] for d in graph.degrees.tolist()]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("mean", [2.0, -1.0]),
        ("sum", [6.0, -3.0]),
        ("min", [0.0, -7.0]),
        ("max", [5.0, 4.0]),
    ],
)
def test_reductions_drop_the_agents(op: Reduction, expected: list[float]) -> None:
    x = torch.tensor([[0.0, 4.0], [1.0, -7.0], [5.0, 0.0]])
    world = connect(graphs.path(3))
    assert world.reduce(x, op).tolist() == expected
    assert world.reduce(x[:, 0], op).item() == expected[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_everything_is_in_the_asked_dtype(dtype: torch.dtype) -> None:
    world = connect(graphs.star(5), dtype=dtype, device="cpu")
    sent = world.exchange(rows(5).to(dtype))
    assert world.degree.shape == (5, 1)
    assert {world.degree.dtype, sent.laplacian().dtype, sent.mix().dtype} == {dtype}
    assert world.degree.device == torch.device("cpu")


def test_default_dtype_is_torch_s() -> None:
    assert connect(graphs.ring(3)).degree.dtype == torch.float64
    torch.set_default_dtype(torch.float32)
    assert connect(graphs.ring(3)).degree.dtype == torch.float32


def test_device_is_passed_on() -> None:
    world = connect(graphs.ring(4), device="meta")
    assert world.degree.device == torch.device("meta")


def test_networkx_graphs_can_be_joined() -> None:
    g = nx.Graph([("b", "a"), ("a", "c")])  # agents b 0, a 1, c 2
    sent = connect(g).exchange(torch.tensor([[0.0], [1.0], [5.0]]))
    assert sent.laplacian().tolist() == [[-1.0], [-3.0], [4.0]]


def test_unknown_engine() -> None:
    with pytest.raises(InputError) as caught:
        connect(graphs.ring(3), "simulate")
    assert str(caught.value) == (
        "unknown engine `simulate`. Did you mean `simulated`? Known: "
        f"{', '.join(sorted(ENGINES))}."
    )


# -- counting ------------------------------------------------------------------------


def test_counting_network_counts_exchanges_and_changes_nothing() -> None:
    world = connect(graphs.ladder(8))
    network = CountingNetwork(world)
    assert network.traffic == Traffic(vectors=0, exchanges=0)
    x = rows(8)
    sent = network.exchange(x)
    assert torch.equal(sent.mix(), world.exchange(x).mix())
    assert torch.equal(sent.laplacian(), world.exchange(x).laplacian())
    assert network.traffic == Traffic(vectors=1, exchanges=1)
    network.exchange(rows(8, columns=20))
    assert network.traffic == Traffic(vectors=2, exchanges=2)


def test_counting_network_shows_the_facts_of_the_wrapped_one() -> None:
    world = connect(graphs.random_8())
    network = CountingNetwork(world)
    assert network.n == 8
    assert network.max_degree == 7
    assert network.mixing_lambda == world.mixing_lambda
    assert torch.equal(network.degree, world.degree)


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_products_of_sparse_graphs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "DENSE_UP_TO", 0)
    monkeypatch.setattr(graphs, "DENSE_FROM", 2.0)
    graph = small_graph(kind)
    assert not isinstance(graph.laplacian, np.ndarray)
    x = rows(graph.n)
    sent = connect(graph).exchange(x)
    laplacian, mixed = expected_products(graph, x)
    torch.testing.assert_close(sent.laplacian(), laplacian, rtol=0, atol=PRODUCT)
    torch.testing.assert_close(sent.mix(), mixed, rtol=0, atol=PRODUCT)


def test_large_graphs_connect_silently_and_sparsely() -> None:
    graph = graphs.ring(graphs.DENSE_UP_TO + 1)
    x = rows(graph.n)
    laplacian, mixed = expected_products(graph, x)
    sent = connect(graph).exchange(x)
    torch.testing.assert_close(sent.laplacian(), laplacian, rtol=0, atol=PRODUCT)
    torch.testing.assert_close(sent.mix(), mixed, rtol=0, atol=PRODUCT)


@pytest.mark.parametrize("dense", [True, False])
def test_several_vectors_travel_together(
    dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "DENSE_UP_TO", 100 if dense else 0)
    monkeypatch.setattr(graphs, "DENSE_FROM", 2.0)
    world = connect(graphs.star(5))
    a, b = rows(5), rows(5).exp()
    together = world.exchange(torch.stack([a, b], dim=1))
    for i, x in enumerate((a, b)):
        alone = world.exchange(x)
        torch.testing.assert_close(together.laplacian()[:, i], alone.laplacian())
        torch.testing.assert_close(together.mix()[:, i], alone.mix())
