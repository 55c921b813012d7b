"""Losses, gradients and accuracies over whole shards, for metrics."""

import math

import torch
from torch import Tensor

from proxmesh.data.opening import Opened
from proxmesh.problems.local_shards import LocalShards
from proxmesh.problems.stacked_model import StackedModel
from proxmesh.types import Evaluation

__all__ = ["evaluate", "held_out_scores"]


def evaluate(
    model: StackedModel, shards: LocalShards, x: Tensor, chunk_size: int
) -> Evaluation:
    """Gradient, loss and accuracy of every agent in one pass over its shard.

    Parameters
    ----------
    model
        The model with all agents' rows.
    shards
        Of these agents.
    x
        Their rows.
    chunk_size
        Samples in flight at once.
    """
    gradient = torch.zeros_like(x)
    loss = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    accuracy = torch.zeros_like(loss)
    for agents, samples, share in shards.sweep(chunk_size):
        grads, values, correct = model.measures(x[agents], samples)
        gradient.index_add_(0, agents, grads * share[:, None].to(x.dtype))
        loss.index_add_(0, agents, values.to(loss.dtype) * share)
        accuracy.index_add_(0, agents, correct.to(loss.dtype) * share)
    metrics = {} if model.score is None else {"train_accuracy": accuracy}
    if model.score == "numbers":
        metrics = {"train_rmse": accuracy.sqrt()}
    return Evaluation(grad=gradient, loss=loss, metrics=metrics)


def held_out_scores(
    model: StackedModel, samples: Opened, row: Tensor, chunk_size: int
) -> dict[str, float]:
    """Loss and accuracy of one row on held-out samples, or errors of numbers.

    Parameters
    ----------
    model
        The model behind the row.
    samples
        The test set.
    row
        Parameters of one model.
    chunk_size
        Samples in flight at once.
    """
    loss = correct = total = squares = 0.0
    with torch.no_grad():
        for part in samples.slices(chunk_size):
            value, share = model.scores(row, part.inputs, part.targets, part.table)
            loss += float(value) * len(part)
            correct += float(share) * len(part)
            if model.score == "numbers":
                total += float(part.targets.double().sum())
                squares += float(part.targets.double().square().sum())
    count = len(samples)
    scores = {"test_loss": loss / count}
    if model.score == "numbers":
        scores["test_rmse"] = math.sqrt(correct / count)
        spread = squares / count - (total / count) ** 2
        scores["test_r2"] = 1 - correct / count / spread if spread > 0 else math.nan
    elif model.score is not None:
        scores["test_accuracy"] = correct / count
    return scores
