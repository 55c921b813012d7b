"""Which method survives which links: the cells that the laws of links predict."""

import math

import pytest

from proxmesh.algorithms import ALGORITHMS
from proxmesh.network.links import named
from proxmesh.paper.link_tables import SHOWN
from proxmesh.paper.survival import CONDITIONS, METHODS, suits, survived, verdict_of

# method, links, iterations, verdicts that are right; "falling" needs more of them
PREDICTED = [
    ("hsm-admm", "loss-0.3", 300, {"exact"}),
    ("hsm-admm", "silent-0.5", 300, {"exact"}),
    ("hsm-admm", "bits-4", 200, {"exact"}),
    ("hsm-admm-growing", "delay-2", 350, {"exact", "falling"}),
    ("hsm-admm-growing", "silent-0.3", 300, {"exact"}),
    ("deepstorm-v2", "silent-0.3", 300, {"exact"}),
    ("deepstorm-v2", "delay-2", 200, {"diverges"}),
    ("deepstorm-v2", "top-0.1", 200, {"diverges"}),
    ("sppdm", "outages-0.5", 300, {"exact"}),
    ("sppdm", "delay-2", 200, {"diverges"}),
    ("prox-gt-sa", "bits-4", 200, {"exact", "falling"}),
    ("cdprox-sgt", "bits-4", 10, {"-"}),
]


@pytest.mark.parametrize(("label", "links", "steps", "right"), PREDICTED)
def test_predicted_cells(label: str, links: str, steps: int, right: set[str]) -> None:
    verdict, error = survived(label, links, steps)
    assert verdict in right, (verdict, error)


def test_every_method_that_sends_is_asked_about_every_condition() -> None:
    names = {METHODS[label].get("algorithm", label) for label in METHODS}
    sending = {name for name, method in ALGORITHMS.items() if not method.server}
    assert sending - names == {"hsm-admm-uniform", "hsm-admm-blind"}
    assert set(SHOWN) == set(CONDITIONS)
    for links in CONDITIONS.values():
        named(links)
    assert suits("hsm-admm", {})
    assert not suits("cdprox-sgt", {"top-k": 0.1})


@pytest.mark.parametrize(
    ("errors", "settled", "verdict"),
    [
        ([1.0, *[1e-8] * 99], 1e-9, "exact"),
        ([1.0, *[1e-2] * 99], 1e-4, "floor"),
        ([1.0, *[1e-2] * 99], 1e-2, "biased"),
        ([0.9**k for k in range(100)], 1e-3, "falling"),
        ([1.0, *[5.0] * 99], 5.0, "diverges"),
        ([1.0, 2e3], math.inf, "diverges"),
    ],
)
def test_verdicts(errors: list[float], settled: float, verdict: str) -> None:
    assert verdict_of(errors, settled)[0] == verdict
