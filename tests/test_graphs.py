"""Every topology against networkx, an explicit loop or a closed form."""

import math
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from conftest import GRAPH_KINDS, small_graph
from numpy.typing import NDArray

from proxmesh import graphs
from proxmesh.errors import InputError

EXACT = 1e-14  # sums of a few weights: rounding of single operations
SPECTRAL = 1e-10  # eigenvalues: dense solvers reach 1e-15, iterative ones 1e-12
FOUR_DIGITS = 5e-5  # published numbers are rounded to four digits

RANDOM_KINDS = ["barabasi-albert", "erdos-renyi", "random-regular", "watts-strogatz"]


def dense(matrix: graphs.Matrix) -> NDArray[np.float64]:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def message_of(build: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        build()
    return str(caught.value)


# -- matrices ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_laplacian_is_networkx_laplacian_with_zero_row_sums(kind: str) -> None:
    graph = small_graph(kind)
    laplacian = dense(graph.laplacian)
    expected = nx.laplacian_matrix(graph.to_networkx()).toarray()
    assert np.array_equal(laplacian, expected)
    assert not laplacian.sum(axis=1).any()
    assert graph.degrees.tolist() == np.diag(expected).tolist()
    assert graph.max_degree == max(np.diag(expected))


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_mixing_holds_metropolis_weights(kind: str) -> None:
    graph = small_graph(kind)
    peers = graph.to_networkx()
    expected = np.zeros((graph.n, graph.n))
    for i in range(graph.n):
        for j in peers.neighbors(i):
            expected[i, j] = 1 / (1 + max(peers.degree(i), peers.degree(j)))
        expected[i, i] = 1 - sum(expected[i])
    assert dense(graph.mixing) == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_mixing_is_symmetric_and_doubly_stochastic(kind: str) -> None:
    mixing = dense(small_graph(kind).mixing)
    assert np.array_equal(mixing, mixing.T)
    assert mixing.sum(axis=0) == pytest.approx(1, abs=EXACT)
    assert mixing.sum(axis=1) == pytest.approx(1, abs=EXACT)
    assert mixing.min() >= 0


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_sparse_and_dense_matrices_are_the_same(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = small_graph(kind)
    assert isinstance(expected.laplacian, np.ndarray)
    assert isinstance(expected.mixing, np.ndarray)
    monkeypatch.setattr(graphs, "DENSE_UP_TO", 0)
    monkeypatch.setattr(graphs, "DENSE_FROM", 2.0)
    found = small_graph(kind)
    assert not isinstance(found.laplacian, np.ndarray)
    assert not isinstance(found.mixing, np.ndarray)
    assert np.array_equal(dense(found.laplacian), expected.laplacian)
    assert np.array_equal(dense(found.mixing), expected.mixing)


# -- spectra -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_spectra_against_networkx_and_the_definition(kind: str) -> None:
    graph = small_graph(kind)
    spectrum = nx.laplacian_spectrum(graph.to_networkx())
    assert graph.algebraic_connectivity == pytest.approx(spectrum[1], abs=SPECTRAL)
    moduli = sorted(abs(np.linalg.eigvals(dense(graph.mixing))))
    assert graph.mixing_lambda == pytest.approx(moduli[-2], abs=SPECTRAL)


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_sparse_and_dense_spectra_agree(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = small_graph(kind)
    monkeypatch.setattr(graphs, "DENSE_UP_TO", 0)
    monkeypatch.setattr(graphs, "DENSE_FROM", 2.0)
    found = small_graph(kind)
    assert found.algebraic_connectivity == pytest.approx(
        expected.algebraic_connectivity, abs=SPECTRAL
    )
    # The shift of the sparse solver is 1e-3 away from 1: it costs a few digits.
    assert found.mixing_lambda == pytest.approx(expected.mixing_lambda, abs=SPECTRAL)


@pytest.mark.parametrize("n", [3, 8, 25, graphs.DENSE_UP_TO, graphs.DENSE_UP_TO + 1])
def test_ring_spectra_in_closed_form(n: int) -> None:
    ring = graphs.ring(n)
    angle = 2 * math.pi / n
    assert ring.algebraic_connectivity == pytest.approx(
        2 - 2 * math.cos(angle), abs=SPECTRAL
    )
    assert ring.mixing_lambda == pytest.approx(
        max((1 + 2 * math.cos(j * angle)) / 3 for j in range(1, n)), abs=SPECTRAL
    )


def test_the_largest_modulus_may_be_a_negative_eigenvalue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The complete bipartite graph K33: W has the eigenvalues 1, 1/4 (4x) and -1/2.
    edges = [(i, j) for i in range(3) for j in range(3, 6)]
    assert graphs.from_edges(edges).mixing_lambda == pytest.approx(0.5, abs=SPECTRAL)
    monkeypatch.setattr(graphs, "DENSE_UP_TO", 0)
    monkeypatch.setattr(graphs, "DENSE_FROM", 2.0)
    assert graphs.from_edges(edges).mixing_lambda == pytest.approx(0.5, abs=SPECTRAL)


def test_second_eigenvalues_of_the_field() -> None:
    assert graphs.ring(8).mixing_lambda == pytest.approx(0.8047, abs=FOUR_DIGITS)
    assert graphs.complete(8).mixing_lambda == pytest.approx(0, abs=SPECTRAL)
    # The papers' own weights for the other two: I - L/8 and I - L/lambda_max(L).
    random_8 = np.linalg.eigvalsh(dense(graphs.random_8().laplacian))
    assert 1 - random_8[1] / 8 == pytest.approx(0.375, abs=FOUR_DIGITS)
    ladder = np.linalg.eigvalsh(dense(graphs.ladder(8).laplacian))
    assert ladder[-1] == pytest.approx(4 + math.sqrt(2), abs=SPECTRAL)
    assert 1 - ladder[1] / ladder[-1] == pytest.approx(0.8918, abs=FOUR_DIGITS)


# -- who talks to whom ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "edges"),
    [
        (graphs.path(4), [(0, 1), (1, 2), (2, 3)]),
        (graphs.ring(2), [(0, 1)]),
        (graphs.ring(4), [(0, 1), (0, 3), (1, 2), (2, 3)]),
        (graphs.star(4), [(0, 1), (0, 2), (0, 3)]),
        (graphs.complete(3), [(0, 1), (0, 2), (1, 2)]),
        (graphs.hypercube(4), [(0, 1), (0, 2), (1, 3), (2, 3)]),
        (graphs.grid(4), [(0, 1), (0, 2), (1, 3), (2, 3)]),
        (graphs.grid(3, rows=1), [(0, 1), (1, 2)]),
        (graphs.torus(4, rows=1), [(0, 1), (0, 3), (1, 2), (2, 3)]),
    ],
    ids=str,
)
def test_small_topologies_edge_by_edge(
    graph: graphs.Graph, edges: list[tuple[int, int]]
) -> None:
    assert list(graph.edges) == edges


def test_ladder_has_two_rails_and_rungs() -> None:
    rails = {(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7)}
    rungs = {(0, 4), (1, 5), (2, 6), (3, 7)}
    assert set(graphs.ladder(8).edges) == rails | rungs


def test_random_8_is_the_field_s_graph() -> None:
    graph = graphs.random_8()
    assert graph.degrees.tolist() == [7, 6, 5, 6, 6, 6, 6, 6]
    missing = set(graphs.complete(8).edges) - set(graph.edges)
    assert missing == {(1, 6), (2, 3), (2, 4), (5, 7)}


@pytest.mark.parametrize("n", [9, 12, 16])
def test_torus_has_four_neighbors_everywhere(n: int) -> None:
    assert set(graphs.torus(n).degrees.tolist()) == {4}


def test_grid_is_as_square_as_possible() -> None:
    assert str(graphs.grid(12)) == "grid(n=12, rows=3)"
    assert len(graphs.grid(12).edges) == 3 * 3 + 2 * 4


def test_order_and_repetition_of_edges_do_not_matter() -> None:
    assert graphs.from_edges([(2, 1), (1, 0), (0, 1)]).edges == ((0, 1), (1, 2))


def test_options_shape_the_random_graphs() -> None:
    assert set(graphs.random_regular(10, degree=5).degrees.tolist()) == {5}
    assert len(graphs.barabasi_albert(20, links=3).edges) == 3 * (20 - 3)
    assert set(graphs.watts_strogatz(9, neighbors=4, prob=0).degrees.tolist()) == {4}
    assert len(graphs.watts_strogatz(9, neighbors=4, prob=0.7).edges) == 18
    assert len(graphs.erdos_renyi(6, prob=1.0).edges) == 15


@pytest.mark.parametrize("kind", RANDOM_KINDS)
def test_the_seed_makes_the_graph(kind: str) -> None:
    def draw(seed: int) -> tuple[tuple[int, int], ...]:
        return graphs.make(kind, 20, seed=seed).edges

    assert draw(4) == draw(4)
    assert draw(4) != draw(5)


def test_default_erdos_renyi_is_always_connected() -> None:
    for seed in range(30):
        assert nx.is_connected(graphs.erdos_renyi(20, seed=seed).to_networkx())


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_make_builds_what_the_constructor_builds(kind: str) -> None:
    graph = small_graph(kind)
    assert graph == graphs.CONSTRUCTORS[kind](graph.n)
    assert graph.name == kind


# -- from elsewhere ------------------------------------------------------------------


def test_from_networkx_numbers_nodes_in_their_order() -> None:
    g = nx.Graph([("rome", "oslo"), ("oslo", "bern"), ("bern", "rome")])
    g.add_edge("bern", "kiev")
    graph = graphs.from_networkx(g)  # rome 0, oslo 1, bern 2, kiev 3
    assert graph.edges == ((0, 1), (0, 2), (1, 2), (2, 3))
    assert str(graph) == "networkx(n=4)"


def test_from_networkx_and_back() -> None:
    g: nx.Graph[int] = nx.petersen_graph()
    graph = graphs.from_networkx(g)
    assert graph.name == g.name
    assert set(graph.to_networkx().edges) == {(min(e), max(e)) for e in g.edges}


def test_edge_file(tmp_path: Path) -> None:
    file = tmp_path / "net.edges"
    file.write_text("# two triangles\n0 1\n1,2  # comma is fine\n\n2 0\n2\t3\n")
    expected = ((0, 1), (0, 2), (1, 2), (2, 3))
    assert graphs.from_file(file).edges == expected
    assert graphs.make(str(file), 4).edges == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0 1\n1 two\n", "line 2: expected two agents `i j`, got `1 two`."),
        ("0 1\n\n1 2 3\n", "line 3: expected two agents `i j`, got `1 2 3`."),
        ("0 -1\n", "line 1: expected two agents `i j`, got `0 -1`."),
        ("0\n", "line 1: expected two agents `i j`, got `0`."),
    ],
)
def test_bad_line_of_an_edge_file(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "net.edges"
    file.write_text(text)
    found = message_of(lambda: graphs.from_file(file))
    assert found == f"graph file `{file}`, {complaint}"


def test_unusable_edge_files(tmp_path: Path) -> None:
    missing, empty, binary = (tmp_path / name for name in ("a.txt", "b.txt", "c.txt"))
    empty.write_text("# nothing\n")
    binary.write_bytes(b"\xff\xfe\x00")
    found = message_of(lambda: graphs.make(str(missing), 3))
    assert found.startswith(f"graph file `{missing}` cannot be read: ")
    assert "No such file" in found
    assert message_of(lambda: graphs.from_file(empty)) == (
        f"graph file `{empty}` holds no edge; write one `i j` per line."
    )
    found = message_of(lambda: graphs.from_file(binary))
    assert found.startswith(f"graph file `{binary}` cannot be read: ")


def test_edge_file_of_another_size(tmp_path: Path) -> None:
    file = tmp_path / "net.txt"
    file.write_text("0 1\n1 2\n")
    assert message_of(lambda: graphs.make(str(file), 8)) == (
        f"graph file `{file}` has 3 agents, but 8 were asked for. Use `--agents 3`."
    )


# -- what is refused -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: graphs.erdos_renyi(8, prob=0.0, seed=3),
            "graph `erdos-renyi(n=8, prob=0.0, seed=3)` has 8 connected components; "
            "consensus needs 1. Raise `prob` or change `seed`.",
        ),
        (
            lambda: graphs.from_edges([(0, 1), (2, 3)]),
            "graph `edges(n=4)` has 2 connected components; consensus needs 1. "
            "Add edges between them.",
        ),
        (
            lambda: graphs.from_edges([(0, 1)], n=4),
            "graph `edges(n=4)` has 3 connected components; consensus needs 1. "
            "Add edges between them.",
        ),
        (
            lambda: graphs.from_edges([(0, 1), (1, 1)]),
            "graph `edges(n=2)` has a self loop at agent 1. Remove the edge (1, 1): "
            "an agent needs no link to itself.",
        ),
        (
            lambda: graphs.from_edges([(0, 5)], n=3),
            "graph `edges(n=3)` has the edge (0, 5), but its agents are 0 to 2.",
        ),
        (
            lambda: graphs.from_edges([]),
            "graph `edges` is empty; give pairs (i, j) of agents.",
        ),
        (
            lambda: graphs.from_networkx(nx.DiGraph([(0, 1)])),
            "graph `networkx` is directed; every link must work both ways. "
            "Use `g.to_undirected()`.",
        ),
        (
            lambda: graphs.from_networkx(nx.Graph([(0, 0)])),
            "graph `networkx(n=1)` has n=1; a network needs at least 2 agents.",
        ),
        (
            lambda: graphs.ladder(7),
            "graph `ladder` needs an even n of at least 4, got 7.",
        ),
        (
            lambda: graphs.ladder(2),
            "graph `ladder` needs an even n of at least 4, got 2.",
        ),
        (
            lambda: graphs.hypercube(7),
            "graph `hypercube` needs n = 2, 4, 8, 16, ..., got 7.",
        ),
        (
            lambda: graphs.grid(7),
            "graph `grid`: 7 agents do not fill a rectangle of 2 rows or more. "
            "Choose another n, or the graph `path` or `ring`.",
        ),
        (
            lambda: graphs.torus(6, rows=4),
            "graph `torus`: `rows` must divide n, got rows=4, n=6.",
        ),
        (
            lambda: graphs.grid(6, rows=0),
            "graph `grid`: `rows` must divide n, got rows=0, n=6.",
        ),
        (
            lambda: graphs.random_8(9),
            "graph `random-8` has 8 agents, got n=9.",
        ),
        (
            lambda: graphs.erdos_renyi(8, prob=1.5),
            "graph `erdos-renyi`: `prob` must be in 0 .. 1, got 1.5.",
        ),
        (
            lambda: graphs.watts_strogatz(8, prob=math.nan),
            "graph `watts-strogatz`: `prob` must be in 0 .. 1, got nan.",
        ),
        (
            lambda: graphs.watts_strogatz(8, neighbors=1),
            "graph `watts-strogatz`: `neighbors` must be at least 2, got 1.",
        ),
        (
            lambda: graphs.barabasi_albert(5, links=5),
            "graph `barabasi-albert`: `links` must be in 1 .. 4, got 5.",
        ),
        (
            lambda: graphs.random_regular(5, degree=3),
            "graph `random-regular`: `degree` must be in 1 .. 4 and n * degree even, "
            "got n=5, degree=3.",
        ),
        (
            lambda: graphs.make("rign", 5),
            "unknown graph `rign`. Did you mean `ring`? Known: "
            + ", ".join(GRAPH_KINDS)
            + ".",
        ),
        (
            lambda: graphs.make("erdos-renyi", 5, probe=0.5),
            "unknown option `probe` of graph `erdos-renyi`. Did you mean `prob`? "
            "Known: prob, seed.",
        ),
    ],
)
def test_refusals_in_one_complete_line(
    build: Callable[[], object], message: str
) -> None:
    assert message_of(build) == message


@pytest.mark.parametrize("kind", sorted(set(GRAPH_KINDS) - {"random-8"}))
@pytest.mark.parametrize("n", [1, 0, -3])
def test_one_agent_is_no_network(kind: str, n: int) -> None:
    found = message_of(lambda: graphs.make(kind, n))
    assert found == f"graph `{kind}` needs at least 2 agents, got n={n}."


def test_an_edge_file_from_1_is_pointed_out(tmp_path: Path) -> None:
    file = tmp_path / "links.txt"
    file.write_text("1 2\n2 3\n")
    with pytest.raises(
        InputError, match="numbers its agents from 1; agents count from 0"
    ):
        graphs.from_file(file)
