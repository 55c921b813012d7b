"""Layers that a decentralized method cannot train, and what to use instead."""

import copy
from itertools import chain

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy

from proxmesh.errors import InputError

__all__ = ["in_eval_mode", "refuse_stateful"]


def refuse_stateful(model: nn.Module) -> None:
    """Refuse layers whose forward pass mixes samples or keeps statistics.

    With them f_i is not a function of the parameters alone: the two gradients of a
    STORM step would not belong to the same function.
    """
    if not isinstance(model, nn.Module):
        raise InputError(
            f"LearningProblem: `model` must be an nn.Module, got "
            f"{type(model).__name__}."
        )
    for name, module in model.named_modules():
        reason = _reason(module)
        if reason:
            where = f"`{name}` ({type(module).__name__})" if name else "itself"
            raise InputError(f"model layer {where} {reason}")
    _refuse_devices(model)


def _reason(module: nn.Module) -> str | None:
    if isinstance(module, nn.RReLU) and module.training:
        return "draws random numbers. Replace it with `nn.LeakyReLU`."
    if isinstance(module, _InstanceNorm):
        if module.training and module.track_running_stats:
            return (
                "keeps running statistics. Set `track_running_stats=False`, or keep "
                "them as they are: `pm.nn.frozen_statistics(model)`."
            )
    elif isinstance(module, _BatchNorm) and module.running_mean is None:
        return (
            "normalizes over the batch. Replace such layers: `pm.nn.group_norm(model)`."
        )
    elif isinstance(module, _BatchNorm) and module.training:
        return (
            "normalizes over the batch and keeps running statistics. Keep those of a "
            "pretrained model, `pm.nn.frozen_statistics(model)`, or replace such "
            "layers, `pm.nn.group_norm(model)`."
        )
    return None


def _refuse_devices(model: nn.Module) -> None:
    """Refuse parameters that have no values, or lie in several places."""
    who = f"model `{type(model).__name__}`"
    tensors = dict(chain(model.named_parameters(), model.named_buffers()))
    for name, tensor in tensors.items():
        if is_lazy(tensor):
            raise InputError(
                f"{who}: `{name}` has no shape yet. Call the model on a sample first."
            )
        if tensor.device.type == "meta":
            raise InputError(
                f"{who}: `{name}` is on the device `meta` and has no values. Build the "
                "model on a real device, or load its values first."
            )
    devices = sorted({str(tensor.device) for tensor in tensors.values()})
    if len(devices) > 1:
        raise InputError(
            f"{who} lies on several devices ({', '.join(devices)}). Move all of it to "
            "one: `model.to(device)`."
        )


def in_eval_mode(model: nn.Module) -> nn.Module:
    """Return the model in eval mode, with the same tensors, and leave it as it is.

    Parameters
    ----------
    model
        In any mode.
    """
    tensors: chain[torch.Tensor] = chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors}).eval()
