"""Checks, made once, that model, loss, data and batch size fit together."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call

from proxmesh.data.shards import Samples
from proxmesh.errors import InputError, Notice
from proxmesh.problems.layout import Layout

__all__ = ["Loss", "check_batch_size", "fits_as_classifier", "name_of"]

Loss: TypeAlias = Callable[..., Any]
"""``loss(outputs, targets)``, a 0-d tensor, the mean over samples."""

SAMPLES = 8


def check_batch_size(
    batch_size: int,
    agents: Sequence[int],
    sizes: Sequence[int],
    num_agents: int | None,
) -> None:
    """Refuse a batch that exceeds all samples; note one that exceeds a shard.

    Parameters
    ----------
    batch_size
        Samples per agent in a minibatch.
    agents, sizes
        The agents of this process and how many samples each of them has.
    num_agents
        Agents of the whole network, where that is known.
    """
    total = sum(sizes)
    if batch_size > total and len(sizes) == num_agents:
        raise InputError(
            f"LearningProblem: `batch_size` is {batch_size} but the whole training set "
            f"has {total} samples. Lower it."
        )
    smallest = min(range(len(sizes)), key=sizes.__getitem__)
    if batch_size > sizes[smallest]:
        warnings.warn(
            f"batch_size {batch_size} exceeds the {sizes[smallest]} samples of agent "
            f"{agents[smallest]}: samples repeat within a batch.",
            Notice,
            stacklevel=4,
        )


def fits_as_classifier(
    model: nn.Module, loss: Loss, training: Samples, test: Samples | None
) -> bool:
    """Refuse what cannot be trained; tell whether outputs are scores of labels.

    Parameters
    ----------
    model, loss
        What is trained.
    training, test
        Samples; the model is tried on the first few.
    """
    few = training.slices(SAMPLES)[0]
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    outputs, value = _try(model, loss, few)
    again, _ = _try(model, loss, few)
    _, doubled = _try(model, loss, few.doubled())
    who = f"model `{type(model).__name__}`"
    if not torch.equal(outputs, again):
        raise InputError(
            f"{who} gives two different outputs for the same input; its forward pass "
            "draws random numbers. Remove them; use a regularizer instead of dropout."
        )
    for name, buffer in model.named_buffers():
        if not torch.equal(buffer, buffers[name]):
            raise InputError(
                f"{who} changes its buffer `{name}` in the forward pass; agents need "
                "a model without running statistics."
            )
    if not torch.allclose(value, doubled, rtol=1e-3, atol=1e-5):
        raise InputError(
            f"loss `{name_of(loss)}` must be the mean over samples, but a doubled "
            f"batch changes it from {value.item():.4g} to {doubled.item():.4g}. "
            'Use `reduction="mean"`.'
        )
    if test is not None:
        _try(model, loss, test.slices(SAMPLES)[0])
    scores = outputs.ndim == 2 and outputs.shape[1] > 1
    if few.targets.is_floating_point() or few.targets.ndim != 1 or not scores:
        return False
    _check_labels("training", training.targets, outputs.shape[1])
    if test is not None:
        _check_labels("test", test.targets, outputs.shape[1])
    return True


def _try(model: nn.Module, loss: Loss, few: Samples) -> tuple[Tensor, Tensor]:
    """Run model and loss as the problem will, on a copy of the parameters."""
    weights = Layout.of(model)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            # The loss broadcasts [n, 1] against [n], which is never what was meant.
            warnings.filterwarnings("error", "Using a target size", UserWarning)
            row = weights.unflatten(weights.flatten(model))
            outputs = functional_call(model, row, few.inputs)
            value = loss(outputs, few.targets)
    except (RuntimeError, ValueError, TypeError, IndexError, UserWarning) as error:
        shapes = ", ".join(str(tuple(x.shape)) for x in few.inputs)
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise InputError(
            f"model `{type(model).__name__}` with loss `{name_of(loss)}` does not "
            f"fit the samples (inputs {shapes}, targets {tuple(few.targets.shape)} "
            f"{few.targets.dtype}): {reason}."
        ) from error
    if not isinstance(value, Tensor) or value.ndim:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else value
        raise InputError(
            f"loss `{name_of(loss)}` must return one number, the mean over samples, "
            f'got {got}. Use `reduction="mean"`.'
        )
    return outputs, value


def _check_labels(name: str, labels: Tensor, classes: int) -> None:
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise InputError(
            f"{name} labels run from {low} to {high} but the model has {classes} "
            f"outputs; labels must be 0 .. {classes - 1}."
        )


def name_of(function: Any) -> str:
    """Return the name of a loss, the same in every process."""
    if isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)
