"""Epochs as iterations: how often the agents go through their data, on average."""

import torch

from proxmesh.errors import InputError
from proxmesh.solver.settings import Settings
from proxmesh.types import Problem, World, facts_of

__all__ = ["iterations", "with_steps"]


def iterations(epochs: float, samples: float, batch_size: int) -> int:
    """Iterations of so many epochs, at least one.

    Parameters
    ----------
    epochs
        Not only whole ones.
    samples
        Of an agent, on average.
    batch_size
        Samples per agent in a minibatch.

    Examples
    --------
    >>> iterations(2, 1000, 64)  # 31.25
    31
    """
    return max(1, round(epochs * samples / batch_size))


def with_steps(settings: Settings, problem: Problem, world: World) -> Settings:
    """The settings with their epochs turned into steps; every process calls it.

    Parameters
    ----------
    settings
        As they were asked for.
    problem
        Of this process's agents.
    world
        Of all agents.
    """
    if settings.epochs is None:
        return settings
    known = facts_of(problem)
    if known.num_samples is None or known.batch_size is None:
        raise InputError(
            f"`epochs`: `{type(problem).__name__}` does not tell its `num_samples` and "
            "`batch_size`. Give `steps`."
        )
    agents = len(world.agents)
    each = torch.full((agents,), known.num_samples / agents, dtype=torch.float64)
    mean = world.reduce(each, "mean").item()
    steps = iterations(settings.epochs, mean, known.batch_size)
    return settings.changed(steps=steps, epochs=None)
