"""Losses by name, and predictions of trained runs."""

import csv
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from proxmesh.cli import main
from proxmesh.problems.losses import huber, logistic, squared

SHORT = ["--agents", "3", "--steps", "60", "--batch", "16", "--quiet", "--l1", "0"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    writing = import_module("proxmesh.report.writing")
    monkeypatch.setattr(writing, "_written", lambda _, file, *__: file)


def proxmesh(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


def table(rows: int = 90) -> tuple[Any, Any]:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(rows, 3))
    return x, x @ np.array([1.0, -2.0, 0.5]) + 3


def as_csv(file: str, x: Any, y: Any | None = None) -> None:
    rows = x.tolist() if y is None else [[*a, b] for a, b in zip(x, y, strict=True)]
    with Path(file).open("w", newline="") as text:
        writer = csv.writer(text)
        writer.writerow(["a", "b", "c", *([] if y is None else ["y"])])
        writer.writerows(rows)


def predictions(file: str = "run/predictions.csv") -> list[dict[str, str]]:
    with Path(file).open() as text:
        return list(csv.DictReader(text))


def test_losses_are_means_over_samples() -> None:
    outputs, numbers = torch.randn(5, 1), torch.randn(5)
    errors = outputs[:, 0] - numbers
    assert torch.isclose(squared(outputs, numbers), errors.square().mean())
    small = errors.abs().clamp(max=1)
    by_hand = (small * errors.abs() - small.square() / 2).mean()
    assert torch.isclose(huber(outputs, numbers), by_hand)
    labels = torch.tensor([0, 1, 1, 0, 1])
    two = torch.cat([torch.zeros(5, 1), outputs], 1)
    assert torch.isclose(
        logistic(outputs, labels), functional.cross_entropy(two, labels)
    )


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_numbers_are_predicted(loss: str, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = table()
    as_csv("own.csv", x, y)
    task = ["--dataset", "own.csv", "--model", "logistic", "--loss", loss]
    own = ["--set", "data.standardize=true", "--algorithm", "dsgt"]
    step = ["--set", "algorithm.alpha=0.1"]
    assert proxmesh("run", *task, *SHORT, *own, *step, "--out", "run") == 0
    header = Path("run/history.csv").read_text().splitlines()[0].split(",")
    assert {"train_rmse", "test_rmse", "test_r2"} <= {*header}
    assert "test_accuracy" not in header
    as_csv("new.csv", x[:7])  # without labels
    assert proxmesh("predict", "run", "new.csv") == 0
    found = np.array([float(row["prediction"]) for row in predictions()])
    assert np.abs(found - y[:7]).max() < 0.3
    capsys.readouterr()
    assert proxmesh("predict", "run", "new.csv") == 2  # nothing is overwritten
    assert "--force" in capsys.readouterr().err
    assert proxmesh("predict", "run", "own.csv", "--out", "all.csv") == 0
    assert "R2 " in capsys.readouterr().out


def test_numbers_in_libsvm_and_npz_files() -> None:
    x, y = table(40)
    lines = (
        f"{b:.6f} " + " ".join(f"{j + 1}:{v:.6f}" for j, v in enumerate(a))
        for a, b in zip(x, y, strict=True)
    )
    Path("own.svm").write_text("\n".join(lines) + "\n")
    np.savez("own.npz", x=x, y=y)
    for name in ("own.svm", "own.npz"):
        task = ["--dataset", name, "--model", "logistic", "--loss", "squared"]
        assert proxmesh("run", *task, *SHORT, "--steps", "3", "--out", name[4:]) == 0
        assert proxmesh("predict", name[4:], name) == 0
        assert len(predictions(f"{name[4:]}/predictions.csv")) == 40


@pytest.mark.parametrize("loss", ["cross-entropy", "logistic"])
def test_words_are_encoded_and_decoded(
    loss: str, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = table()
    words = np.where(y > 3, "yes", "no")
    as_csv("own.csv", x, words)
    task = ["--dataset", "own.csv", "--model", "logistic", "--loss", loss]
    assert proxmesh("run", *task, *SHORT, "--out", "run") == 0
    capsys.readouterr()
    assert proxmesh("predict", "run", "own.csv") == 0
    found = [row["prediction"] for row in predictions()]
    share = np.mean([a == b for a, b in zip(found, words, strict=True)])
    assert share > 0.9
    assert f"share of correct labels {share:.4f}" in capsys.readouterr().out
    assert all(0.5 <= float(row["probability"]) <= 1 for row in predictions())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--dataset", "numbers.csv"], "use `--loss squared`"),
        (["--dataset", "words.csv", "--loss", "squared"], "is a word, not a number"),
        (["--dataset", "three.csv", "--loss", "logistic"], "needs two classes"),
        (["--loss", "squared"], "the labels of dataset `a9a` are classes"),
        (["--loss", "l2"], "`model.loss`"),
    ],
)
def test_losses_that_do_not_fit_the_labels(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = table(12)
    as_csv("numbers.csv", x, y)
    as_csv("words.csv", x, ["yes", "no"] * 6)
    as_csv("three.csv", x, ["yes", "no", "maybe"] * 4)
    assert proxmesh("run", *arguments, "--steps", "2", "--agents", "2") == 2
    assert told in capsys.readouterr().err


def test_predictions_that_cannot_be_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert proxmesh("predict", "nowhere", "a.csv") == 2
    assert "has no trained model" in capsys.readouterr().err
    x, y = table(30)
    as_csv("own.csv", x, np.where(y > 3, 1, 0))
    task = ["--dataset", "own.csv", "--model", "logistic"]
    assert proxmesh("run", *task, *SHORT, "--steps", "2", "--out", "run") == 0
    capsys.readouterr()
    Path("wide.csv").write_text("a,b,c,d,e,f\n1,2,3,4,5,6\n")
    assert proxmesh("predict", "run", "wide.csv") == 2
    assert "trained on 3" in capsys.readouterr().err
    assert not Path("run/predictions.csv").exists()
