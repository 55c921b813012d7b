"""Checks, made once, that model, loss, data and batch size fit together."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from proxmesh.data.opening import Opened
from proxmesh.data.shards import Samples
from proxmesh.errors import InputError, Notice
from proxmesh.problems.layout import Layout
from proxmesh.problems.noise import SampledNoise
from proxmesh.problems.stateful_layers import in_eval_mode

__all__ = [
    "Fit",
    "Loss",
    "Score",
    "check_batch_size",
    "name_of",
    "require_fit",
    "scored",
]

Loss: TypeAlias = Callable[..., Any]
"""``loss(outputs, targets)``, a 0-d tensor, the mean over samples."""

SAMPLES = 8

Score: TypeAlias = Literal["labels", "signs", "numbers"]
"""Outputs are scores of labels, of which the largest counts; one score of two labels,
of which the sign counts; or numbers."""

_SCORES: dict[Any, Score] = {}


def scored(score: Score) -> Callable[[Loss], Loss]:
    """Say of a loss of one output per sample what the output is.

    Parameters
    ----------
    score
        What it is.
    """

    def note(loss: Loss) -> Loss:
        _SCORES[loss] = score
        return loss

    return note


@final
@dataclass(frozen=True, slots=True)
class Fit:
    """What was found out about a model, a loss and samples that fit together.

    Parameters
    ----------
    score
        What is told beside the loss, if something is.
    draws
        Whether the model drops out in training.
    features
        Of sparse samples; None: they are dense.
    """

    score: "Score | None"
    draws: bool
    features: int | None = None


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


def require_fit(
    model: nn.Module, loss: Loss, training: Opened, test: Opened | None
) -> Fit:
    """Refuse what cannot be trained.

    Parameters
    ----------
    model, loss
        What is trained.
    training, test
        Samples; the model is tried on the first few.
    """
    few = next(iter(training.slices(SAMPLES)))
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    outputs, first, draws = _try(model, loss, few)
    again, second, _ = _try(model, loss, few)
    who = f"model `{type(model).__name__}`"
    if not (_same(outputs, again) and _same(first, second)):
        raise InputError(
            f"{who} gives two different outputs for the same input; its forward pass "
            "draws random numbers that torch does not know of. Use `nn.Dropout`, or "
            "none."
        )
    for name, buffer in model.named_buffers():
        if not torch.equal(buffer, buffers[name]):
            raise InputError(
                f"{who} changes its buffer `{name}` in the forward pass; agents need "
                "a model without running statistics."
            )
    still = in_eval_mode(model)
    outputs, value, drawn = _try(still, loss, few)
    if drawn:
        raise InputError(
            f"{who} draws random numbers in eval mode too. Give its dropout "
            "`training=self.training`."
        )
    _, doubled, _ = _try(still, loss, few.doubled())
    if not torch.allclose(value, doubled, rtol=1e-3, atol=1e-5):
        raise InputError(
            f"loss `{name_of(loss)}` must be the mean over samples, but a doubled "
            f"batch changes it from {value.item():.4g} to {doubled.item():.4g}. "
            'Use `reduction="mean"`.'
        )
    if test is not None:
        _try(still, loss, next(iter(test.slices(SAMPLES))))
    features = None if few.table is None else few.table.features
    scores = isinstance(outputs, Tensor) and outputs.ndim == 2 and outputs.shape[1] > 1
    if few.targets.is_floating_point() or few.targets.ndim != 1 or not scores:
        return Fit(_score_of(loss), draws, features)
    _check_labels("training", training, outputs.shape[1])
    if test is not None:
        _check_labels("test", test, outputs.shape[1])
    return Fit("labels", draws, features)


def _score_of(loss: Loss) -> Score | None:
    try:
        return _SCORES.get(loss)
    except TypeError:  # a loss of the user's that cannot be looked up
        return None


def _try(model: nn.Module, loss: Loss, few: Samples) -> tuple[Any, Tensor, bool]:
    """Run model and loss as the problem will, on a copy of the parameters.

    Returns the outputs, the loss, and whether the model dropped out.
    """
    weights = Layout.of(model)
    noise = SampledNoise(torch.zeros((), dtype=torch.int64, device=few.targets.device))
    try:
        with torch.no_grad(), noise, warnings.catch_warnings():
            # The loss broadcasts [n, 1] against [n], which is never what was meant.
            warnings.filterwarnings("error", "Using a target size", UserWarning)
            outputs = weights.call(model, weights.flatten(model), few.arguments)
            value = loss(outputs, few.targets)
    except InputError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError, UserWarning) as error:
        shapes = ", ".join(map(str, few.shapes))
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
    return outputs, value, noise.draws > 0


def _same(first: Any, second: Any) -> bool:
    """Whether two outputs, tensors or tuples of them, are equal."""
    pairs = zip(tree_leaves(first), tree_leaves(second), strict=True)
    return all(torch.equal(a, b) for a, b in pairs if isinstance(a, Tensor))


def _check_labels(name: str, samples: Opened, classes: int) -> None:
    """Refuse labels that no output stands for: now, or when they are read."""
    if not isinstance(samples, Samples):
        samples.expect_labels(classes)
        return
    labels = samples.targets
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
