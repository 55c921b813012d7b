"""Ready-made models: the ones that the field's papers train.

Each takes the size of a sample and the number of classes, and returns an `nn.Module`
that maps samples to logits. `logistic` and `mlp` take dense and sparse samples.
"""

from collections.abc import Callable, Mapping

import torch
from torch import nn

from proxmesh.checks import require_whole
from proxmesh.errors import InputError
from proxmesh.limits import require_memory
from proxmesh.problems.sparse_linear import SparseLinear

__all__ = ["MODELS", "SparseLinear", "lenet", "logistic", "mlp"]


def logistic(features: int, classes: int) -> nn.Module:
    """Return logistic regression: one linear map to the logits.

    Parameters
    ----------
    features
        Numbers in one sample, of any shape.
    classes
        Number of logits.

    Examples
    --------
    >>> logistic(123, 2)
    Sequential(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): SparseLinear(in_features=123, out_features=2, bias=True)
    )
    """
    _require_memory("logistic", (features + 1) * classes)
    return nn.Sequential(nn.Flatten(), SparseLinear(features, classes))


def mlp(features: int, classes: int, hidden: int = 64) -> nn.Module:
    """Return the papers' two-layer network with tanh.

    Parameters
    ----------
    features
        Numbers in one sample, of any shape.
    classes
        Number of logits.
    hidden
        Units of the hidden layer.

    Examples
    --------
    >>> sum(w.numel() for w in mlp(123, 2).parameters())
    8066
    """
    require_whole("model `mlp`", 1, hidden=hidden)
    _require_memory("mlp", (features + 1) * hidden + (hidden + 1) * classes)
    return nn.Sequential(
        nn.Flatten(),
        SparseLinear(features, hidden),
        nn.Tanh(),
        nn.Linear(hidden, classes),
    )


def lenet(features: int = 784, classes: int = 10) -> nn.Module:
    """Return the papers' LeNet for 28 x 28 images of one channel, with tanh.

    The pools stand before the tanh, not after it: tanh is increasing, so the function
    and its gradient are the same, on a quarter of the values.

    Parameters
    ----------
    features
        784: other images are refused.
    classes
        Number of logits.

    Examples
    --------
    >>> sum(w.numel() for w in lenet().parameters())
    25010
    """
    if features != 784:
        raise InputError(
            f"model `lenet` needs 28 x 28 images, got {features} features per sample. "
            "Use `mlp` or `logistic`."
        )
    return nn.Sequential(
        nn.Conv2d(1, 6, 5),
        nn.MaxPool2d(2),
        nn.Tanh(),
        nn.Conv2d(6, 16, 5),
        nn.MaxPool2d(2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(256, 84),
        nn.Tanh(),
        nn.Linear(84, classes),
    )


def _require_memory(name: str, parameters: int) -> None:
    """Refuse a model of which not even one copy fits."""
    size = parameters * torch.get_default_dtype().itemsize
    who = f"model `{name}` with {parameters:,} parameters"
    require_memory(who, size, "Choose a smaller model, or fewer features or classes.")


MODELS: Mapping[str, Callable[..., nn.Module]] = {
    "lenet": lenet,
    "logistic": logistic,
    "mlp": mlp,
}
"""Every ready model by its command-line name."""
