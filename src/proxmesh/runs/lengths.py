"""How long a run is, and how often it is looked at, where the config leaves it open."""

from typing import Any

import torch

from proxmesh.data.datasets import Dataset
from proxmesh.runs.config import Config
from proxmesh.solver.epochs import iterations
from proxmesh.solver.settings import EVALUATIONS
from proxmesh.types import World

__all__ = ["look_every", "with_steps"]

MANY_IMAGES = 10_000
IMAGE_EVALUATIONS = 10


def with_steps(config: Config, shards: Any, world: World) -> Config:
    """The config with its epochs turned into steps."""
    if config.run.epochs is None:
        return config
    mean = world.reduce(_sizes(shards, world), "mean").item()
    steps = iterations(config.run.epochs, mean, config.run.batch)
    run = config.run.model_copy(update={"steps": steps, "epochs": None})
    return config.model_copy(update={"run": run})


def _sizes(shards: Any, world: World) -> torch.Tensor:
    """Samples of each agent that is here."""
    sizes = [float(len(shards[agent][1])) for agent in world.agents]
    return torch.tensor(sizes, dtype=torch.float64)


def look_every(config: Config, shards: Any, dataset: Dataset, world: World) -> int:
    """Look often, but not so often that looking at many images takes longest."""
    many = world.reduce(_sizes(shards, world), "sum").item() > MANY_IMAGES
    images = many and len(dataset.inputs.shape) > 2
    return max(1, config.run.steps // (IMAGE_EVALUATIONS if images else EVALUATIONS))
