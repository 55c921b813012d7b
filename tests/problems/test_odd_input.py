"""Input that nobody plans for: one clear line instead of a traceback."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - everyone's name for it

from proxmesh.data import datasets, download
from proxmesh.data.partition import partition
from proxmesh.errors import InputError, Notice
from proxmesh.problems import (
    Box,
    GroupLasso,
    LearningProblem,
    Only,
    Simplex,
)
from proxmesh.problems.regularizers import Regularizer


def shards_of(*sizes: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(size, 4), torch.arange(size) % 3) for size in sizes]


def refused(action: Callable[[], object], *words: str) -> None:
    with pytest.raises(InputError) as caught:
        action()
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_gzip_stream(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 9, 20_000, dtype=np.uint8)
    sound = gzip.compress(noise.tobytes())
    file = tmp_path / "a.gz"
    for at in range(10, 2000, 40):
        file.write_bytes(sound[:at] + b"\xff" * 8 + sound[at + 8 :])
        refused(lambda: download._gunzip(file), "a.gz")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b,y\n1,2,0\n\nx,2,1\n", ["line 4", "column `a`"]),
        ("1,,0\n" + "2,3,1\n4,5,0\n" * 5, ["line 1"]),
        ("a,b,y\n1,2,0\n", ["one sample"]),
        ('a,"b\n1,2\n', []),
        ("x" * 200_000 + ",2\n", ["line 1"]),
    ],
)
def test_odd_csv(tmp_path: Path, text: str, words: list[str]) -> None:
    (tmp_path / "a.csv").write_text(text)
    refused(lambda: datasets.from_file(tmp_path / "a.csv"), "a.csv", *words)


def test_numbers_as_column_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0,1,target\n" + "1,2,0\n1,2,1\n" * 5)
    assert datasets.from_file(tmp_path / "a.csv").num_classes == 2


def test_odd_npz(tmp_path: Path) -> None:
    x, one_hot = np.ones((20, 3)), np.eye(2)[np.arange(20) % 2]
    file = tmp_path / "a.npz"

    np.savez(file, x=x, y=one_hot)
    refused(lambda: datasets.from_file(file), "(20, 2)")
    np.savez(file, x=x, y=one_hot, x_test=x, y_test=one_hot)
    refused(lambda: datasets.from_file(file), "(20, 2)")
    np.savez(file, x=x, y=np.array(1))
    refused(lambda: datasets.from_file(file), "()")
    file.write_bytes(b"")
    refused(lambda: datasets.from_file(file), "a.npz")
    with file.open("wb") as stream:
        np.save(stream, x)
    refused(lambda: datasets.from_file(file), "a.npz")
    noise = np.random.default_rng(0).random((500, 3))
    np.savez_compressed(file, x=noise, y=np.zeros(500))
    sound = file.read_bytes()
    file.write_bytes(sound[:60] + b"x" * 30 + sound[90:])
    refused(lambda: datasets.from_file(file), "a.npz")


def test_a_column_of_labels_is_fine(tmp_path: Path) -> None:
    y = (np.arange(20) % 2)[:, None]
    np.savez(tmp_path / "a.npz", x=np.ones((20, 3)), y=y)
    assert datasets.from_file(tmp_path / "a.npz").targets.ndim == 1


@pytest.mark.parametrize("inner", [Simplex(), Box(-1, 1)])
def test_restricted_regularizers_tell_only_what_they_know(inner: Regularizer) -> None:
    problem = LearningProblem(
        nn.Linear(4, 3),
        F.cross_entropy,
        shards_of(20, 20),
        regularizer=Only(inner, "weight"),
    )
    ones = torch.ones(2, 15)
    assert (problem.distance(ones, ones) is None) == isinstance(inner, Simplex)
    refused(lambda: problem.subgrad(ones), "offers no subgradient")


@pytest.mark.parametrize("groups", [[-1, 0], [0.0, 1.0], [[0, 1]], [0, 2]])
def test_groups_that_number_nothing(groups: list[float]) -> None:
    refused(lambda: GroupLasso(1.0, torch.tensor(groups)), "`groups`")


def test_shards_that_are_not_opened_empty_or_few() -> None:
    model = nn.Linear(4, 3)
    lazy = LearningProblem(model, F.cross_entropy, lambda agent: shards_of(5)[agent])
    refused(lambda: lazy.sample(1), "problem.local(world.agents)")
    refused(lambda: LearningProblem(model, F.cross_entropy, []), "is empty")
    few = LearningProblem(model, F.cross_entropy, lambda agent: shards_of(5, 9)[agent])
    with pytest.warns(Notice, match="samples repeat"):
        few.local((0,))


def test_negative_seeds() -> None:
    model = nn.Linear(4, 3)
    refused(
        lambda: LearningProblem(model, F.cross_entropy, shards_of(20), seed=-1),
        "`seed` must be a whole number of at least 0, got -1.",
    )
    refused(
        lambda: partition(np.arange(9), 3, "shuffled", seed=-1),
        "split `shuffled`: `seed` must be a whole number of at least 0, got -1.",
    )


def test_options_of_another_split() -> None:
    refused(
        lambda: partition(np.arange(9), 3, "contiguous", alpha=1.0),
        "unknown option `alpha` of split `contiguous`",
    )


def test_one_agent_s_batch_beyond_the_chunk_is_split() -> None:
    shards = shards_of(50, 40)
    model = nn.Linear(4, 3)
    whole, split = (
        LearningProblem(model, F.cross_entropy, shards, chunk_size=size)
        for size in (4096, 7)
    )
    x, batch = whole.x0(), whole.sample(1, size=30)
    torch.testing.assert_close(whole.grad(x, batch), split.grad(x, batch))
    torch.testing.assert_close(whole.full_grad(x), split.full_grad(x))


def test_a_loss_that_would_broadcast() -> None:
    shards = [(torch.randn(9, 4), torch.randn(9)) for _ in range(3)]
    refused(
        lambda: LearningProblem(nn.Linear(4, 1), F.mse_loss, shards, batch_size=2),
        "does not fit the samples",
        "Using a target size",
    )


def test_shards_by_name() -> None:
    named = {"north": shards_of(5)[0], "south": shards_of(5)[0]}
    refused(
        lambda: LearningProblem(nn.Linear(4, 3), F.cross_entropy, named),  # type: ignore[arg-type]
        "has the key 'north'; agents are numbered from 0.",
    )
