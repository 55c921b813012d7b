"""Sparse files: they stay sparse, and what is wrong with them is one line."""

import bz2
import gzip
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch import nn

import proxmesh as pm
from proxmesh.cli import main
from proxmesh.data import datasets, sparse_files
from proxmesh.data.agent_files import agent_files, load_agents
from proxmesh.data.sparse import SparseTable
from proxmesh.errors import InputError

ROWS, FEATURES, ENTRIES = 130, 47_236, 75


def rcv1(rows: int = ROWS, features: int = FEATURES, seed: int = 0) -> Any:
    """A matrix of the shape of rcv1, and labels that follow from it."""
    draw = np.random.default_rng(seed)
    columns = np.stack([draw.choice(features, ENTRIES, False) for _ in range(rows)])
    columns.sort(1)
    columns[0, -1] = features - 1
    values = draw.random((rows, ENTRIES)).astype(np.float32)
    offsets = np.arange(0, rows * ENTRIES + 1, ENTRIES)
    x = sp.csr_array((values.ravel(), columns.ravel(), offsets), (rows, features))
    return x, np.where(values[:, 0] > 0.5, 1, -1)


def as_libsvm(x: Any, y: Any, first: int = 1) -> bytes:
    lines = []
    for i, label in enumerate(y):
        part = slice(x.indptr[i], x.indptr[i + 1])
        pairs = zip(x.indices[part] + first, x.data[part], strict=True)
        lines.append(f"{label} " + " ".join(f"{j}:{v:.9g}" for j, v in pairs))
    return "\n".join(lines).encode() + b"\n"


def same(table: Any, x: Any) -> bool:
    back = (table.values.numpy(), table.columns.numpy(), table.offsets.numpy())
    apart = abs(sp.csr_array(back, table.shape) - x.astype(np.float32)).max()
    return float(apart) == 0


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        action()
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize("ending", ["", ".gz", ".bz2"])
def test_a_libsvm_file_stays_sparse(tmp_path: Path, ending: str) -> None:
    x, y = rcv1()
    pack: Any = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[ending]
    train = tmp_path / f"rcv1_train.binary{ending}"
    test = tmp_path / f"rcv1_test.binary{ending}"
    train.write_bytes(pack(as_libsvm(x, y)))
    test.write_bytes(pack(as_libsvm(x[:50, :30_000], y[:50])))
    data = datasets.from_file(train, test=test)
    assert isinstance(data.inputs, SparseTable)
    assert same(data.inputs, x)
    assert data.features == FEATURES
    assert data.labels == (-1.0, 1.0)
    assert data.test is not None
    # Of its own 30,000 features it would be small enough to be dense.
    assert tuple(data.test[0].shape) == (50, FEATURES)
    shards = data.split(4, "shuffled", seed=1)
    assert sum(len(table) for table, _ in shards) == 4 * (ROWS // 4)
    problem = pm.LearningProblem(
        pm.models.logistic(FEATURES, 2).float(),
        nn.functional.cross_entropy,
        shards,
        test=data.test,
        batch_size=8,
    )
    assert problem.sparse is not None
    assert 0 <= problem.test(problem.x0()[0])["test_accuracy"] <= 1


def test_a_small_file_is_a_plain_tensor(tmp_path: Path) -> None:
    file = tmp_path / "a.svm"
    file.write_text("1 1:1 400:2\n-1 2:1\n" * 10)
    assert isinstance(datasets.from_file(file).inputs, torch.Tensor)


@pytest.mark.parametrize("labels", ["inside", "beside"])
def test_a_matrix_that_scipy_saved(tmp_path: Path, labels: str) -> None:
    x, y = rcv1()
    file = tmp_path / "x.npz"
    options: Any = {}
    sp.save_npz(file, x)
    if labels == "inside":
        parts = dict(np.load(file))
        np.savez(file, **parts, y=y)
    else:
        assert "no labels" in refusal(lambda: datasets.from_file(file))
        np.savez(tmp_path / "y.npz", y=y)
        options = {"labels": tmp_path / "y.npz"}
    data = datasets.from_file(file, test_share=0.1, **options)
    assert isinstance(data.inputs, SparseTable)
    assert len(data.inputs) == ROWS - 13


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"shape": np.array([ROWS, 10**9])}, "1,000,000,000 features"),
        ({"shape": np.array([ROWS, 100])}, "but it has 100"),
        ({"shape": np.array([ROWS + 1, FEATURES])}, "do not fit together"),
        ({"shape": np.array([ROWS])}, "two dimensions"),
        ({"indptr": np.zeros(ROWS + 1, int)}, "do not fit together"),
        ({"indptr": np.zeros((ROWS + 1, 2), int)}, "whole numbers"),
        ({"indices": np.full(ROWS * ENTRIES, -1)}, "run from -1"),
        ({"format": np.array(b"csc")}, "in the form `b'csc'`"),
        ({"data": np.full(ROWS * ENTRIES, np.nan)}, "row 0, column"),
        ({"y": np.arange(3)}, "must be [samples, ...]"),
    ],
)
def test_broken_matrices_are_refused(
    tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    x, y = rcv1()
    parts: dict[str, Any] = {
        "data": x.data,
        "indices": x.indices,
        "indptr": x.indptr,
        "shape": np.array(x.shape),
        "format": np.array(b"csr"),
        "y": y,
    }
    np.savez(tmp_path / "a.npz", **parts | changed)
    assert told in refusal(lambda: datasets.from_file(tmp_path / "a.npz"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 1000000000:1\n-1 1:1\n", "1,000,000,000 features"),
        ("1 0:1 2:1\n-1 1:1\n", "feature with the number 0, but the first is 1"),
        ("1 -3:1 2:1\n-1 1:1\n", "feature with the number -3"),
        ("1 3:1 2:1\n-1 1:1\n", "sorted and unique"),
    ],
)
def test_numbers_of_features_that_cannot_be(
    tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "a.svm").write_text(text)
    assert told in refusal(lambda: datasets.from_file(tmp_path / "a.svm"))


def test_a_file_that_begins_at_0(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 0:5 2:1\n-1 1:1\n-1 2:1\n")
    data = datasets.from_file(tmp_path / "a.svm", zero_based=True)
    assert data.features == 3


def test_a_dense_model_gets_dense_samples_of_a_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparse_files, "SMALL", 10)
    x, y = rcv1(rows=40, features=500)
    (tmp_path / "a.svm").write_bytes(as_libsvm(x, y))
    data = datasets.from_file(tmp_path / "a.svm")
    assert isinstance(data.inputs, SparseTable)
    given = (nn.functional.cross_entropy, data.split(2))
    problem = pm.LearningProblem(nn.Linear(500, 2), *given, test=data.test)
    assert problem.sparse is None
    assert problem.sample(0).inputs[0].shape[-1] == 500
    monkeypatch.setattr("proxmesh.problems.sparse_form.MOST_DENSE", 100)
    told = refusal(lambda: pm.LearningProblem(nn.Linear(500, 2), *given))
    assert "`Linear` cannot take sparse samples" in told
    assert "SparseLinear" in told


def test_one_file_per_agent(tmp_path: Path) -> None:
    x, y = rcv1()
    (tmp_path / "agent-0.svm.bz2").write_bytes(bz2.compress(as_libsvm(x, y)))
    (tmp_path / "agent-1.libsvm").write_bytes(as_libsvm(x[:9, :900], y[:9]))
    (tmp_path / "test.svm").write_bytes(as_libsvm(x[:20], y[:20]))
    assert sorted(agent_files(tmp_path)) == [0, 1]
    found = load_agents(tmp_path, [0, 1], lambda number: number)
    assert found.dataset.num_classes == 2
    tables = [found.shards[agent][0] for agent in (0, 1)]
    assert [tuple(t.shape) for t in tables] == [(ROWS, FEATURES), (9, FEATURES)]
    assert all(isinstance(t, SparseTable) for t in tables)
    model = pm.models.logistic(FEATURES, 2)
    loss = nn.functional.cross_entropy
    problem = pm.LearningProblem(
        model, loss, found.shards, test=found.dataset.test, batch_size=4
    )
    assert problem.grad(problem.x0(), problem.sample(1)).isfinite().all()


def test_rcv1_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    torch.set_default_dtype(torch.float32)
    x, y = rcv1()
    packed = bz2.compress(as_libsvm(x, y))
    Path("rcv1_train.binary.bz2").write_bytes(packed)
    short = ["--steps", "3", "--agents", "3", "--batch", "8", "--out", "run", "--quiet"]
    task = ["--dataset", "rcv1_train.binary.bz2", "--model", "logistic"]
    with pytest.raises(SystemExit) as left:
        main(["run", *task, *short])
    assert not left.value.code
    config = tomllib.loads(Path("run/config.toml").read_text())
    assert config["run"]["sparse"] in {"kernel", "gather", "dense"}
    again = ["--config", "run/config.toml", "--out", "again", "--quiet"]
    with pytest.raises(SystemExit) as left:
        main(["run", *again])
    assert not left.value.code
    costly = "seconds"
    first, second = (pd.read_csv(f"{run}/history.csv") for run in ("run", "again"))
    assert first.drop(columns=costly).equals(second.drop(columns=costly))
    with pytest.raises(SystemExit) as left:
        main(["predict", "run", "rcv1_train.binary.bz2"])
    assert not left.value.code
    assert f"{ROWS} predictions" in capsys.readouterr().out
    assert {*pd.read_csv("run/predictions.csv")["prediction"]} <= {-1, 1}
