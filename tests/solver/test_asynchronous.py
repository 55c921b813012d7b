"""Agents that wait for nobody, in simulated time."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from asynchronous_reference import reference
from zoo import Quadratics

import proxmesh as pm
from proxmesh.algorithms.asynchronous import asynchronous_form, made_asynchronous
from proxmesh.solver.asynchronous.simulated import Simulation, Travel, periods_of

HSM = pm.HSMADMM(c_rho=0.3, c_eta=0.6, c_a=1.0, smoothness=6.0)
GIVEN = dataclasses.replace(HSM, dual_gain=0.1)


@dataclasses.dataclass
class Divisible(Quadratics):
    """Quadratics that can be dealt out to agents."""

    def local(self, agents: Sequence[int]) -> "Divisible":
        chosen = list(agents)
        return dataclasses.replace(self, a=self.a[chosen], b=self.b[chosen])

    def x0(self, init: str) -> torch.Tensor:
        del init
        return torch.zeros(len(self.a), self.a.shape[2])


def lasso(n: int) -> Divisible:
    made = Quadratics.random(n, 6, 0.1, seed=3)
    return Divisible(made.a, made.b, made.l1)


def simulated(problem: Any, graph: Any, links: list[Any], end: int) -> Simulation:
    algorithm = made_asynchronous(GIVEN)
    problems = [problem.local((i,)) for i in range(graph.n)]
    rows = problem.x0("same")
    states = [
        asynchronous_form(algorithm).start(rows[i : i + 1], problems[i])
        for i in range(graph.n)
    ]
    return Simulation(
        lambda: asynchronous_form(algorithm),
        states,
        problems,
        graph,
        periods=periods_of(links, graph.n),
        travel=Travel.over(links),
        most_behind=20,
        marks=[end],
        end=end,
    )


CASES: dict[str, list[Any]] = {
    "alike": [pm.links.Speeds([1])],
    "speeds": [pm.links.Speeds([1, 4])],
    "delays": [pm.links.Speeds([1]), pm.links.Delay(10, random=True)],
    "frozen for long": [pm.links.Speeds([1, 1, 1, 50])],
}


@pytest.mark.parametrize("links", CASES.values(), ids=CASES)
def test_it_is_the_literal_one(links: list[Any]) -> None:
    problem, graph = lasso(4), pm.graphs.ring(4)
    simulation = simulated(problem, graph, links, end=60)
    found = torch.cat([state.x for state in simulation.until(60)])

    def grad(i: int) -> Any:
        part = problem.local((i,))
        return lambda x: part.full_grad(torch.from_numpy(x)[None])[0].numpy()

    travel = Travel.over(links)
    rows, steps, time = reference(
        [sorted({(i - 1) % 4, (i + 1) % 4}) for i in range(4)],
        [np.zeros(6)] * 4,
        [grad(i) for i in range(4)],
        l1=0.1,
        rho=lambda k: 0.3 * k ** (1 / 3),
        eta=lambda k, degree: 0.6 * k ** (1 / 3) * (degree + 1) + 6.0,
        gain=0.1,
        periods=periods_of(links, 4),
        delay=travel.of,
        most_behind=20,
        end=60,
    )
    assert torch.allclose(found, torch.tensor(np.array(rows)), rtol=0, atol=1e-12)
    assert [int(m.state.count) for m in simulation.members] == steps
    assert simulation.time == time


def test_ad_psgd_is_the_literal_one() -> None:
    problem, speeds = lasso(4), [1, 3, 2, 1]
    found: Any = pm.solve(
        problem,
        pm.DPSGD(0.1),
        pm.graphs.ring(4),
        steps=25,
        links=[pm.links.Speeds(speeds)],
        asynchronous=True,
    )
    clock, steps, now = [0] * 4, [0] * 4, 0
    x = problem.x0("same")
    while min(clock) < 25:
        now += 1
        for i in range(4):
            if now % speeds[i] or clock[i] >= 25:
                continue
            near = sorted([(i - 1) % 4, (i + 1) % 4])
            clock[i] = max(clock[i] + 1, *(clock[j] for j in near))
            mean = (x[i] + x[near[steps[i] % 2]]) / 2
            forward = mean - 0.1 * problem.full_grad(x)[i]
            x[i] = forward.sign() * (forward.abs() - 0.01).clamp(min=0)
            steps[i] += 1
    assert found.state.count[:, 0].tolist() == steps
    assert torch.allclose(found.state.x, x, rtol=0, atol=1e-12)


SPEEDS = [pm.links.Speeds([1, 4])]


def solved(**options: Any) -> Any:
    given: dict[str, Any] = {"links": SPEEDS, "steps": 120, **options}
    return pm.solve(lasso(4), HSM, pm.graphs.ring(4), asynchronous=True, **given)


def test_a_run_repeats_to_the_bit_and_tells_own_steps() -> None:
    first, second = solved(eval_every=40), solved(eval_every=40)
    assert torch.equal(first.state.x, second.state.x)
    table = first.history
    assert table["iteration"].tolist() == [0, 40, 80, 120]
    assert table["most_steps"].tolist() == [0, 40, 80, 120]
    assert table["fewest_steps"].tolist() == [0, 10, 20, 30]
    assert table["simulated_time"].tolist() == [0, 40, 80, 120]
    assert table["stationarity"].iloc[-1] < 1e-2 * table["stationarity"].iloc[0]
    assert not first.algorithm.follow
    assert (first.state.gain == second.state.gain).all()
    assert 0.15 < first.state.gain[0] < 0.25  # messages of the slow are 1.5 old


EXACT: dict[str, list[Any]] = {
    "speeds": SPEEDS,
    "delays": [pm.links.Speeds([1]), pm.links.Delay(10, random=True)],
    "late": [pm.links.Speeds([1]), pm.links.Delay(10)],
}


@pytest.mark.parametrize(
    "links",
    [
        pytest.param(links, id=name, marks=[] if name == "speeds" else pytest.mark.long)
        for name, links in EXACT.items()
    ],
)
def test_it_finds_the_known_solution(links: list[Any]) -> None:
    steps = 1500 if links is EXACT["late"] else 1000
    found = solved(steps=steps, eval_every=500, links=links)
    assert (found.state.x - lasso(4).solution(3000)).abs().max() < 1e-6
    if links is SPEEDS:
        assert found.state.count[:, 0].tolist() == [1000, 250, 1000, 250]


def test_a_target_ends_it_with_the_state_that_reached_it() -> None:
    found = solved(steps=1000, eval_every=20, target={"stationarity": 1e-2})
    assert str(found.outcome) == "target reached"
    assert int(found.state.k) == found.final["iteration"] < 1000


def test_it_goes_on_from_a_checkpoint(tmp_path: Any) -> None:
    def power_cut(row: Any, state: Any) -> None:
        del state
        if row["iteration"] == 80:
            raise SystemExit

    options: dict[str, Any] = {"steps": 400, "checkpoint_every": 40, "eval_every": 40}
    with pytest.raises(SystemExit):
        solved(out=tmp_path / "run", callbacks=[power_cut], **options)
    result = pm.resume(tmp_path / "run", lasso(4))
    assert result.final["iteration"] == 400
    assert result.final["most_steps"] > result.final["fewest_steps"] > 90
    whole = solved(**options)
    assert result.final["stationarity"] < 4 * whole.final["stationarity"] < 1e-6


def test_a_run_that_blows_up_says_so() -> None:
    wild = pm.HSMADMM(c_rho=1.0, c_eta=0.01, c_a=1.0, smoothness=0.0)
    with pytest.warns(Warning, match="the run diverged at iteration"):
        found = pm.solve(
            lasso(4),
            wild,
            pm.graphs.ring(4),
            steps=400,
            links=SPEEDS,
            asynchronous=True,
        )
    assert str(found.outcome) == "diverged"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "alone": ({"links": []}, "needs the speeds of the agents: `--link speeds=1:4`"),
    "compiled": ({"compile": True}, "are not compiled"),
    "monitored": ({"monitor": "theory"}, "monitor `theory` compares consecutive"),
    "lossy": ({"links": [*SPEEDS, pm.links.Loss(0.1)]}, "Loss does not go with"),
    "stale": ({"max_staleness": 0}, "`max_staleness` must be a whole number"),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED)
def test_what_it_cannot_do_is_said(options: dict[str, Any], words: str) -> None:
    with pytest.raises(pm.InputError, match=words):
        solved(**options)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (pm.DSGT(0.1), "DSGT has no asynchronous form; HSMADMM and DPSGD have"),
        (pm.HSMADMM(split=False), "`split=False` has no asynchronous form"),
        (pm.HSMADMM(follow=True), "`follow=True` has no asynchronous form"),
    ],
)
def test_methods_without_the_form_are_refused(method: Any, words: str) -> None:
    with pytest.raises(pm.InputError, match=words):
        pm.solve(
            lasso(4),
            method,
            pm.graphs.ring(4),
            steps=5,
            links=SPEEDS,
            asynchronous=True,
        )


def test_speeds_by_name() -> None:
    assert pm.links.named({"speeds": "1:4"}) == (pm.links.Speeds([1, 4]),)
    with pytest.raises(pm.InputError, match="`1:x` is not a list of whole numbers"):
        pm.links.named({"speeds": "1:x"})
