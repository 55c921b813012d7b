"""Every step stays on the model's device.

No GPU is needed: tensors on the device `meta` hold no numbers, but torch refuses to mix
them with others.
"""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from zoo import method

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS
from proxmesh.data.shards import Plain, Stored
from proxmesh.problems.gradient_ways import GradientWays
from proxmesh.problems.local_shards import LocalShards
from proxmesh.problems.sampling import Sampler
from proxmesh.problems.stacked_model import LossOfRow, Way
from proxmesh.solver.state import rebuilt, tensors_of

AGENTS, SAMPLES = 4, 10
ELSEWHERE = torch.device("meta")
READS_NUMBERS = {"prox-gt-sr-e"}  # sizes of shards, to pass over whole ones


def model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 2, 2), nn.MaxPool2d(2), nn.Tanh(), nn.Flatten(),
        nn.Dropout(0.5), nn.Linear(8, 2),
    )  # fmt: skip


def problem_here(regularizer: Any) -> pm.LearningProblem:
    shards = [(torch.randn(SAMPLES, 1, 5, 5), torch.arange(SAMPLES) % 2)] * AGENTS
    return pm.LearningProblem(
        model(), F.cross_entropy, shards, regularizer=regularizer, batch_size=3
    )


def elsewhere(here: pm.LearningProblem, way: Way) -> pm.LearningProblem:
    """The same with all its tensors in another place."""
    there = copy.copy(here)
    there.device = ELSEWHERE
    there._model = model().to(ELSEWHERE)
    all_samples = AGENTS * SAMPLES
    images = torch.empty(all_samples, 1, 5, 5, device=ELSEWHERE)
    labels = torch.zeros(all_samples, dtype=torch.int64, device=ELSEWHERE)
    sampler = Sampler.over(0, here.agents, [SAMPLES] * AGENTS, ELSEWHERE)
    stored = Stored((Plain(images),), labels)
    there.local_shards = LocalShards(here.agents, stored, sampler)
    fit = here.ways.of_row.fit
    of_row = LossOfRow(there._model, F.cross_entropy, there.layout, fit)
    there.ways = GradientWays(of_row, chunk_size=4096)
    there._gradients = there.ways.by(way, way != "loop")
    return there


@pytest.mark.parametrize("name", [n for n in ALGORITHMS if n not in READS_NUMBERS])
def test_steps_of_every_method(name: str) -> None:
    here, graph = problem_here(pm.L1(1e-3)), pm.graphs.ring(AGENTS)
    algorithm = method(name)
    state = algorithm.init(here.x0(), here, pm.connect(graph))
    tensors = tensors_of(state)
    moved = {n: t.to(ELSEWHERE) if t.ndim else t for n, t in tensors.items()}
    there, world = elsewhere(here, "vmap"), pm.connect(graph, device=ELSEWHERE)
    found = tensors_of(algorithm.step(rebuilt(type(state), moved), there, world))
    places = {name: tensor.device for name, tensor in found.items() if tensor.ndim}
    assert places == dict.fromkeys(places, ELSEWHERE)
    assert "x" in places


@pytest.mark.parametrize("way", ["vmap", "channels", "loop"])
@pytest.mark.parametrize(
    "regularizer",
    [pm.GroupLasso(0.1), pm.Only(pm.L1(0.1), "*.weight"), pm.Simplex(1.0)],
    ids=lambda h: type(h).__name__,
)
def test_gradients_products_and_regularizers(regularizer: Any, way: Way) -> None:
    there = elsewhere(problem_here(regularizer), way)
    x = there.x0()
    for k in (3, torch.tensor(3)):
        batch = there.sample(k)
        assert batch.keys is not None
        parts = [
            *there.grad_pair(x, x, batch),
            there.hvp(x, x, batch),
            *there.gradients.model.measures(x, batch),
            there.prox(x, torch.tensor(0.1)),
            there.penalty(x),
        ]
        assert {part.device for part in parts} == {ELSEWHERE}


def test_two_devices_are_noticed() -> None:
    """The test itself: a mask that is drawn on the CPU would be seen."""
    there = elsewhere(problem_here(pm.L1(1e-3)), "vmap")
    batch = there.sample(1)
    here = torch.zeros(AGENTS, there.p)
    with pytest.raises((RuntimeError, TypeError)):
        there.grad(here, batch)
