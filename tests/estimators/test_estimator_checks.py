"""Every check that scikit-learn has for an estimator passes; none is excused."""

from collections.abc import Callable
from typing import Any
from unittest import SkipTest

import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

import proxmesh as pm

TINY: dict[str, Any] = {  # they are about the interface: few steps, few evaluations
    "graph": "path",
    "agents": 2,
    "steps": 7,
    "settings": {"compile": False, "eval_every": 7},
}
MLP: dict[str, Any] = {
    "model": "mlp",
    "module__hidden": 4,
    "regularizer": pm.L1(1e-3),
    "split": "by-label",
    "steps": 40,
    "settings": {"compile": False},
}
KINDS = (pm.DecentralizedClassifier, pm.DecentralizedRegressor)


@pytest.fixture(autouse=True)
def _as_users_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_default_dtype(torch.float32)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # or one check skips itself


def passed(check: Callable[[Any], None], estimator: Any) -> None:
    try:
        check(estimator)
    except SkipTest as reason:
        pytest.fail(f"skipped: {reason}")


@parametrize_with_checks([kind(**TINY) for kind in KINDS])  # type: ignore[untyped-decorator]
def test_check(estimator: Any, check: Callable[[Any], None]) -> None:
    passed(check, estimator)


@pytest.mark.soak
@parametrize_with_checks([kind(**MLP) for kind in KINDS])  # type: ignore[untyped-decorator]
def test_check_of_a_network(estimator: Any, check: Callable[[Any], None]) -> None:
    passed(check, estimator)
