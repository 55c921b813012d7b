"""Settings that used to end in a traceback, or in words that helped nobody."""

from pathlib import Path

import numpy as np
import pytest
from torch import nn

import proxmesh as pm
from proxmesh.errors import InputError
from proxmesh.runs import build
from proxmesh.runs.config import load_config
from proxmesh.theory import certify


def test_nobody_is_blamed_for_constants_that_were_not_given(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = 1e20 * rng.normal(size=(80, 3)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(80) % 2)
    with pytest.warns(pm.Notice, match="features up to"):
        data = pm.datasets.from_file(tmp_path / "a.npz")
    problem = pm.LearningProblem(
        pm.models.logistic(3, 2).float(),
        nn.functional.cross_entropy,
        data.split(4),
        batch_size=8,
    )
    with pytest.raises(InputError, match="Scale the features") as caught:
        pm.prepare(problem, pm.HSMADMM(), pm.graphs.ring(4), steps=2)
    assert "nan" not in str(caught.value)


def test_tiny_and_huge_smoothness() -> None:
    assert certify(pm.HSMADMM(), pm.graphs.ring(8), 1e-320).verdict == "stable"
    with pytest.raises(InputError, match="must be at most 1e\\+100, got 1e\\+308"):
        certify(pm.HSMADMM(), pm.graphs.ring(8), 1e308)


def test_the_remedy_after_a_run_does_not_contradict_the_one_before() -> None:
    """The ratio alone is not enough: the losses ask for more than any graph does."""
    algorithm = pm.HSMADMM(c_rho=1e-12, c_eta=1e-12, c_a=1.0)
    before = certify(algorithm, pm.graphs.ring(8), 1.0)
    assert "Raise `c_eta` from 1e-12 to 0.1667" in before.remedy
    assert "to 1.5e-12 or more. The losses may need a larger" in algorithm.remedy()


@pytest.mark.parametrize(
    ("assignment", "complaint"),
    [
        ("regularizer.weight=1e300", "too large for float32, got 1e+300"),
        ("regularizer.only=[]", "`regularizer.only` is empty"),
        ("regularizer.only=''", "`regularizer.only` is empty"),
    ],
)
def test_regularizers_that_cannot_be_used(assignment: str, complaint: str) -> None:
    config = load_config(assignments=[assignment])
    with pytest.raises(InputError) as caught:
        build._regularizer(config)
    assert complaint in str(caught.value)
