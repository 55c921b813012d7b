"""The rows that a run starts from: the model's own values, or fresh ones."""

import copy
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from proxmesh.errors import InputError, unknown
from proxmesh.hashing import derived_seed
from proxmesh.problems.layout import Layout

__all__ = ["initial_rows"]

INITS = ("same", "different")


@runtime_checkable
class Resettable(Protocol):
    """A module that can draw its parameters again, as most of torch's can."""

    def reset_parameters(self) -> None:
        """Draw them from torch's global generator."""
        ...


def initial_rows(
    model: nn.Module, layout: Layout, agents: Sequence[int], init: str, seed: int
) -> Tensor:
    """Return one row per agent; the model and torch's generator stay as they are.

    Parameters
    ----------
    model, layout
        The model and how its parameters lie in a row.
    agents
        Ids of the agents.
    init
        ``"same"`` or ``"different"``.
    seed
        Of the draws; each agent derives its own.
    """
    if init not in INITS:
        raise unknown("init", init, INITS)
    if init == "same":
        return layout.flatten(model).repeat(len(agents), 1)
    seeds = [derived_seed(seed, "init", agent) for agent in agents]
    return torch.stack([_fresh_row(model, layout, each) for each in seeds])


def _fresh_row(model: nn.Module, layout: Layout, seed: int) -> Tensor:
    model = copy.deepcopy(model)
    layers = [m for m in model.modules() if isinstance(m, Resettable)]
    reachable = {id(w) for layer in layers for w in layer.parameters()}
    for name, weight in model.named_parameters():
        if weight.requires_grad and id(weight) not in reachable:
            raise InputError(
                f'LearningProblem: init="different" cannot draw `{name}`: its module '
                "has no `reset_parameters`. Add one, or pass your own rows as `x0`."
            )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for layer in layers:
            layer.reset_parameters()
    return layout.flatten(model)
