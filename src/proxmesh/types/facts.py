"""What a problem tells of itself."""

from dataclasses import dataclass, fields
from typing import Any

import torch

from proxmesh.types.protocols import Problem

__all__ = ["Facts", "facts_of"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a problem tells of itself by attributes of these names; None: nothing.

    Parameters
    ----------
    agents
        Whose shards are open in this process.
    architecture
        The model's layers, as text.
    batch_size
        Samples in a minibatch.
    convolves
        Whether the model has convolutions.
    device, dtype
        Of the rows.
    num_agents
        Agents of the whole network.
    num_samples
        Training samples of the local agents together.
    p
        Parameters of the model: the width of a row.
    regularizer
        h.
    sample_shape
        Shapes of one sample's inputs and target.
    seed
        Of the draws.

    Examples
    --------
    >>> Facts(batch_size=16).p is None
    True
    """

    agents: tuple[int, ...] | None = None
    architecture: str | None = None
    batch_size: int | None = None
    convolves: bool | None = None
    device: torch.device | None = None
    dtype: torch.dtype | None = None
    num_agents: int | None = None
    num_samples: int | None = None
    p: int | None = None
    regularizer: Any = None
    sample_shape: Any = None
    seed: int | None = None


def facts_of(problem: Problem) -> Facts:
    """What a problem tells of itself.

    Parameters
    ----------
    problem
        Any; what it does not tell is None.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> shards = [(torch.randn(20, 3), torch.arange(20) % 2) for _ in range(4)]
    >>> problem = pm.LearningProblem(nn.Linear(3, 2), nn.CrossEntropyLoss(), shards)
    >>> facts_of(problem).p, facts_of(problem).num_samples
    (8, 80)
    """
    return Facts(**{f.name: getattr(problem, f.name, None) for f in fields(Facts)})
