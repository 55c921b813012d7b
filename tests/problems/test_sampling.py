"""Draws are a pure function of (seed, agent, k, stream, position), and uniform."""

import pytest
import torch
from torch import Tensor

from proxmesh.hashing import derived_seed
from proxmesh.problems.sampling import Sampler

CPU = torch.device("cpu")

# Chi-square with 99 degrees of freedom: mean 99, standard deviation 14. The seed is
# fixed, so this is no lottery; a biased or clumped hash gives thousands.
CHI_SQUARE_99 = 160.0

# Recorded once. Whatever changes them changes the draws of every published run.
GOLDEN_SEED = 3966284628
GOLDEN = [
    [3, 1, 8, 6, 4, 2],
    [89, 330, 28, 76, 554, 771],
    [1011, 1010, 1010, 1012, 1010, 1012],
]
GOLDEN_STREAM_1 = [
    [9, 0, 3, 3, 2, 9],
    [564, 246, 320, 734, 370, 231],
    [1011, 1012, 1012, 1011, 1012, 1010],
]


def sampler(
    agents: tuple[int, ...], sizes: list[int] | None = None, seed: int = 0
) -> Sampler:
    return Sampler.over(seed, agents, sizes or [1000] * len(agents), CPU)


def within_shards(of: Sampler, rows: Tensor) -> Tensor:
    return rows - of.offsets


def chi_square(draws: Tensor, cells: int) -> float:
    counts = torch.bincount(draws.flatten(), minlength=cells).double()
    expected = draws.numel() / cells
    return float(((counts - expected) ** 2 / expected).sum())


def test_golden_indices() -> None:
    draw = sampler((0, 1, 5), [10, 1000, 3], seed=7)
    assert draw.indices(3, 6).tolist() == GOLDEN
    assert draw.indices(3, 6, stream=1).tolist() == GOLDEN_STREAM_1


@pytest.mark.parametrize("agents", [(0,), (3,), (1, 4), (4, 1), (5, 3, 0)])
def test_a_subset_of_agents_draws_the_same(agents: tuple[int, ...]) -> None:
    sizes = [50, 60, 1000, 7, 33, 1]
    everyone = sampler(tuple(range(6)), sizes)
    some = sampler(agents, [sizes[agent] for agent in agents])
    for k in (0, 1, 12345):
        expected = within_shards(everyone, everyone.indices(k, 9))
        found = within_shards(some, some.indices(k, 9))
        assert torch.equal(found, expected[list(agents)])


def test_a_longer_batch_begins_with_the_shorter_one() -> None:
    draw = sampler((0, 1, 2))
    assert torch.equal(draw.indices(4, 20)[:, :5], draw.indices(4, 5))


def test_the_same_call_draws_the_same() -> None:
    assert torch.equal(sampler((0, 1)).indices(9, 30), sampler((0, 1)).indices(9, 30))


def test_everything_in_the_key_matters() -> None:
    reference = sampler((0, 1))
    drawn = reference.indices(5, 30)
    others = {
        "k": reference.indices(6, 30),
        "stream": reference.indices(5, 30, stream=1),
        "seed": sampler((0, 1), seed=1).indices(5, 30),
        "agent": sampler((2, 3)).indices(5, 30),
        "position": drawn.roll(1, dims=1),
    }
    for changed, other in others.items():
        # Draws of 1 in 1000 agree by chance in about 0.06 of 60 places.
        assert (other == drawn).sum() <= 2, changed
    assert (within_shards(reference, drawn)[0] == drawn[0]).all()
    assert (within_shards(reference, drawn)[1] != drawn[0]).any()


def test_streams_and_iterations_do_not_overlap() -> None:
    draw = sampler((0,), [2**31 - 1])
    batches = [
        draw.indices(k, 50, stream=stream) for k in range(40) for stream in range(4)
    ]
    values = torch.cat(batches).flatten()
    # 8000 draws of 2^31 values collide 0.015 times on average: overlap would show.
    assert len(torch.unique(values)) >= len(values) - 1


@pytest.mark.parametrize("k", [0, 1, 77, 10**6, 2**31 + 5])
@pytest.mark.parametrize("stream", [0, 1, 3])
def test_int_and_tensor_k_agree(k: int, stream: int) -> None:
    draw = sampler((0, 1, 2), [10, 20, 30])
    by_tensor = draw.indices(torch.tensor(k), 8, stream)
    assert torch.equal(by_tensor, draw.indices(k, 8, stream))
    assert by_tensor.dtype == torch.int64


@pytest.mark.parametrize("sizes", [[1, 1, 1], [1, 5, 2], [1000, 1, 40]])
def test_indices_stay_within_the_shard(sizes: list[int]) -> None:
    drawn = sampler((0, 1, 2), sizes).indices(2, 2000)
    start = 0
    for row, size in zip(drawn, sizes, strict=True):
        assert row.min() >= start
        assert row.max() < start + size
        if size <= 40:
            assert len(torch.unique(row)) == size
        start += size


@pytest.mark.parametrize("seed", [0, 1, 2**31])
def test_draws_are_uniform_over_a_batch(seed: int) -> None:
    drawn = sampler((0,), [100], seed).indices(1, 20_000)
    assert 40 < chi_square(drawn, 100) < CHI_SQUARE_99


def test_draws_are_uniform_over_iterations_agents_and_streams() -> None:
    draw = sampler(tuple(range(20)), [100] * 20)
    first = [within_shards(draw, draw.indices(k, 1)) for k in range(1000)]
    assert 40 < chi_square(torch.cat(first), 100) < CHI_SQUARE_99
    streams = [within_shards(draw, draw.indices(1, 1, stream=s)) for s in range(1000)]
    assert 40 < chi_square(torch.cat(streams), 100) < CHI_SQUARE_99


def test_pairs_of_neighboring_draws_are_uniform() -> None:
    draw = sampler(tuple(range(20)), [10] * 20)
    rows = within_shards(draw, draw.indices(3, 2000))
    positions = 10 * rows[:, 0::2] + rows[:, 1::2]
    assert chi_square(positions, 100) < CHI_SQUARE_99
    agents = 10 * rows[0::2] + rows[1::2]
    assert chi_square(agents, 100) < CHI_SQUARE_99
    later = within_shards(draw, draw.indices(4, 2000))
    assert chi_square(10 * rows + later, 100) < CHI_SQUARE_99


def test_derived_seeds_are_apart_and_stable() -> None:
    purposes: list[tuple[str | int, ...]] = [
        ("graph",),
        ("init",),
        ("init", 0),
        ("init", 1),
        ("sampling",),
    ]
    seeds = [derived_seed(seed, *p) for seed in (0, 1) for p in purposes]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert derived_seed(0, "sampling") == GOLDEN_SEED


@pytest.mark.long
def test_no_batch_is_drawn_twice() -> None:
    draw = sampler((0,), [4070])
    batches = {tuple(sorted(draw.indices(k, 64)[0].tolist())) for k in range(20_000)}
    assert len(batches) == 20_000
