"""Loggers are handed every row of the history, and closed whatever happens."""

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import proxmesh as pm
from proxmesh.solver.settings import Logger


def problem() -> pm.LearningProblem:
    torch.manual_seed(0)
    shards = pm.datasets.breast_cancer().split(3)
    return pm.LearningProblem(
        pm.models.logistic(30, 2), nn.functional.cross_entropy, shards
    )


def solved(*callbacks: Any, **keywords: Any) -> pm.Result:
    keywords = {"steps": 20, "eval_every": 5, "callbacks": callbacks, **keywords}
    return pm.solve(problem(), pm.DSGT(alpha=0.1), pm.graphs.path(3), **keywords)


def rows_in(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_csv_has_the_history(tmp_path: Path) -> None:
    logger = pm.loggers.CSV(tmp_path / "deep" / "rows.csv")
    history = solved(logger).history
    found = rows_in(logger.path)
    assert [int(row["iteration"]) for row in found] == list(history["iteration"])
    assert [float(row["train_loss"]) for row in found] == list(history["train_loss"])
    with pytest.raises(pm.InputError, match="exists already"):
        solved(logger)


def test_csv_of_a_run_that_goes_on_is_whole(tmp_path: Path) -> None:
    def power_cut(row: Any, state: Any) -> None:
        del state
        if row["iteration"] == 15:
            raise SystemExit

    file, out = tmp_path / "rows.csv", tmp_path / "run"
    with pytest.raises(SystemExit):
        solved(pm.loggers.CSV(file), power_cut, out=out, checkpoint_every=6)
    result = pm.resume(out, problem(), callbacks=[pm.loggers.CSV(file)])
    found = [int(row["iteration"]) for row in rows_in(file)]
    assert found == list(result.history["iteration"]) == [0, 5, 10, 15, 20]


def test_tensorboard_has_the_history(tmp_path: Path) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    logger = pm.loggers.TensorBoard(tmp_path)
    history = solved(logger).history
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    found = events.Scalars("train_loss")
    assert [event.step for event in found] == list(history["iteration"])
    for event, value in zip(found, history["train_loss"], strict=True):
        assert event.value == pytest.approx(value, rel=1e-6)  # kept in float32


def test_wandb_offline_has_the_history(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    logger = pm.loggers.WandB("proxmesh", mode="offline", dir=str(tmp_path))
    solved(logger)
    assert list(tmp_path.rglob("*.wandb"))


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(pm.InputError, match="needs the package wandb: `pip install"):
        pm.loggers.WandB("proxmesh")


class Closing:
    """A logger of one's own."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def begin(self, rows: Any) -> None:
        self.heard.append(f"begin {len(rows)}")

    def on_row(self, row: Any) -> None:
        self.heard.append(f"{row['iteration']:.0f}")

    def close(self) -> None:
        self.heard.append("close")


def test_a_logger_of_ones_own_is_closed_also_after_a_failure() -> None:
    def fails(row: Any, state: Any) -> None:
        del row, state
        raise KeyError("mine")

    logger = Closing()
    assert isinstance(logger, Logger)
    with pytest.raises(KeyError, match="mine"):
        solved(logger, fails)
    assert logger.heard == ["begin 0", "0", "5", "close"]
