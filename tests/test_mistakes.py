"""What people try first and cannot work is refused in one line that helps."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS
from proxmesh.errors import unknown

X, Y = torch.randn(20, 3), torch.arange(20) % 2
LOSS = nn.functional.cross_entropy


def built(
    model: Any = None, loss: Any = LOSS, shards: Any = ((X, Y), (X, Y))
) -> pm.LearningProblem:
    return pm.LearningProblem(model or nn.Linear(3, 2).double(), loss, shards)


def solved(algorithm: Any) -> pm.Result:
    return pm.solve(built(), algorithm, pm.graphs.path(2), steps=1)


make: Any = pm  # past the type checker, which refuses these, too

MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: make.HSMADMM(lr=0.1), r"`lr` of HSMADMM\. Known: assumed_degree, c_a"),
    (lambda: make.HSMADMM(c_roh=0.1), "Did you mean `c_rho`"),
    (lambda: built(loss="mse_loss"), r"'mse_loss'. Use `torch.nn.functional.mse_loss`"),
    (lambda: built(loss="loss"), r"'loss'. Use `torch.nn.functional.cross_entropy`"),
    (lambda: built(loss=nn.CrossEntropyLoss), r"Build it: `CrossEntropyLoss\(\)`"),
    (lambda: built(shards=(X, Y)), r"`data.split\(n\)` or as a list of pairs"),
    (lambda: built(shards=(X.numpy(), Y.numpy())), r"`data.split\(n\)`"),
    (lambda: built(shards=X), r"got an array"),
    (lambda: built(shards=pm.datasets.breast_cancer()), r"Dataset. Use `data.split"),
    (lambda: built(nn.Linear(3, 2, device="meta")), "`weight` is on the device `meta`"),
    (lambda: solved("hsm-admm"), r"Build it: `pm.HSMADMM\(\)`"),
    (lambda: solved("deepstorm-v1"), r"`pm.DEEPSTORM\(version=1\)`"),
    (lambda: solved("adam"), "`str` is no algorithm"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_a_mistake_is_one_line(mistake: Callable[[], Any], message: str) -> None:
    with pytest.raises(pm.InputError, match=message) as caught:
        mistake()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_names_its_options(name: str) -> None:
    with pytest.raises(pm.InputError, match=r"unknown option `lr` of \w+\. .*Known: "):
        ALGORITHMS[name].kind(lr=0.1)


def test_a_known_name_is_listed_once() -> None:
    assert str(unknown("option", "x", ["a", "b", "a"])).endswith("Known: a, b.")
