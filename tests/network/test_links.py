"""Imperfect links: golden values, literal references, invariants, and bad input."""

import dataclasses
from collections.abc import Callable
from itertools import islice
from typing import Any

import links_reference as literal
import numpy as np
import pytest
import torch
from links_problems import Lasso, advanced
from torch import Tensor
from zoo import GoldenQuadratics

import proxmesh as pm

L = pm.links
PRINTED = 5e-11  # the golden values are given with ten decimals
EXACT = 1e-11  # float64 rounding over 30 steps of numbers of size 1
SUM = 1e-12  # of multipliers that add up to 0
SEED = 298  # loses 1 -> 0 in exchange 1, 0 -> 2 in exchange 2 and nothing else


class Half:
    """Half of every entry gets through."""

    def compress(self, rows: Tensor, key: Any) -> Tensor:
        del key
        return rows / 2

    def contraction(self, p: int) -> float:
        del p
        return 0.75

    def message_bits(self, p: int, width: int) -> float:
        return float(p * width)


class Grid(Half):
    """The nearest quarter, however small the vector."""

    def compress(self, rows: Tensor, key: Any) -> Tensor:
        del key
        return (4 * rows).round() / 4


def golden(**options: Any) -> pm.HSMADMM:
    return pm.HSMADMM(c_rho=1.0, c_eta=2.0, c_a=2.0, **options)


SKIP, SILENT = [L.Loss(0.15, seed=SEED)], [L.Loss(0.15, known=False, seed=SEED)]
STORM = pm.DEEPSTORM(alpha=0.3, k0=5, beta=2.0)
GOLDEN: dict[str, tuple[Any, list[Any], list[float]]] = {
    "perfect": (golden(), [L.Delay(0)],
        [0.7341883278, 0.104512895, 0.9724688211, 0.9689682649]),
    "perfect, sums": (golden(integrated=True), [L.Delay(0)],
        [0.7341883278, 0.104512895, 0.9724688211, 0.9689682649]),
    "skip": (golden(), SKIP,
        [0.7616893976, 0.0457599260, 1.1209917932, 1.1002433533]),
    "skip, half": (golden(dual_gain=0.5), SKIP,
        [0.8120211253, -0.1582805442, 1.1763930295, 1.1417700553]),
    "silent": (golden(integrated=True), SILENT,
        [0.7305274039, 0.0963759397, 1.0527433194, 0.9608313096]),
    "silent, half": (golden(integrated=True, dual_gain=0.5), SILENT,
        [0.7430814669, -0.1006796302, 1.1081445557, 1.0348593212]),
    "silent, fresh": (golden(integrated=True, dual_gain=0.5, fresh=True), SILENT,
        [0.7606377249, -0.0838422447, 1.0842703082, 1.0516967068]),
    "compressed": (golden(), [L.Compressed(Half())],
        [0.1633012631, 0.5574681643, 1.1594460686, 1.2947619656]),
    "compressed, fresh": (golden(dual_gain=0.5, fresh=True), [L.Compressed(Half())],
        [0.4195012883, 0.0087615709, 1.1356127544, 1.1728421512]),
    "grid": (golden(), [L.Compressed(Grid())],
        [0.8403086388, 0.0799963287, 0.8945991943, 0.9504889491]),
    "late": (golden(), [L.Delay(1)],
        [-0.3991843875, 1.0341582235, 1.4482248720, 1.6496948856]),
    "deepstorm, skip": (STORM, SKIP,
        [0.5006686645, -0.3028272133, 1.1549948031, 0.9951202601]),
    "deepstorm, sums": (STORM, SILENT,
        [0.2685560255, -0.0045026061, 1.1549948031, 0.9951202601]),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values(name: str) -> None:
    algorithm, links, third = GOLDEN[name]
    state = advanced(links, algorithm, GoldenQuadratics(), pm.graphs.star(4), 3)
    expected = torch.tensor(third)[:, None]
    torch.testing.assert_close(state.x, expected, rtol=0, atol=PRINTED)
    if name == "skip":
        duals = [-1.4694257336, 3.2454245864, -0.8307037256, -0.9452951272]
        found = state.alpha_sum[:, 0]
        torch.testing.assert_close(found, torch.tensor(duals), rtol=0, atol=PRINTED)


def test_forces_of_a_silent_loss_agree_again_once_messages_arrive() -> None:
    problem, graph = GoldenQuadratics(), pm.graphs.star(4)
    two, three = (
        advanced(SILENT, golden(integrated=True), problem, graph, k) for k in (2, 3)
    )
    assert abs(float(two.force.sum()) + 0.5100455239) < PRINTED
    assert abs(float(three.force.sum())) < SUM


GRAPH = pm.graphs.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)])


def undirected(kind: str, chance: float, seed: int) -> Callable[[int, int, int], bool]:
    def up(i: int, j: int, k: int) -> bool:
        return literal.is_drawn(chance, seed, kind, 0, (min(i, j), max(i, j)), k, 0)

    return up


def both_arrive(q: float, seed: int) -> Callable[[int, int, int], bool]:
    def up(i: int, j: int, k: int) -> bool:
        ways = ((i, j), (j, i))
        return not any(literal.is_drawn(q, seed, "Loss", 0, way, k, 0) for way in ways)

    return up


def is_awake(i: int, k: int) -> bool:
    return literal.is_drawn(0.6, 2, "Participation", 0, (i,), k, 0)


def both_awake(i: int, j: int, k: int) -> bool:
    return is_awake(i, k) and is_awake(j, k)


def age(i: int, j: int) -> int:
    key = literal.key_of(5, "Delay", 0, (min(i, j), max(i, j)))
    return (literal.drawn(key, 0) * 4) >> 32


SCHEDULE = [[(0, 1), (2, 3), (3, 4)], [(1, 2), (0, 3)], [(0, 2), (3, 4)]]
MODELS: dict[str, tuple[list[Any], Callable[[], Any], dict[str, Any]]] = {
    "outages": ([L.Outages(0.6, seed=4)],
        lambda: literal.Skip(undirected("Outages", 0.6, 4)), {}),
    "loss": ([L.Loss(0.3, seed=1)], lambda: literal.Skip(both_arrive(0.3, 1)), {}),
    "delay": ([L.Delay(2)], lambda: literal.Late(lambda _i, _j: 2), {"fresh": True}),
    "random delay": ([L.Delay(3, random=True, seed=5)],
        lambda: literal.Late(age), {"fresh": True}),
    "every": ([L.Every(3)], lambda: literal.Talks(3), {"fresh": True}),
    "bits": ([L.Compressed(L.Bits(3))],
        lambda: literal.References(three_bits, lambda *_: True), {}),
    "bits and loss": ([L.Loss(0.3, seed=1), L.Compressed(L.Bits(3))],
        lambda: literal.References(three_bits, both_arrive(0.3, 1)), {"fresh": True}),
    "participation": ([L.Participation(0.6, seed=2)],
        lambda: literal.Skip(both_awake), {"awake": is_awake}),
    "schedule": ([L.Schedule(SCHEDULE, every=2)],
        lambda: literal.Skip(
            lambda i, j, k: (min(i, j), max(i, j)) in SCHEDULE[(k - 1) // 2 % 3]), {}),
}  # fmt: skip


def three_bits(row: Any) -> Any:
    step = np.abs(row).max() / 3
    return np.round(row / step) * step if step > 0 else row


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_its_literal_reference(name: str) -> None:
    links, model, options = MODELS[name]
    problem, steps = Lasso.of(GRAPH.n), 25
    awake, fresh = options.pop("awake", None), options.get("fresh", False)
    algorithm = pm.HSMADMM(c_rho=0.3, c_eta=2.0, c_a=1.0, dual_gain=0.2, fresh=fresh)
    # Exact gradients: the momentum cancels.
    state = advanced(links, algorithm, problem, GRAPH, steps)
    expected = literal.hsm_admm(
        list(GRAPH.edges),
        list(problem.x0.numpy()),
        problem.one,
        lambda z, step: problem.prox(torch.from_numpy(z)[None], step)[0].numpy(),
        model(),
        c_rho=0.3,
        c_eta=2.0,
        gain=0.2,
        fresh=fresh,
        **({"awake": awake} if awake else {}),
    )
    last = next(islice(expected, steps - 1, None))
    found = torch.from_numpy(np.stack(last))
    torch.testing.assert_close(state.x, found, rtol=0, atol=EXACT)
    assert state.alpha_sum.sum(0).abs().max() < SUM


@pytest.mark.parametrize("links", [[L.Outages(0.5)], [L.Delay(1, random=True)]])
def test_large_graphs_have_sparse_sums(links: list[Any]) -> None:
    graph = pm.graphs.ring(300)
    assert not isinstance(graph.laplacian, np.ndarray)
    world = pm.connect(graph, links=links)
    edges = world.edges
    rows = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    weights = (torch.arange(len(edges)) % 3).to(rows)
    expected = torch.zeros(300, 2)
    for e, (i, j) in enumerate(zip(edges.agent, edges.neighbor, strict=True)):
        expected[i] += weights[e] * (rows[i] - rows[j])
    found = edges.weighted(rows, weights)
    torch.testing.assert_close(found, expected, rtol=0, atol=EXACT)
    delta = weights[:, None] * (edges.near(rows) - edges.far(rows))
    found = edges.per_agent(delta)
    torch.testing.assert_close(found, expected, rtol=0, atol=EXACT)


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    k: Tensor
    x: Tensor
    laplacian: Tensor
    mixed: Tensor


class Looking:
    """Sends the same rows again and again, and keeps what comes of it."""

    def init(self, x0: Tensor, problem: Any, network: Any) -> Seen:
        del problem
        sent = network.exchange(x0)
        return Seen(torch.tensor(0), x0, sent.laplacian(), sent.mix())

    def step(self, state: Seen, problem: Any, network: Any) -> Seen:
        del problem
        sent = network.exchange(state.x)
        return Seen(state.k + 1, state.x, sent.laplacian(), sent.mix())

    def cost(self, k: int) -> pm.Cost:
        del k
        return pm.Cost(1, 1, 0)


@pytest.mark.parametrize(
    "links",
    [
        [L.Outages(0.5)],
        [L.Loss(0.4)],
        [L.GilbertElliott(0.4)],
        [L.Delay(2), L.Loss(0.3)],
        [L.Delay(3, random=True), L.Loss(0.3)],
        [L.Loss(0.3), L.Compressed()],
        [L.Every(2), L.Outages(0.5)],
        [L.Schedule(SCHEDULE)],
    ],
    ids=str,
)
def test_both_ends_of_an_edge_agree_in_every_exchange(links: list[Any]) -> None:
    """With rows e_i, entry j of row i is the weight that i gives to j."""
    world = pm.connect(GRAPH, links=links)
    rows, problem, method = torch.eye(GRAPH.n), GoldenQuadratics(), Looking()
    state = world.start(method, rows, problem)
    left_out = 0
    for _ in range(12):
        state = world.advance(method, state, problem)
        for found, total in ((state.laplacian, 0.0), (state.mixed, 1.0)):
            torch.testing.assert_close(found, found.T, rtol=0, atol=EXACT)
            assert (found.sum(1) - total).abs().max() < EXACT
        used = int((state.laplacian.triu(1) < -0.5).sum())
        left_out += len(GRAPH.edges) - used
    assert left_out > 0
