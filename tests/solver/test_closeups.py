"""Every agent's numbers and the first layer, kept small, the same after a cut."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from zoo import ROUND, GoldenQuadratics, Quadratics, classifier, method

import proxmesh as pm
from proxmesh.solver import closeups
from proxmesh.solver.closeups import MOST_PATTERNS, spacing, thinned
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.journal import Seen

NAMES = (RunFolder.EACH_AGENT, RunFolder.FIRST_LAYER)


class PowerCutError(Exception):
    """Ends a run without a word."""


def solved(out: Path, **more: Any) -> pm.Result:
    arguments = {"steps": 60, "eval_every": 1, **more}
    return pm.solve(classifier(), ROUND, pm.graphs.star(4), out=out, **arguments)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few looks are kept that a short run halves their number several times."""
    monkeypatch.setattr(closeups, "FEWEST_LOOKS", 6)
    monkeypatch.setattr(closeups, "MOST_LOOKS", 6)
    monkeypatch.setattr(closeups, "MOST_PATTERNS", 5)


def test_they_add_up_to_the_history(tmp_path: Path) -> None:
    result = solved(tmp_path / "run", eval_every=20)
    folder = RunFolder(tmp_path / "run")
    table, layer = folder.agents(), folder.first_layer()
    assert table is not None
    assert layer is not None
    assert list(table) == ["iteration", "agent", "train_loss", "consensus"]
    assert table["agent"].tolist() == [0, 1, 2, 3] * 4
    together = table.groupby("iteration").agg(
        {"train_loss": "mean", "consensus": "sum"}
    )
    history = result.history.set_index("iteration")
    for name in together:
        np.testing.assert_allclose(together[name], history[name], 1e-6, 1e-12)
    assert layer.iterations == [0, 20, 40, 60] == sorted(set(table["iteration"]))
    sparse = result.sparse_model
    assert sparse is not None
    weight = next(w for w in sparse.parameters() if w.ndim > 1)
    assert layer.shape == tuple(weight.shape) == layer.density.shape[1:]
    left = (weight.abs() > 1e-6).numpy()
    assert np.array_equal(layer.density[-1], left.astype(float))
    assert 0 < left.mean() < 1, "the test would see a wrong pattern"


@pytest.mark.usefixtures("few")
def test_few_looks_are_kept_and_the_same_after_a_cut(tmp_path: Path) -> None:
    solved(tmp_path / "whole")

    def cut(row: Any, state: Any) -> None:
        del state
        if row["iteration"] >= 47:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        solved(tmp_path / "run", checkpoint_every=9, callbacks=[cut])
    begun = RunFolder(tmp_path / "run").agents()
    assert begun is not None
    assert begun["iteration"].max() == 32, "what will stay is there while it goes"
    pm.resume(tmp_path / "run", classifier())
    for name in NAMES:
        ours, theirs = (tmp_path / run / name for run in ("run", "whole"))
        assert ours.read_bytes() == theirs.read_bytes()
    table = RunFolder(tmp_path / "run").agents()
    layer = RunFolder(tmp_path / "run").first_layer()
    assert table is not None
    assert layer is not None
    assert sorted(set(table["iteration"])) == [0, 16, 32, 48, 60]
    assert layer.iterations == [0, 16, 32, 48, 60]


def test_an_earlier_run_leaves_none_behind(tmp_path: Path) -> None:
    solved(tmp_path / "run", steps=2)
    assert all((tmp_path / "run" / name).exists() for name in NAMES)
    solved(tmp_path / "run", steps=2, evaluation="local", force=True)
    assert not any((tmp_path / "run" / name).exists() for name in NAMES)


def test_problems_that_tell_less_have_no_such_files(tmp_path: Path) -> None:
    golden: Any = GoldenQuadratics()
    graph = pm.graphs.star(4)
    pm.solve(golden, ROUND, graph, steps=2, x0=golden.x0, out=tmp_path / "golden")
    folder = RunFolder(tmp_path / "golden")
    assert folder.agents() is None
    assert folder.first_layer() is None
    lasso = Quadratics.random(4, 3, 0.1, seed=0)
    rows = torch.zeros(4, 3)
    pm.solve(lasso, method("dsgt"), graph, steps=2, x0=rows, out=tmp_path / "lasso")
    folder = RunFolder(tmp_path / "lasso")
    assert folder.agents() is not None
    assert folder.first_layer() is None, "there is no model"


def test_too_many_agents_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closeups, "MOST_AGENTS", 3)
    solved(tmp_path / "run", steps=2)
    assert RunFolder(tmp_path / "run").agents() is None
    assert RunFolder(tmp_path / "run").first_layer() is not None


def test_a_large_layer_is_shown_in_cells(tmp_path: Path) -> None:
    inputs, labels = torch.randn(40, 150), torch.arange(40) % 2
    problem = pm.LearningProblem(
        torch.nn.Linear(150, 2),
        torch.nn.functional.cross_entropy,
        [(inputs[i::4], labels[i::4]) for i in range(4)],
        regularizer=pm.L1(0.05),
        batch_size=4,
    )
    pm.solve(problem, ROUND, pm.graphs.star(4), steps=40, out=tmp_path / "run")
    layer = RunFolder(tmp_path / "run").first_layer()
    assert layer is not None
    assert layer.density.shape == (len(layer.iterations), 2, 96)
    assert layer.shape == (2, 150)
    assert len(layer.iterations) <= MOST_PATTERNS


@pytest.mark.parametrize("count", [1, 5, 6, 7, 100, 1000])
def test_what_is_kept_depends_on_the_count_alone(count: int) -> None:
    seen: list[Seen] = []
    for number in range(count):
        seen = thinned([*seen, Seen(number, number, torch.empty(0))], most=6)
    every = spacing(count - 1, 5)
    expected = sorted({*range(0, count, every), count - 1})
    assert [s.number for s in seen] == expected
    assert len(seen) <= 6
