"""Splits: everyone gets own rows, of the right number and the right labels."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from proxmesh.data.partition import SPLITS, partition
from proxmesh.errors import InputError

ALL_SPLITS = sorted(SPLITS)
EQUAL_SPLITS = ["by-label", "contiguous", "shuffled"]
SEEDED_SPLITS = ["dirichlet", "shuffled", "unequal"]


def labels_of(samples: int, classes: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, classes, samples)


@pytest.mark.parametrize("split", ALL_SPLITS)
@pytest.mark.parametrize(("samples", "n"), [(100, 7), (60, 6), (1000, 1)])
def test_nobody_shares_a_row(split: str, samples: int, n: int) -> None:
    shards = partition(labels_of(samples, 4), n, split)
    held = np.concatenate(shards)
    assert len(shards) == n
    assert len(np.unique(held)) == len(held)
    assert held.min() >= 0
    assert held.max() < samples


@pytest.mark.parametrize("split", EQUAL_SPLITS)
def test_equal_splits_have_equal_sizes(split: str) -> None:
    shards = partition(labels_of(103, 4), 5, split)
    assert [len(shard) for shard in shards] == [20] * 5


@pytest.mark.parametrize("split", ["dirichlet", "unequal"])
def test_the_other_splits_leave_no_row_out(split: str) -> None:
    shards = partition(labels_of(103, 4), 5, split)
    assert sorted(np.concatenate(shards)) == list(range(103))


def test_contiguous_blocks_are_the_papers() -> None:
    shards = partition(np.zeros(32_561, np.int64), 8)
    for r, shard in enumerate(shards):
        assert np.array_equal(shard, np.arange(4070 * r, 4070 * (r + 1)))


def test_shuffled_rows_are_in_no_order() -> None:
    first = partition(np.zeros(1000, np.int64), 4, "shuffled")[0]
    # 250 rows drawn from 1000 spread over all of them: about 62 in each quarter.
    counts = np.bincount(first // 250, minlength=4)
    assert counts.min() > 40


@pytest.mark.parametrize(("classes", "n"), [(2, 8), (10, 10), (10, 16), (3, 5)])
def test_by_label_shows_at_most_two_labels(classes: int, n: int) -> None:
    labels = np.random.default_rng(1).permutation(np.arange(960) % classes)
    shards = partition(labels, n, "by-label")
    seen = [set(labels[shard].tolist()) for shard in shards]
    assert max(map(len, seen)) <= 2
    assert set.union(*seen) == set(range(classes))


def test_by_label_keeps_the_order_within_a_label() -> None:
    shards = partition(np.array([1, 0, 1, 0, 1, 0]), 2, "by-label")
    assert [shard.tolist() for shard in shards] == [[1, 3, 5], [0, 2, 4]]


def test_dirichlet_skew_grows_as_alpha_falls() -> None:
    labels = labels_of(4000, 10)
    overall = np.bincount(labels, minlength=10) / len(labels)

    def skew(alpha: float) -> float:
        """Mean total variation between an agent's labels and everybody's."""
        total = 0.0
        for seed in range(5):
            for shard in partition(labels, 8, "dirichlet", seed=seed, alpha=alpha):
                mine = np.bincount(labels[shard], minlength=10) / len(shard)
                total += abs(mine - overall).sum() / 2
        return total / 40

    skews = [skew(alpha) for alpha in (100.0, 10.0, 1.0, 0.1)]
    assert skews == sorted(skews)
    assert skews[0] < 0.1  # nearly everybody's labels
    assert skews[-1] > 0.5  # most of an agent's samples are of few classes


def test_dirichlet_draws_again_until_everyone_has_a_sample() -> None:
    # With 3 classes, 6 agents and alpha = 0.1, most draws leave somebody out.
    labels = np.arange(60) % 3
    for seed in range(5):
        shards = partition(labels, 6, "dirichlet", seed=seed, alpha=0.1)
        assert min(map(len, shards)) >= 1


def test_unequal_grows_linearly() -> None:
    sizes = [len(shard) for shard in partition(labels_of(1000, 2), 4, "unequal")]
    assert sizes == [100, 200, 300, 400]


def test_unequal_with_own_sizes() -> None:
    shards = partition(labels_of(50, 2), 3, "unequal", sizes=[1, 30, 5])
    assert [len(shard) for shard in shards] == [1, 30, 5]


@pytest.mark.parametrize("split", SEEDED_SPLITS)
def test_the_seed_makes_the_split(split: str) -> None:
    labels = labels_of(200, 3)

    def draw(seed: int) -> list[list[int]]:
        return [shard.tolist() for shard in partition(labels, 4, split, seed=seed)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


@pytest.mark.parametrize("split", ["by-label", "contiguous"])
def test_some_splits_need_no_seed(split: str) -> None:
    labels = labels_of(200, 3)
    one, two = (partition(labels, 4, split, seed=seed) for seed in (1, 2))
    assert [s.tolist() for s in one] == [s.tolist() for s in two]


@pytest.mark.parametrize(
    ("n", "split", "options", "message"),
    [
        (
            2,
            "shufled",
            {},
            "unknown split `shufled`. Did you mean `shuffled`? Known: by-label, "
            "contiguous, dirichlet, shuffled, unequal.",
        ),
        (
            11,
            "contiguous",
            {},
            "split `contiguous`: 11 agents but only 10 training samples; every agent "
            "needs one. Lower the number of agents.",
        ),
        (
            2,
            "dirichlet",
            {"alpha": 0.0},
            "split `dirichlet`: `alpha` must be positive and finite, got 0.0.",
        ),
        (
            2,
            "dirichlet",
            {"alpha": float("nan")},
            "split `dirichlet`: `alpha` must be positive and finite, got nan.",
        ),
        (
            10,
            "dirichlet",
            {"alpha": 0.01},
            "split `dirichlet`: 100 draws with alpha=0.01 all left one of 10 agents "
            "without samples. Raise `alpha` or lower the number of agents.",
        ),
        (
            2,
            "unequal",
            {"sizes": [3, 8]},
            "split `unequal`: `sizes` must be 2 positive numbers with a sum of at "
            "most 10, got [3, 8].",
        ),
        (
            2,
            "unequal",
            {"sizes": [3, 0]},
            "split `unequal`: `sizes` must be 2 positive numbers with a sum of at "
            "most 10, got [3, 0].",
        ),
        (
            2,
            "unequal",
            {"sizes": [1, 1, 1]},
            "split `unequal`: `sizes` must be 2 positive numbers with a sum of at "
            "most 10, got [1, 1, 1].",
        ),
        (
            5,
            "unequal",
            {},
            "split `unequal` leaves agent 0 without samples. Lower the number of "
            "agents or choose another split.",
        ),
    ],
)
def test_refusals(n: int, split: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        partition(np.arange(10) % 2, n, split, **options)
    assert str(caught.value) == message
