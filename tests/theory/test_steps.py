"""Bounds on steps, predicted and found by running."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from theory_page import random_graphs
from torch import Tensor
from zoo import classifier

import proxmesh as pm
from proxmesh.cli.app import main
from proxmesh.theory import StepCertificate, certify
from proxmesh.types import has_step_bound


class Curved:
    """f_i = c x^2 / 2 for all agents, and h = 0."""

    def __init__(self, curvature: float) -> None:
        self.curvature = curvature

    def sample(self, k: Any, size: int | None = None, stream: int = 0) -> None:
        del k, size, stream

    def grad(self, x: Tensor, batch: None) -> Tensor:
        del batch
        return self.curvature * x

    def prox(self, z: Tensor, step: Any) -> Tensor:
        del step
        return z


def grows(algorithm: Any, graph: pm.Graph, curvature: float, steps: int = 120) -> bool:
    """Whether the models move away from the solution 0 in the second half of a run."""
    problem, world = Curved(curvature), pm.connect(graph, dtype=torch.float64)
    x0 = torch.from_numpy(np.random.default_rng(0).standard_normal((graph.n, 1)))
    state = algorithm.init(x0, problem, world)
    half = 0.0
    for k in range(1, steps + 1):
        state = algorithm.step(state, problem, world)
        if k == steps // 2:
            half = float(state.x.norm())
    return float(state.x.norm()) > half


METHODS: dict[str, tuple[Any, float]] = {  # and L_f for each unit of the largest degree
    "dpga": (pm.DPGA(1.0, 1.0), 4.0),
    "prox-ed": (pm.ProxED(1.0), 1.0),
    "linearized-admm": (pm.LinearizedADMM(1.0, 1.0), 3.0),
    "pg-extra": (pm.PGEXTRA(1.0), 1.0),
    "penalty-admm": (pm.PenaltyADMM(1.0, 1.0, 1.0), 4.0),
}


@pytest.mark.parametrize("name", METHODS)
def test_divergence_is_predicted_on_random_graphs_within_two_percent(name: str) -> None:
    """H = L_f I and h = 0, on both sides of the limit."""
    algorithm, per_degree = METHODS[name]
    for graph in random_graphs(30):
        curvature = per_degree * graph.max_degree
        found = certify(algorithm, graph, curvature)
        assert found.limit_smooth > 0
        short, long = (
            dataclasses.replace(algorithm, **{found.parameter: f * found.limit_smooth})
            for f in ((0.98, 1.02) if found.parameter == "alpha" else (1.02, 0.98))
        )
        assert grows(long, graph, curvature), graph
        assert not grows(short, graph, curvature), graph
        assert certify(long, graph, curvature).verdict == "unstable"
        assert certify(short, graph, curvature).verdict != "unstable"


def test_no_run_of_perturbed_admm_above_its_bound_diverges() -> None:
    for graph in random_graphs(30):
        curvature = 4.0 * graph.max_degree
        found = certify(pm.PerturbedADMM(1.0, 0.1, 1.0), graph, curvature)
        for decay in (True, False):
            above = pm.PerturbedADMM(1.0, 0.1, 1.001 * found.limit, decay)
            assert certify(above, graph, curvature).verdict == "stable"
            assert not grows(above, graph, curvature, 60), graph
        below = pm.PerturbedADMM(1.0, 0.1, 0.9 * found.limit_smooth)
        assert certify(below, graph, curvature).verdict == "not certified"


def test_limits_in_closed_form() -> None:
    ring = pm.graphs.ring(8)
    assert certify(pm.ProxED(0.5), ring, 3.0).limit == pytest.approx(2 / 3)
    lowest = np.linalg.eigvalsh(np.asarray(ring.mixing))[0]
    found = certify(pm.PGEXTRA(0.5), ring, 3.0)
    assert found.limit == pytest.approx((5 + 3 * lowest) / 12)
    # eta_i > L_f/2 + 1.5 rho d_i is sharp on a bipartite graph.
    assert certify(pm.DPGA(0.4, 1.0), ring, 3.0).limit == pytest.approx(1.5 - 0.4)
    one_model: Any = pm.SMADMM(1.0, 1.0)
    server = certify(one_model, ring, 3.0)
    assert (server.limit, server.limit_smooth) == pytest.approx((2.25, 1.5))
    both = certify(pm.LinearizedADMM(1.0, 1.0), ring, 3.0)
    assert both.limit - both.limit_smooth == pytest.approx(0.75)
    assert certify(pm.ProxED(9.0), ring).limit == np.inf  # losses that do not curve


def test_a_change_that_is_recommended_is_enough() -> None:
    graph = pm.graphs.barabasi_albert(12)
    methods: list[Any] = [
        pm.DPGA(2.0, 1.0), pm.ProxED(4.0), pm.LinearizedADMM(2.0, 3.2), pm.PGEXTRA(4.0),
        pm.PenaltyADMM(2.0, 1.0, 0.1), pm.PerturbedADMM(0.5, 0.1, 0.1),
        pm.SMADMM(1.0, 1.0),
    ]  # fmt: skip
    for algorithm in methods:
        found: StepCertificate = certify(algorithm, graph, np.linspace(9, 60, 12))
        assert found.verdict == "not certified"  # losses that may curve elsewhere
        assert found.margin < 0
        enough = float(found.remedy.split(" to ")[1].rstrip("."))
        assert enough == pytest.approx(found.limit, rel=2e-3)
        better: Any = dataclasses.replace(algorithm, **{found.parameter: enough})
        assert certify(better, graph, np.linspace(9, 60, 12)).verdict == "stable"


def test_steps_that_shrink_or_grow_are_looked_at_from_both_ends() -> None:
    ring = pm.graphs.ring(8)
    falling = certify(pm.ProxED(pm.schedules.power(1.0, -0.5)), ring, 3.0, steps=100)
    assert falling.verdict == "not certified"
    assert "in some iterations, though not in all" in falling.reason
    rising = certify(pm.ProxED(pm.schedules.power(0.1, 0.5)), ring, 3.0, steps=100)
    assert rising.value == pytest.approx(1.0)
    assert rising.verdict == "not certified"


def test_losses_that_curve_down() -> None:
    ring = pm.graphs.ring(8)
    h = np.array([-1.0, *[2.0] * 7])
    upper = np.maximum(h, 0)
    held = certify(pm.DPGA(1.0, 2.0), ring, upper, curvature=h)
    assert held.verdict == "stable"
    loose = certify(pm.DPGA(0.1, 2.0), ring, upper, curvature=h)
    assert loose.verdict == "not certified"
    assert "more than neighbors hold" in loose.reason
    assert loose.margin > 0
    mixing = certify(pm.ProxED(0.1), ring, upper, curvature=h)
    assert mixing.verdict == "not certified"


def test_who_has_a_bound() -> None:
    kinds: list[Any] = [
        pm.DPGA, pm.ProxED, pm.LinearizedADMM, pm.PGEXTRA, pm.PenaltyADMM,
        pm.PerturbedADMM, pm.SMADMM,
    ]  # fmt: skip
    for kind in kinds:
        assert has_step_bound(kind())
    assert not has_step_bound(pm.DSGT())


def test_a_prepared_run_is_certified() -> None:
    graph = pm.graphs.star(4)
    run = pm.prepare(classifier(), pm.ProxED(50.0), graph, 5, compile=False)
    found = run.certificate()
    assert isinstance(found, StepCertificate)
    assert found.margin < 0
    assert "too long a step for smoothness" in found.reason
    assert str(run.settled).startswith("largest curvature")


def call(*words: str) -> Any:
    with pytest.raises(SystemExit) as ended:
        main(["check", "--smoothness", "3", *words])
    return ended.value.code


def test_check_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    method = ("--algorithm", "prox-ed", "--set")
    assert call(*method, "algorithm.alpha=0.7") == 4
    out = capsys.readouterr().out
    assert "limit, worst prox           0.6667" in out
    assert "Lower `alpha` to 0.6666." in " ".join(out.split())
    assert call(*method, "algorithm.alpha=0.6", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "stable"
    assert call("--algorithm", "dsgt") == 2


def test_a_step_beyond_the_bound_is_told_before_a_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = "run --algorithm prox-ed --set algorithm.alpha=9 --dataset breast-cancer"
    small = "--agents 3 --steps 1 --compile off --batch 8"
    with pytest.raises(SystemExit):
        main([*words.split(), *small.split(), "--out", str(tmp_path / "run")])
    said = capsys.readouterr()
    both = " ".join((said.out + said.err).split())
    assert "long steps: alpha 9, the limit is" in both
    assert "no step this long is known to be stable. Lower `alpha` to" in both
