"""BatchNorm, turned into what agents can train."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import proxmesh as pm


def convolutions() -> Any:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(6)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3), norm, nn.ReLU(), nn.Conv2d(6, 6, 1), norm,
        nn.Flatten(), nn.Linear(24, 5), nn.BatchNorm1d(5), nn.Linear(5, 2),
    )  # fmt: skip
    for _ in range(3):  # statistics that are not 0 and 1
        model(3 * torch.randn(20, 1, 4, 4) + 1)
    return model


def shards() -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(1)
    return [(torch.randn(9, 1, 4, 4), torch.arange(9) % 2) for _ in range(3)]


def test_frozen_statistics_make_the_map_of_eval_mode() -> None:
    model = convolutions()
    frozen: Any = pm.nn.frozen_statistics(model)
    x = torch.randn(7, 1, 4, 4)
    torch.testing.assert_close(frozen(x), convolutions().eval()(x))
    assert all(layer.training for layer in model.modules())  # as it was
    assert frozen.training
    assert frozen[1] is frozen[4]


@pytest.mark.parametrize("way", ["vmap", "channels"])
@pytest.mark.parametrize("trained", [True, False])
def test_frozen_batch_norm_trains_like_any_affine_map(way: str, trained: bool) -> None:
    model: Any = pm.nn.frozen_statistics(convolutions())
    model[1].requires_grad_(trained)
    options: Any = {"batch_size": 4, "paired": True, "vectorize": way}
    fast = pm.LearningProblem(model, F.cross_entropy, shards(), **options)
    plain = pm.LearningProblem(
        model, F.cross_entropy, shards(), vectorize=False, batch_size=4
    )
    x = fast.x0() + 0.1
    batch = fast.sample(1)
    ours, theirs = fast.grad_pair(x, x, batch)[1], plain.grad(x, batch)
    torch.testing.assert_close(ours, theirs)
    module: Any = fast.module(x[1])
    F.cross_entropy(module(batch.inputs[0][1]), batch.targets[1]).backward()
    expected = [w.grad.flatten() for w in module.parameters() if w.grad is not None]
    torch.testing.assert_close(ours[1], torch.cat(expected))
    assert torch.equal(module[1].running_mean, model[1].running_mean)


def test_group_norm_takes_the_place_of_batch_norm() -> None:
    model = convolutions()
    model[1].requires_grad_(False)
    with torch.no_grad():
        model[1].weight.copy_(torch.arange(6.0))
    grouped: Any = pm.nn.group_norm(model)
    assert [type(layer).__name__ for layer in grouped].count("GroupNorm") == 3
    assert grouped[1] is grouped[4]  # one layer in two places
    assert (grouped[1].num_groups, grouped[7].num_groups) == (1, 1)
    cases = ((512, 32, 32), (12, 32, 3), (12, 2, 2), (1, 9, 1))
    for channels, groups, expected in cases:
        norm: Any = pm.nn.group_norm(nn.BatchNorm2d(channels), groups)
        assert norm.num_groups == expected
    assert torch.equal(grouped[1].weight, model[1].weight)
    assert grouped[1].weight is not model[1].weight
    assert not grouped[1].weight.requires_grad
    x = torch.randn(5, 1, 4, 4)
    torch.testing.assert_close(grouped(x)[:1], grouped(x[:1]))  # sample by sample
    problem = pm.LearningProblem(grouped, F.cross_entropy, shards(), batch_size=4)
    assert problem.grad(problem.x0(), problem.sample(1)).isfinite().all()


def test_a_model_that_is_one_layer() -> None:
    assert isinstance(pm.nn.group_norm(nn.BatchNorm1d(4)), nn.GroupNorm)
    assert not pm.nn.frozen_statistics(nn.BatchNorm1d(4)).training
    tracking = nn.InstanceNorm1d(4, track_running_stats=True)
    assert not pm.nn.frozen_statistics(tracking).training


def test_what_cannot_be_changed() -> None:
    bare = nn.BatchNorm1d(4, track_running_stats=False)
    with pytest.raises(pm.InputError, match=r"no statistics.*pm\.nn\.group_norm"):
        pm.nn.frozen_statistics(bare)
    with pytest.raises(pm.InputError, match=r"must be an nn\.Module, got str"):
        pm.nn.group_norm("resnet")  # type: ignore[arg-type]
    with pytest.raises(pm.InputError, match="`groups`"):
        pm.nn.group_norm(nn.BatchNorm1d(4), groups=0)
