"""What the paper's analysis takes for granted, to rounding: KKT and Lagrangian."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from conftest import GRAPH_KINDS, small_graph
from theory_page import incidence
from torch import Tensor
from zoo import Quadratics

import proxmesh as pm

EXACT = 1e-12
CONSTANTS = [
    pm.HSMADMM(0.5, 2.0, 1.0),
    pm.HSMADMM(0.5, 1.0, 1.0, 3.0),
    pm.HSMADMM(0.5, 2.0, 1.0, heterogeneous=False, k0=5),
]


def states(graph: pm.Graph, algorithm: pm.HSMADMM, steps: int = 20) -> Any:
    problem = Quadratics.random(graph.n, 4, 0.2, seed=3, noise=0.3)
    world = pm.connect(graph)
    x0 = torch.randn(graph.n, 4, generator=torch.Generator().manual_seed(1))
    made = [algorithm.init(x0, problem, world)]
    for _ in range(steps):
        made.append(algorithm.step(made[-1], problem, world))
    return made, problem, world


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_gram_and_smallest_singular_value(kind: str) -> None:
    """A'A = L + I, sigma_min(A) = 1."""
    graph = small_graph(kind)
    a = incidence(graph)
    laplacian = np.asarray(graph.laplacian)
    assert np.abs(a.T @ a - laplacian - np.eye(graph.n)).max() < EXACT
    assert np.linalg.svd(a, compute_uv=False)[-1] == pytest.approx(1, abs=EXACT)


@pytest.mark.parametrize("kind", GRAPH_KINDS)
@pytest.mark.parametrize("algorithm", CONSTANTS)
def test_multipliers_follow_the_steps(kind: str, algorithm: pm.HSMADMM) -> None:
    """A' lambda^(k+1) = v^k + S^k dx^(k+1), with S = Q - rho A'A."""
    graph = small_graph(kind)
    made, _, world = states(graph, algorithm)
    for old, new in pairwise(made):
        k = int(new.k)
        moved = new.x - old.x
        coupled = world.exchange(moved).laplacian() + moved
        pulled = algorithm.inverse_step(k, world) * moved - algorithm.rho(k) * coupled
        gap = new.alpha_sum + new.beta - old.v - pulled
        assert float(gap.abs().max()) < EXACT * (1 + float(old.v.abs().max()))


@pytest.mark.parametrize("kind", GRAPH_KINDS)
@pytest.mark.parametrize("algorithm", CONSTANTS)
def test_the_form_without_y_makes_the_same_iterates(
    kind: str, algorithm: pm.HSMADMM
) -> None:
    """With Gam = clip(rho x - b, -l1, l1) in place of the prox."""
    graph = small_graph(kind)
    made, problem, world = states(graph, algorithm)
    x, alpha, beta = made[0].x, made[0].alpha_sum, made[0].beta
    for old, new in pairwise(made):
        k = int(new.k)
        rho, eta = algorithm.rho(k), algorithm.inverse_step(k, world)
        gamma = (rho * x - beta).clamp(-problem.l1, problem.l1)
        lx: Tensor = world.exchange(x).laplacian()
        x_new = x - (old.v + gamma - alpha + rho * lx) / eta
        beta = -gamma - rho * (x_new - x)
        alpha = alpha - rho * world.exchange(x_new).laplacian()
        x = x_new
        for ours, theirs in ((x, new.x), (beta, new.beta), (alpha, new.alpha_sum)):
            assert float((ours - theirs).abs().max()) < EXACT


@pytest.mark.parametrize("kind", ["ring", "star", "complete"])
def test_residual_and_multipliers_edge_by_edge(kind: str) -> None:
    """|r|^2, <lambda, r> and A'r from one Laplacian product, against A itself."""
    graph = small_graph(kind)
    made, _, _ = states(graph, CONSTANTS[0])
    a = incidence(graph)
    edges = len(graph.edges)
    alpha, beta = np.zeros((edges, 4)), np.zeros((graph.n, 4))
    for new in made[1:]:
        rho = float(CONSTANTS[0].rho(int(new.k)))
        x, y = new.x.numpy(), new.y.numpy()
        r = a @ x - np.vstack([np.zeros((edges, 4)), y])
        alpha, beta = alpha - rho * r[:edges], beta - rho * r[edges:]
        whole = (new.x * new.lx).sum() + (new.x - new.y).square().sum()
        assert float(whole) == pytest.approx((r**2).sum(), abs=1e-10)
        price = (new.alpha_sum * new.x).sum() + (new.beta * (new.x - new.y)).sum()
        both = np.vstack([alpha, beta])
        assert float(price) == pytest.approx((both * r).sum(), abs=1e-10)
        seen = new.lx + new.x - new.y
        assert np.abs(a.T @ r - seen.numpy()).max() < EXACT * 10
