"""Layers that normalize over a batch, turned into layers that a network can train.

Agents cannot train BatchNorm: it makes the loss of one sample depend on the others, and
its running statistics are no parameters that agents could agree on. Each function
returns a changed copy of a model.
"""

import copy
from collections.abc import Callable

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from proxmesh.checks import require_whole
from proxmesh.errors import InputError

__all__ = ["frozen_statistics", "group_norm"]


def frozen_statistics(model: nn.Module) -> nn.Module:
    """Return the model with the running statistics of its layers kept as they are.

    For pretrained models: BatchNorm becomes the affine map that it is in eval mode.
    Its weight and bias train if they did before; freeze them with
    ``requires_grad_(False)``. Everything else stays in the mode it is in; a later call
    of ``model.train()`` would let the statistics run again.

    Parameters
    ----------
    model
        Any module, left as it is.

    Examples
    --------
    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.1))
    >>> [layer.training for layer in frozen_statistics(model)]
    [True, False, True]
    """

    def frozen(layer: nn.Module) -> nn.Module:
        if isinstance(layer, _BatchNorm) and layer.running_mean is None:
            raise InputError(
                "frozen_statistics: a BatchNorm with `track_running_stats=False` has "
                "no statistics to keep. Use `pm.nn.group_norm(model)`."
            )
        return layer.eval() if isinstance(layer, _BatchNorm | _InstanceNorm) else layer

    return _replaced(model, frozen)


def group_norm(model: nn.Module, groups: int = 32) -> nn.Module:
    """Return the model with every BatchNorm replaced by a GroupNorm.

    GroupNorm normalizes each sample by itself, in training as in eval mode. Weight,
    bias and eps are taken over, frozen or not; running statistics are dropped.

    Parameters
    ----------
    model
        Any module, left as it is.
    groups
        The most groups of a layer. It gets the largest number that divides its
        channels and leaves at least four in a group, where it has four.

    Examples
    --------
    >>> model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16))
    >>> group_norm(model)[1]
    GroupNorm(4, 16, eps=1e-05, affine=True...)
    """
    require_whole("group_norm", 1, groups=groups)

    def grouped(layer: nn.Module) -> nn.Module:
        return _group_norm(layer, groups) if isinstance(layer, _BatchNorm) else layer

    return _replaced(model, grouped)


def _replaced(
    model: nn.Module, replacement: Callable[[nn.Module], nn.Module]
) -> nn.Module:
    """Replace layers in a copy of a model; a layer in two places stays one."""
    if not isinstance(model, nn.Module):
        raise InputError(f"`model` must be an nn.Module, got {type(model).__name__}.")
    model = copy.deepcopy(model)
    new = {layer: replacement(layer) for layer in list(model.modules())}
    for layer in new:
        for name, child in list(layer._modules.items()):  # all names of a layer
            if child is not None and new[child] is not child:
                setattr(layer, name, new[child])
    return new[model]


def _group_norm(layer: _BatchNorm, groups: int) -> nn.GroupNorm:
    channels = layer.num_features
    most = max(1, min(groups, channels // 4))
    number = max(d for d in range(1, most + 1) if channels % d == 0)
    found = nn.GroupNorm(number, channels, layer.eps, layer.affine)
    found.train(layer.training)
    if layer.affine:
        found.weight, found.bias = layer.weight, layer.bias
    return found
