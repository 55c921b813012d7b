"""Ready models: the ones the field's papers train."""

from collections.abc import Callable, Mapping

from torch import nn

from proxmesh.checks import require_whole
from proxmesh.errors import InputError

__all__ = ["MODELS", "lenet", "logistic", "mlp"]


def logistic(features: int, classes: int) -> nn.Module:
    """Return logistic regression: one linear map to the logits."""
    return nn.Sequential(nn.Flatten(), nn.Linear(features, classes))


def mlp(features: int, classes: int, hidden: int = 64) -> nn.Module:
    """Return the papers' two-layer network with tanh.

    Examples
    --------
    >>> sum(w.numel() for w in mlp(123, 2).parameters())
    8066
    """
    require_whole("model `mlp`", 1, hidden=hidden)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(features, hidden),
        nn.Tanh(),
        nn.Linear(hidden, classes),
    )


def lenet(features: int = 784, classes: int = 10) -> nn.Module:
    """Return the papers' LeNet for 28 x 28 images of one channel, with tanh.

    The pools stand before the tanh, not after it: tanh is increasing, so the function
    and its gradient are the same, on a quarter of the values.

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


MODELS: Mapping[str, Callable[..., nn.Module]] = {
    "lenet": lenet,
    "logistic": logistic,
    "mlp": mlp,
}
"""Every ready model by its command-line name."""
