"""Graphs are drawn in a shape that suits them."""

import math
from pathlib import Path

import numpy as np
import pytest
from conftest import GRAPH_KINDS, small_graph
from matplotlib.figure import Figure

import proxmesh as pm
from proxmesh.report import figures
from proxmesh.report.layout import placed, wrapping_edges


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_every_topology_fits_the_square_and_no_two_agents_meet(kind: str) -> None:
    graph = small_graph(kind)
    places = np.array([placed(graph)[agent] for agent in range(graph.n)])
    assert np.abs(places).max() == pytest.approx(1, abs=0.2)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert (apart + 9 * np.eye(graph.n)).min() > 0.1


@pytest.mark.parametrize(("agents", "least"), [(8, 0.5), (16, 0.35), (64, 0.08)])
def test_the_corners_of_a_hypercube_do_not_hide_one_another(
    agents: int, least: float
) -> None:
    places = placed(pm.graphs.hypercube(agents))
    apart = [math.dist(places[i], places[j]) for i in places for j in range(i)]
    assert min(apart) > least


def test_a_star_is_a_star_by_whatever_name() -> None:
    own = pm.graphs.from_edges([(3, 0), (3, 1), (3, 2), (3, 4)])
    places = placed(own)
    assert places[3] == (0.0, 0.0)
    assert all(math.hypot(*places[i]) == pytest.approx(1) for i in (0, 1, 2, 4))


def test_only_edges_between_borders_of_a_torus_are_arcs() -> None:
    torus, grid = pm.graphs.torus(12, rows=3), pm.graphs.grid(12, rows=3)
    inner = set(torus.edges) - set(wrapping_edges(torus, placed(torus)))
    assert inner == set(grid.edges)
    assert wrapping_edges(grid, placed(grid)) == []


def test_large_graphs_are_placed_at_once() -> None:
    assert len(placed(pm.graphs.barabasi_albert(2000))) == 2000


def test_the_picture_of_a_torus_holds_its_arcs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []

    def kept(figure: Figure, file: Path, **_: object) -> Path:
        drawn.append(figure)
        return file

    monkeypatch.setattr(figures, "save_picture", kept)
    figures.draw_graph(pm.graphs.torus(16), tmp_path / "torus.png")
    (axis,) = drawn[0].axes
    drawn[0].draw_without_rendering()
    for arc in axis.patches:
        reach = arc.get_path().get_extents()
        assert np.abs(reach.get_points()).max() < axis.get_xlim()[1]
