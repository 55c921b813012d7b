"""Who is who: which method equals which, what is kept, and where the limits are."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from relatives import RELATIVES
from torch import Tensor
from zoo import GoldenQuadratics, GoldenWithOptions, Quadratics

import proxmesh as pm
from proxmesh.compressors import Identity, Pow2

EXACT = 1e-12
PRINTED = 5e-11
STAR = pm.graphs.star(4)


def rows(n: int, p: int = 3) -> Tensor:
    return torch.randn(n, p, generator=torch.Generator().manual_seed(1))


def iterates(
    algorithm: Any,
    problem: Any,
    graph: pm.Graph,
    x0: Tensor,
    steps: int = 40,
    *,
    constant: bool = False,
    **changed: Tensor,
) -> Iterator[Any]:
    """States 1, 2, ...; `constant`: every step is made as if it were the first."""
    world = pm.connect(graph)
    state = replace(algorithm.init(x0, problem, world), **changed)
    for _ in range(steps):
        state = algorithm.step(state, problem, world)
        yield state
        if constant:
            state = replace(state, k=torch.tensor(0))


def apart(ours: Iterator[Any], theirs: Iterator[Any]) -> float:
    pairs = zip(ours, theirs, strict=True)
    return max(float((a.x - b.x).abs().max()) for a, b in pairs)


class Alike(Quadratics):
    """All agents have one loss, and draw the same noise."""

    def sample(self, k: Any, size: int | None = None, stream: int = 0) -> Tensor:
        return super().sample(k, size, stream)[:1].expand(len(self.a), -1, -1)


# -- the family tree -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ring", "complete", "hypercube"])
def test_dpga_on_a_regular_graph_is_pg_extra(kind: str) -> None:
    """With W = I - (2 rho/eta) L, and the duals that PG-EXTRA starts with."""
    graph = pm.graphs.make(kind, 8)
    problem = Quadratics.random(8, 3, 0.1, seed=2, noise=0.2)
    degree, rho, x0 = graph.max_degree, 0.7, rows(8)
    eta = 2 * rho * (degree + 1)  # makes W the Metropolis matrix
    laplacian = torch.from_numpy(np.asarray(graph.laplacian, float))
    dpga = pm.DPGA(rho, eta - 2 * rho * degree)
    ours = iterates(dpga, problem, graph, x0, p=-rho * laplacian @ x0)
    theirs = iterates(pm.PGEXTRA(1 / eta), problem, graph, x0)
    assert apart(ours, theirs) < EXACT


@pytest.mark.parametrize("kind", ["ring", "complete"])
def test_hsm_admm_on_a_regular_graph_with_one_loss_is_sm_admm(kind: str) -> None:
    graph = pm.graphs.make(kind, 4)
    base = Quadratics.random(4, 3, 0.1, seed=2)
    problem = Alike(
        base.a[:1].expand(4, -1, -1), base.b[:1].expand(4, -1), 0.1, noise=0.2
    )
    x0, c_eta = rows(1).expand(4, -1).clone(), 3.0
    hsm = pm.HSMADMM(0.5, c_eta / (graph.max_degree + 1), 1.5)
    server = iterates(pm.SMADMM(0.5, c_eta, 1.5), problem, graph, x0)
    assert apart(iterates(hsm, problem, graph, x0), server) < EXACT


def test_linearized_admm_is_hsm_admm_without_momentum_and_growth() -> None:
    graph = pm.graphs.barabasi_albert(6)
    problem, x0 = Quadratics.random(6, 3, 0.1, seed=2), rows(6)
    hsm = pm.HSMADMM(0.4, 0.9, 1.0, 2.0)
    ours = iterates(pm.LinearizedADMM(0.4, 0.9, 2.0), problem, graph, x0)
    theirs = iterates(hsm, problem, graph, x0, constant=True)
    assert apart(ours, theirs) < EXACT


def test_dpga_is_direct_hsm_admm_without_momentum_and_growth() -> None:
    graph = pm.graphs.barabasi_albert(6)
    problem, x0 = Quadratics.random(6, 3, 0.1, seed=2), rows(6)
    direct = pm.HSMADMM(0.4, 0.8, 1.0, 2.2, split=False)
    ours = iterates(pm.DPGA(0.4, 3.0), problem, graph, x0)
    theirs = iterates(direct, problem, graph, x0, constant=True)
    assert apart(ours, theirs) < EXACT


def test_without_h_it_does_not_matter_where_the_prox_is() -> None:
    graph = pm.graphs.star(6)
    problem = Quadratics.random(6, 3, 0.0, seed=2, noise=0.2)
    split, direct = (pm.HSMADMM(0.4, 0.9, 1.0, 2.0, split=s) for s in (True, False))
    first = iterates(split, problem, graph, rows(6))
    assert apart(first, iterates(direct, problem, graph, rows(6))) < EXACT
    dlm = iterates(pm.DPGA(0.4, 3.0, prox=False), problem, graph, rows(6))
    assert apart(dlm, iterates(pm.DPGA(0.4, 3.0), problem, graph, rows(6))) < EXACT


def test_cdprox_sgt_without_compression_is_prox_gt_sa() -> None:
    graph = pm.graphs.star(6)
    problem = Quadratics.random(6, 3, 0.1, seed=2, noise=0.2)
    ours = pm.CDProxSGT(0.05, 1.0, 1.0, Identity())
    theirs = iterates(pm.ProxGT("sa", 0.05), problem, graph, rows(6))
    assert apart(iterates(ours, problem, graph, rows(6)), theirs) < EXACT


# -- golden values beside those of the common tests ------------------------------------


def test_golden_values_of_dlm_without_h() -> None:
    problem = GoldenQuadratics()  # without a subgradient: h is not there
    states = list(
        iterates(pm.DPGA(1.0, 2.0, prox=False), problem, STAR, problem.x0, 300)
    )
    third = [0.9560546875, 0.25390625, 1.2666015625, 1.21875]
    assert states[2].x[:, 0].tolist() == pytest.approx(third, abs=PRINTED)
    assert (states[-1].x - 1.2).abs().max() < 1e-14


def test_golden_values_of_depositum_with_local_iterations() -> None:
    problem = GoldenWithOptions()
    states = list(iterates(pm.DEPOSITUM(0.1, 0.5, 3), problem, STAR, problem.x0, 1000))
    third = [0.2391464844, -0.79478125, 0.8541113281, 0.658109375]
    assert states[2].x[:, 0].tolist() == pytest.approx(third, abs=PRINTED)
    assert (states[-1].x - 0.8).abs().max() < 1e-13


@pytest.mark.parametrize(
    ("algorithm", "limit"),
    [
        (
            pm.PenaltyADMM(4.0, 1.0, 2.0),
            [1.0300261097, 0.2700174064, 1.2489120975, 1.2036553525],
        ),
        (
            pm.PerturbedADMM(1.0, 0.1, 2.0, decay=False),
            [0.9037476723, 0.5447897269, 1.0035692117, 1.0032588454],
        ),
        (  # whatever rho is
            pm.PerturbedADMM(2.0, 0.1, 2.0, decay=False),
            [0.9037476723, 0.5447897269, 1.0035692117, 1.0032588454],
        ),
    ],
)
def test_limits_of_biased_methods(algorithm: Any, limit: list[float]) -> None:
    problem = GoldenWithOptions()
    *_, state = iterates(algorithm, problem, STAR, problem.x0, 800)
    assert state.x[:, 0].tolist() == pytest.approx(limit, abs=PRINTED)


def test_a_larger_penalty_leaves_a_smaller_bias() -> None:
    problem = GoldenWithOptions()
    for tau, bias, steps in ((1.0, 1.22, 500), (10.0, 0.255, 800)):
        method = pm.PenaltyADMM(tau, 1.0, 2.0)
        *_, state = iterates(method, problem, STAR, problem.x0, steps)
        assert (state.x - 0.8).abs().max() == pytest.approx(bias, abs=6e-3)


# -- what is kept ----------------------------------------------------------------------

SUMS_TO_ZERO = {
    "dlm": "p", "dpga": "p", "sdpga": "p", "linearized-admm": "p",
    "perturbed-admm": "p", "pg-extra": "c", "prox-ed": "c",
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS_TO_ZERO)
def test_duals_and_corrections_sum_to_zero(name: str) -> None:
    problem = Quadratics.random(6, 3, 0.1, seed=4, noise=0.2)
    for state in iterates(RELATIVES[name].noisy, problem, pm.graphs.star(6), rows(6)):
        assert getattr(state, SUMS_TO_ZERO[name]).sum(0).abs().max() < EXACT


@pytest.mark.parametrize("name", ["depositum", "cdprox-sgt"])
def test_trackers_sum_to_what_they_track(name: str) -> None:
    problem = Quadratics.random(6, 3, 0.1, seed=4, noise=0.2)
    for state in iterates(RELATIVES[name].noisy, problem, pm.graphs.star(6), rows(6)):
        assert (state.y.sum(0) - state.g.sum(0)).abs().max() < EXACT


@pytest.mark.parametrize("name", ["dpga", "prox-ed", "pg-extra"])
def test_the_model_itself_is_exactly_sparse(name: str) -> None:
    problem = Quadratics.random(6, 8, 0.5, seed=4, noise=0.2)
    *_, state = iterates(RELATIVES[name].noisy, problem, pm.graphs.star(6), rows(6, 8))
    assert 0 < (state.x == 0).sum() < state.x.numel()


# -- bad input -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: pm.DPGA(growth=-1.0),
            "DPGA: `growth` must be finite and not negative, got -1.0.",
        ),
        (
            lambda: pm.ProxED(0.0),
            "ProxED: `alpha` must be positive and finite, got 0.0.",
        ),
        (
            lambda: pm.LinearizedADMM(rho=float("nan")),
            "LinearizedADMM: `rho` must be positive and finite, got nan.",
        ),
        (
            lambda: pm.PerturbedADMM(rho=2.0, beta=0.5),
            "PerturbedADMM: `rho` times `beta` must be below 1, got 2 times 0.5. Lower "
            "`beta`.",
        ),
        (
            lambda: pm.DEPOSITUM(momentum=1.0),
            "DEPOSITUM: `momentum` must be below 1, got 1.0.",
        ),
        (
            lambda: pm.DEPOSITUM(period=0),
            "DEPOSITUM: `period` must be a whole number of at least 1, got 0.",
        ),
        (
            lambda: pm.CDProxSGT(gain_y=1.2),
            "CDProxSGT: `gain_y` must be at most 1, got 1.2.",
        ),
        (
            lambda: pm.SMADMM(c_a=0.0),
            "SMADMM: `c_a` must be positive and finite, got 0.0.",
        ),
    ],
)
def test_bad_constants(build: Any, message: str) -> None:
    with pytest.raises(pm.InputError) as caught:
        build()
    assert str(caught.value) == message


def test_dlm_refuses_a_constraint() -> None:
    problem = pm.LearningProblem(
        torch.nn.Linear(2, 1),
        torch.nn.functional.mse_loss,
        [(torch.randn(4, 2), torch.randn(4, 1)) for _ in range(3)],
        regularizer=pm.Box(-1.0, 1.0),
        batch_size=2,
    )
    world = pm.connect(pm.graphs.path(3))
    with pytest.raises(pm.InputError, match="subgradient"):
        pm.DPGA(prox=False).init(problem.x0(), problem, world)


# -- messages that carry the compressed difference to what neighbors know -------------


class OnlyDifferences:
    """A network on which an exchange sends pow2 of what is new, and no more."""

    def __init__(self, graph: pm.Graph) -> None:
        self.world: Any = pm.connect(graph)
        self.known: Any = 0.0  # to the neighbors

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    def exchange(self, x: Tensor) -> Any:
        self.known = self.known + Pow2().compress(x - self.known, key=0)
        return self.world.exchange(self.known)


@pytest.mark.parametrize(
    ("algorithm", "third"),
    [
        (
            pm.DPGA(rho=1.0, smoothness=2.0),
            [0.501953125, 0.0625, 1.1708984375, 1.248046875],
        ),
        (
            pm.HSMADMM(c_rho=1.0, c_eta=2.0, c_a=1.0),
            [0.5348694858, 0.3341780197, 1.0689506015, 0.9304080296],
        ),
    ],
    ids=["dpga", "hsm-admm"],
)
def test_golden_values_with_compressed_differences(
    algorithm: Any, third: list[float]
) -> None:
    problem, network = GoldenWithOptions(), OnlyDifferences(STAR)
    state = algorithm.init(problem.x0, problem, network)
    for k in range(1, 3001):
        state = algorithm.step(state, problem, network)
        if k == 3:
            assert state.x[:, 0].tolist() == pytest.approx(third, abs=PRINTED)
    assert (state.x - 0.8).abs().max() < 1e-6
