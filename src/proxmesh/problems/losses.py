"""Losses by name, and how far off outputs are in the terms of the reader."""

from collections.abc import Mapping

from torch import Tensor
from torch.nn import functional

from proxmesh.problems.fit_check import Loss, Score, scored

__all__ = ["LOSSES", "ONE_OUTPUT", "huber", "logistic", "squared"]


@scored("numbers")
def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean of the squared errors of one output per sample.

    Parameters
    ----------
    outputs
        ``[m, 1]``.
    targets
        Real numbers, ``[m]``.
    """
    return functional.mse_loss(outputs[:, 0], targets)


@scored("numbers")
def huber(outputs: Tensor, targets: Tensor) -> Tensor:
    """Half the squared error up to 1, from there on linear: outliers count less.

    Parameters
    ----------
    outputs
        ``[m, 1]``.
    targets
        Real numbers, ``[m]``.
    """
    return functional.huber_loss(outputs[:, 0], targets)


@scored("signs")
def logistic(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of two classes, with one output per sample.

    Parameters
    ----------
    outputs
        ``[m, 1]``: above 0 for the class 1.
    targets
        0 or 1, ``[m]``.
    """
    score = outputs[:, 0]
    return functional.binary_cross_entropy_with_logits(score, targets.to(score.dtype))


LOSSES: Mapping[str, Loss] = {
    "cross-entropy": functional.cross_entropy,
    "logistic": logistic,
    "squared": squared,
    "huber": huber,
}
"""Every loss by its command-line name."""

ONE_OUTPUT: Mapping[str, Score] = {
    "logistic": "signs",
    "squared": "numbers",
    "huber": "numbers",
}
"""Losses of models with one output, and what is told beside the loss itself."""
