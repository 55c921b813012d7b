"""A clock of the network: what it adds up, and where it is shown."""

import re
from pathlib import Path
from typing import Any

import pytest
from zoo import ROUND, classifier

import proxmesh as pm
from proxmesh.network.links import Plan
from proxmesh.network.links.timing import iteration_seconds
from proxmesh.report.page_network import lost_shares

L: Any = pm.links
STAR = pm.graphs.star(4)


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({"overlaps": True}, 0.025),  # 20 ms on its way, 5 ms on the wire
        ({"overlaps": False}, 0.035),  # and 10 ms of computing before
        ({"overlaps": True, "compute": 0.04}, 0.04),
        ({"overlaps": True, "delay": 1}, 0.0125),
        ({"overlaps": False, "delay": 4}, 0.01),  # hidden behind computing
        ({"overlaps": True, "delay": 9, "wire": 0.03}, 0.03),  # a full wire
        ({"overlaps": False, "rounds": 2}, 0.055),
        ({"overlaps": False, "rounds": 0}, 0.01),
    ],
)
def test_an_iteration_by_hand(options: Any, seconds: float) -> None:
    given: Any = {"compute": 0.01, "rounds": 1, "wire": 0.005, "latency": 0.02}
    found = iteration_seconds(**{**given, "delay": 0, **options})
    assert found == pytest.approx(seconds)


def clocked(links: list[Any], method: Any = ROUND, steps: int = 8) -> Any:
    slow = [L.Bandwidth("1kbit"), L.Latency("30ms")]
    options: Any = {"eval_every": 4, "links": [*slow, *links]}
    return pm.solve(classifier(), method, STAR, steps, **options)


def message_seconds(links: list[Any], p: int) -> float:
    return 0.03 + Plan(tuple(links)).bits_of_one(p, 64) / 1000


@pytest.mark.parametrize(
    ("links", "talks"), [([], 8), ([L.Compressed()], 8), ([L.Every(4)], 2)], ids=str
)
def test_messages_take_their_time(links: list[Any], talks: int) -> None:
    result = clocked(links)
    p = result.state.x.shape[1]
    table = result.history["simulated_seconds"]
    first = 0.03 + 64 * p / 1000
    assert table.iloc[0] == pytest.approx(first)
    # Computing hides behind messages of seconds; where none is sent it shows.
    expected = first + talks * message_seconds(links, p)
    assert expected <= table.iloc[-1] + 1e-9
    assert table.iloc[-1] < expected + result.final["seconds"] + 1e-9


def test_what_waits_for_its_neighbors_takes_longer() -> None:
    ours, theirs = clocked([]), clocked([], pm.DEEPSTORM())
    ratio = theirs.final["simulated_seconds"] / ours.final["simulated_seconds"]
    assert 1.8 < ratio < 2.2  # two vectors in place of one


def test_nothing_else_changes_and_other_runs_have_no_such_column() -> None:
    plain = pm.solve(classifier(), ROUND, STAR, 8, eval_every=4)
    timed = clocked([])
    assert timed.state.x.equal(plain.state.x)
    assert timed.final["bytes_sent"] == plain.final["bytes_sent"]
    assert "simulated_seconds" not in plain.history


def test_a_resumed_run_goes_on_counting(tmp_path: Path) -> None:
    slow = [L.Latency("1s")]
    options: Any = {"eval_every": 4, "links": slow, "out": tmp_path}
    pm.solve(classifier(), ROUND, STAR, 8, checkpoint_every=4, **options)
    again = pm.resume(tmp_path, classifier(), steps=16)
    assert list(again.history["simulated_seconds"].round()) == [1, 5, 9, 13, 17]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: L.Bandwidth("fast"), "Bandwidth: `rate` must be like `10Mbit`, got"),
        (lambda: L.Bandwidth(0), "Bandwidth: `rate` must be like `10Mbit`, got 0."),
        (lambda: L.Latency("-1ms"), "Latency: `time` must be like `20ms`, got '-1ms'."),
        (lambda: L.named({"latency": "2h"}), "must be like `20ms`, got '2h'."),
        (lambda: L.Bits(33), "Bits: `bits` must be at most 32, got 33."),
        (
            lambda: pm.connect(STAR, links=[L.Latency(1), L.Latency(2)]),
            "`links` has two Latency. Give one of them.",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(make: Any, said: str) -> None:
    with pytest.raises(pm.InputError, match=re.escape(said)) as found:
        make()
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("links", "low", "high"),
    [
        ({"loss": 0.3}, 0.35, 0.65),  # 1 - 0.7^2
        ({"silent-loss": 0.3}, 0.2, 0.4),
        ({"bursts": 0.3}, 0.05, 0.6),
        ({"outages": 0.8}, 0.1, 0.3),
    ],
)
def test_the_report_knows_what_each_edge_lost(
    links: Any, low: float, high: float
) -> None:
    config = {"links": links, "run": {"steps": 250}}
    shares = lost_shares(config, STAR)
    assert shares is not None
    assert len(shares) == len(STAR.edges)
    assert all(low < share < high for share in shares)
    assert lost_shares({"links": {"bits": 4}}, STAR) is None
