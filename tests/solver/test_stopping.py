"""A run stops when it gets no better, at the same place after a break; epochs."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import proxmesh as pm
from proxmesh.cli import main
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.stopping import Patience

DATA = pm.datasets.breast_cancer()
SAMPLES = 106  # of each of four agents; two of the 426 are left over


def problem(**keywords: Any) -> pm.LearningProblem:
    torch.manual_seed(0)
    return pm.LearningProblem(
        pm.models.logistic(30, 2), nn.functional.cross_entropy, DATA.split(4),
        test=DATA.test, **keywords,
    )  # fmt: skip


def solved(**keywords: Any) -> pm.Result:
    return pm.solve(problem(), pm.DSGT(alpha=0.5), pm.graphs.ring(4), **keywords)


def counted(rule: pm.EarlyStopping, values: list[float]) -> list[bool]:
    patience, stopped = Patience(rule), []
    for k, value in enumerate(values):
        patience.add({"iteration": k, rule.metric: value})
        stopped.append(patience.reason is not None)
    return stopped


def test_patience_counts_evaluations_without_a_better_value() -> None:
    losses = [3.0, 2.0, 2.0, 2.5, 1.9, 1.9, 1.9]
    rule = pm.EarlyStopping("train_loss", 2)
    assert counted(rule, losses) == [False, False, False, True, False, False, True]
    wide = pm.EarlyStopping("train_loss", 3, min_change=0.5)
    assert counted(wide, losses) == [False] * 4 + [True] * 3
    rising = pm.EarlyStopping("test_accuracy", 1)
    assert counted(rising, [0.1, 0.2, 0.2]) == [False, False, True]
    odd = pm.EarlyStopping("train_loss", 2)
    assert counted(odd, [1.0, float("nan"), float("nan")])[-1]


def test_a_run_stops_early_and_says_when_it_was_best() -> None:
    result = solved(steps=400, eval_every=5, patience={"test_loss": 3})
    assert result.outcome is pm.Outcome.STOPPED_EARLY
    assert result.outcome.is_good
    column = result.history["test_loss"]
    best = column.idxmin()
    assert best == len(column) - 4
    assert f"at iteration {result.history['iteration'][best]}" in result.message


def test_patience_survives_a_break(tmp_path: Path) -> None:
    """The evaluations before the break count: it stops at the same iteration."""
    stop = pm.EarlyStopping("test_loss", 3)
    how: dict[str, Any] = {"steps": 400, "eval_every": 5, "compile": False}
    whole = solved(**how, callbacks=[stop])
    last = whole.final["iteration"]

    def power_cut(row: Any, state: Any) -> None:
        del state
        if row["iteration"] == last - 5:
            raise SystemExit

    out = tmp_path / "run"
    with pytest.raises(SystemExit):
        solved(**how, callbacks=[stop, power_cut], out=out, checkpoint_every=1)
    resumed = pm.resume(out, problem(), callbacks=[stop])
    assert resumed.outcome is pm.Outcome.STOPPED_EARLY
    assert resumed.message == whole.message
    assert torch.equal(resumed.state.x, whole.state.x)


def test_a_callback_that_stops_a_run_reaches_no_target() -> None:
    def enough(row: Any, state: Any) -> bool:
        del state
        return bool(row["iteration"] >= 20)

    result = solved(steps=40, eval_every=10, callbacks=[enough])
    assert result.outcome is pm.Outcome.STOPPED_EARLY
    assert result.message == "by `enough` at iteration 20."


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"steps": 5, "patience": {"tst_loss": 3}}, "Did you mean `test_loss`"),
        ({"steps": 5, "patience": 0}, "whole number of at least 1, got 0"),
        ({"steps": 5, "patience": 1, "evaluation": "local"}, "leave `target`, `pat"),
        ({"steps": 5, "callbacks": pm.EarlyStopping("norm", 1)}, "must be a list"),
        ({}, "either `steps` or `epochs`, got None and None"),
        ({"steps": 5, "epochs": 2}, "either `steps` or `epochs`, got 5 and 2"),
        ({"epochs": -1}, "`epochs` must be greater than 0, got -1"),
    ],
)
def test_refusals(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(pm.InputError, match=message):
        solved(**keywords)


def test_an_epoch_goes_through_the_mean_shard_once() -> None:
    run = pm.prepare(problem(batch_size=10), pm.DSGT(), pm.graphs.ring(4), epochs=3)
    assert run.settings.steps == round(3 * SAMPLES / 10)
    uneven = DATA.split(4, "unequal", sizes=[100, 10, 20, 30])
    model, loss = pm.models.logistic(30, 2), nn.functional.cross_entropy
    other = pm.LearningProblem(model, loss, uneven, batch_size=10)
    assert pm.prepare(other, pm.DSGT(), pm.graphs.ring(4), epochs=2).settings.steps == 8


def test_the_command_line_takes_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    task = ["run", "--dataset", "breast-cancer", "--agents", "4", "--model", "logistic"]
    flags = ["--epochs", "20", "--eval-every", "2", "--patience", "test_accuracy=3"]
    with pytest.raises(SystemExit) as ended:
        main([*task, *flags, "--batch", "32", "--out", out])
    assert ended.value.code == 0
    assert "stopped early: test_accuracy was best" in capsys.readouterr().out
    written = RunFolder(Path(out)).config()["run"]
    assert written["steps"] == round(20 * SAMPLES / 32)
    assert "epochs" not in written
    assert written["patience"] == {"test_accuracy": 3}
    for wrong, message in (
        (["--epochs", "2", "--steps", "3"], "two lengths of one run"),
        (["--patience", "soon"], "is not METRIC=N or N evaluations"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*task, *wrong, "--out", str(tmp_path / "other")])
        assert ended.value.code == 2
        assert message in capsys.readouterr().err
