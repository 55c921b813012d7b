"""Runs over imperfect links: where they end, that they go on, and what is refused."""

import dataclasses
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from links_problems import Lasso, advanced
from torch import Tensor
from typer.testing import CliRunner
from zoo import ROUND, classifier

import proxmesh as pm
from proxmesh.cli.app import app
from proxmesh.network.links import LinkedWorld, Plan
from proxmesh.solver.compile_step import CompiledStep
from proxmesh.solver.suiting import require_suited, suited_to

L: Any = pm.links  # mistakes are made on purpose
RING = pm.graphs.ring(8)
WORD: Any = "loss"
GROWING = pm.HSMADMM(c_rho=0.5, c_eta=1.0, c_a=1.0, smoothness=3.0)
CONSTANT = pm.HSMADMM(c_rho=3.0, c_eta=6.0, smoothness=3.0, follow=True)


@cache
def problem() -> Lasso:
    return Lasso.of(8)


@cache
def solution() -> Tensor:
    return problem().quadratics.solution(3000)


def error(links: list[Any], algorithm: Any, steps: int) -> float:
    method = suited_to(algorithm, Plan(tuple(links)), 3)
    state = advanced(links, method, problem(), RING, steps)
    return float((state.x - solution()).abs().max())


@pytest.mark.parametrize(
    ("links", "algorithm", "limit"),
    [
        ([L.Loss(0.5)], GROWING, 1e-4),
        ([L.GilbertElliott(0.3)], GROWING, 1e-3),
        ([L.Delay(1)], GROWING, 1e-4),
        ([L.Every(4)], GROWING, 1e-3),
        ([L.Compressed()], GROWING, 1e-6),
        ([L.Loss(0.3), L.Compressed()], GROWING, 1e-4),
        ([L.Loss(0.5, known=False)], GROWING, 1e-6),
        ([L.Loss(0.3, known=False), L.Delay(1)], GROWING, 1e-3),
        ([L.Loss(0.5, known=False)], CONSTANT, 1e-5),
    ],
    ids=str,
)
def test_what_is_automatic_finds_the_solution(
    links: list[Any], algorithm: Any, limit: float
) -> None:
    assert error(links, algorithm, 250) < limit


class LastValue:
    """A network in which a receiver goes on with the last value that it got."""

    def __init__(self, world: LinkedWorld) -> None:
        self.world, self.k = world, 0
        self.degree, self.max_degree = world.degree, world.max_degree
        self.known: Tensor | None = None

    def exchange(self, x: Tensor) -> "LastValue":
        edges = self.world.edges
        arrived = self.world.failures.heard(torch.tensor(self.k), 0, None)
        new = edges.far(x)
        if self.known is None:
            self.known = new
        assert arrived is not None
        self.known = torch.where(arrived[:, None], new, self.known)
        self.found = edges.per_agent(edges.near(x) - self.known)
        self.k += 1
        return self

    def laplacian(self) -> Tensor:
        return self.found


def test_going_on_with_the_last_value_ends_elsewhere() -> None:
    world = pm.connect(RING, links=[L.Loss(0.3, known=False)])
    network: Any = LastValue(world)
    state = GROWING.init(problem().x0, problem(), network)
    for _ in range(250):
        state = GROWING.step(state, problem(), network)
    assert (state.x - solution()).abs().max() > 0.1
    assert state.alpha_sum.sum(0).abs().max() > 0.1


def test_the_papers_gain_diverges_from_a_delay_of_one_on() -> None:
    paper = pm.HSMADMM(c_rho=0.5, c_eta=1.0, c_a=1.0, dual_gain=1.0, fresh=False)
    assert error([L.Delay(1)], paper, 150) > 1e3


def test_a_penalty_may_change_where_a_silent_loss_was_made_up_for() -> None:
    """After a reliable exchange the multipliers add up to 0, and go on doing so."""
    links = [L.Loss(0.4, known=False)]
    world = pm.connect(RING, links=links)
    method = suited_to(CONSTANT, world.plan, 3)
    ends = {}
    for when in (8, 11):  # an exchange before a look, and one that is not
        state = world.start(method, problem().x0, problem())
        for k in range(1, 260):
            state = world.advance(method, state, problem())
            if k == when:
                state = dataclasses.replace(state, rho=0.5 * state.rho)
            if k == 256:  # all has arrived
                ends[when] = float(state.alpha_sum.sum(0).abs().max())
    assert ends[8] < 1e-10
    assert ends[11] > 1e-3


@pytest.mark.parametrize("method", [pm.DEEPSTORM(alpha=0.3), pm.ProxGT(alpha=0.1)])
@pytest.mark.parametrize(
    "links",
    [[L.Loss(0.3)], [L.Compressed()], [L.Outages(0.5), L.Compressed()], [L.Every(2)]],
    ids=str,
)
def test_trackers_keep_their_sum(method: Any, links: list[Any]) -> None:
    state = advanced(links, method, problem(), RING, 30)
    assert (state.y.sum(0) - state.v.sum(0)).abs().max() < 1e-11


def test_an_empty_list_is_perfect_links_bit_for_bit() -> None:
    runs: Any = {"graph": pm.graphs.star(4), "steps": 12}
    plain = pm.solve(classifier(), ROUND, **runs)
    empty = pm.solve(classifier(), ROUND, links=[], **runs)
    gain = pm.solve(classifier(), dataclasses.replace(ROUND, dual_gain=1.0), **runs)
    assert torch.equal(plain.state.x, empty.state.x)
    assert torch.equal(plain.state.alpha_sum, gain.state.alpha_sum)


class PowerCutError(Exception):
    """Somebody pulled the plug."""


@pytest.mark.parametrize(
    ("algorithm", "links"),
    [
        (ROUND, [L.Loss(0.3), L.Compressed(L.RandomK(0.3)), L.Delay(2)]),
        (ROUND, [L.Loss(0.2, known=False)]),
        (pm.DEEPSTORM(), [L.GilbertElliott(0.3), L.Compressed()]),
        (pm.SPPDM(), [L.Participation(0.7), L.Delay(1)]),
    ],
    ids=str,
)
def test_a_lossy_run_goes_on_bit_for_bit(
    algorithm: Any, links: list[Any], tmp_path: Path
) -> None:
    def cut(row: Any, state: Any) -> None:
        del state
        if row["iteration"] == 15:
            raise PowerCutError

    options: Any = {"steps": 20, "eval_every": 5, "links": links}
    graph = pm.graphs.star(4)
    whole = pm.solve(classifier(), algorithm, graph, **options)
    with pytest.raises(PowerCutError):
        pm.solve(
            classifier(), algorithm, graph, out=tmp_path, checkpoint_every=7,
            callbacks=[cut], **options,
        )  # fmt: skip
    again = pm.resume(tmp_path, classifier())
    for field in dataclasses.fields(whole.state):
        ours, theirs = (getattr(r.state, field.name) for r in (again, whole))
        assert torch.equal(ours, theirs), field.name
    assert again.algorithm == whole.algorithm


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: L.Loss(1.0), "Loss: `q` must be from 0 to below 1, got 1.0."),
        (lambda: L.Outages(0), "Outages: `up` must be above 0 and at most 1, got 0."),
        (lambda: L.Delay(-1), "`tau` must be a whole number of at least 0, got -1."),
        (lambda: L.Delay(1.5), "`tau` must be a whole number of at least 0, got 1.5."),
        (lambda: L.Compressed(L.TopK(2.0)), "TopK: `share` must be at most 1, got 2."),
        (lambda: L.Compressed(4), "`compressor` must have `compress`"),
        (lambda: L.GilbertElliott(0.9, burst=2), "`burst` must be at least 9"),
        (lambda: L.Speeds([]), "`periods` must be a list of numbers, got []."),
        (lambda: L.Schedule([[3]]), "`edges` must be lists of edges (i, j), got"),
        (lambda: joined(L.Schedule([[(0, 5)]])), "names (0, 5), which is no edge of"),
        (lambda: joined(L.Delay(1), L.Delay(2)), "`links` has two Delay."),
        (lambda: joined(L.Loss), "`links` must be models of `proxmesh.links`, got"),
        (lambda: pm.connect(RING, links=WORD), "`links` must be a list of models"),
        (
            lambda: joined(L.Loss(0.1, known=False), L.Compressed()),
            "Compressed does not go with a silent loss: a lost difference leaves",
        ),
        (lambda: solved(pm.CDProxSGT()), "CDProxSGT compresses by itself."),
        (lambda: solved(pm.ProxSGD()), "ProxSGD sends nothing to neighbors."),
        (
            lambda: solved(dataclasses.replace(ROUND, integrated=True)),
            "`integrated` does not go with Compressed",
        ),
        (
            lambda: require_suited(
                dataclasses.replace(ROUND, integrated=False),
                Plan((L.Loss(0.1, known=False),)), 3,
            ),
            "a silent loss and a penalty that grows with k leave multipliers",
        ),
        (lambda: joined(L.Loss(0.1)).exchange(problem().x0), "Use `world.start("),
        (lambda: L.named({"los": 1}), "unknown link `los`. Did you mean `loss`?"),
        (lambda: L.named({"delay": 1.5}), "link `delay`: `tau` must be a valid int"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_line(make: Any, said: str) -> None:
    with pytest.raises(pm.InputError, match=re.escape(said)) as found:
        make()
    assert "\n" not in str(found.value)


def joined(*links: Any) -> LinkedWorld:
    return pm.connect(RING, links=links)


def solved(algorithm: Any) -> Any:
    links = [L.Compressed()]
    return pm.solve(classifier(), algorithm, pm.graphs.star(4), 2, links=links)


def test_gains_are_half_of_what_is_stable() -> None:
    for links, gain, fresh in (
        ([L.Outages(0.5)], 1.0, False),
        ([L.Outages(0.25)], 1 / 3, False),
        ([L.Loss(0.5)], 1 / 3, False),
        ([L.Loss(0.3, known=False)], 0.35, False),
        ([L.Delay(2)], 1 / 6, True),
        ([L.Every(4)], 1 / 8, True),
        ([L.Compressed()], 1.0, False),
        ([L.Compressed(L.TopK(0.1))], 0.2, True),
        ([L.Compressed(), L.Loss(0.3)], 0.25, True),
        ([L.Delay(2), L.Every(2)], 1 / 8, True),
    ):
        plan = Plan(tuple(links))
        assert plan.gain(1000) == pytest.approx(gain), links
        assert plan.fresh == fresh, links
        assert plan.limits(plan.gain(1000), 1000) == []
    assert "from 1 on" in Plan((L.Delay(2),)).limits(0.5, 10)[0]
    assert "from 0.667 on" in Plan((L.Outages(0.25),)).limits(0.7, 10)[0]


def test_a_gain_that_is_too_large_is_told_before_the_run() -> None:
    bold = dataclasses.replace(ROUND, dual_gain=1.0)
    with pytest.warns(pm.Notice, match="dual_gain 1 x mean age 2"):
        pm.prepare(classifier(), bold, pm.graphs.star(4), 5, links=[L.Delay(2)])


def test_bytes_are_those_of_compressed_messages() -> None:
    run = pm.prepare(classifier(), ROUND, pm.graphs.star(4), 10, links=[L.Compressed()])
    p, edges, width = run.state.x.shape[1], 6, run.state.x.element_size()
    steps = -(-p // 128)  # one for each block of 128 entries
    whole, small = width * p, -(-(4 * p + 8 * width * steps) // 8)
    assert run.cost().bytes == edges * (whole + 10 * small)


def test_links_on_the_command_line_and_in_a_file(tmp_path: Path) -> None:
    words = ["run", "--dataset", "breast-cancer", "--agents", "4", "--steps", "20"]
    flags = ["--link", "loss=0.3", "--link", "bits=4", "--compile", "off"]
    out = tmp_path / "run"
    result = CliRunner().invoke(app, [*words, *flags, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "links: Loss(q=0.3" in result.output
    config = (out / "config.toml").read_text()
    assert "[links]\nloss = 0.3\nbits = 4\n" in config
    assert "dual_gain = 0.25" in config
    assert pm.load(out).algorithm.dual_gain == 0.25
    bad = CliRunner().invoke(app, [*words, "--link", "loss"])
    assert isinstance(bad.exception, pm.InputError)
    assert "`--link loss` is not NAME=VALUE, such as loss=0.3." in str(bad.exception)


@pytest.mark.long
def test_a_step_over_links_compiles_to_one_graph() -> None:
    links = [L.Loss(0.3), L.Compressed()]
    run = pm.prepare(classifier(), ROUND, pm.graphs.ring(4), 10, links=links)
    made = CompiledStep(run.algorithm, run.problem, run.world, run.state)
    plain = ours = run.state
    for _ in range(10):
        ours = made(ours)
        plain = run.world.advance(run.algorithm, plain, run.problem)  # type: ignore[attr-defined]
    assert made.num_graphs == 1
    torch.testing.assert_close(ours.x, plain.x, rtol=0, atol=1e-9)
