"""Layers that a decentralized method cannot train, and what to use instead."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from proxmesh.errors import InputError

__all__ = ["refuse_stateful"]


def refuse_stateful(model: nn.Module) -> None:
    """Refuse layers whose forward pass keeps statistics or draws random numbers.

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


def _reason(module: nn.Module) -> str | None:
    if isinstance(module, _BatchNorm):
        return (
            "normalizes over the batch and keeps running statistics. Replace it with "
            "`nn.GroupNorm` or `nn.LayerNorm`."
        )
    if getattr(module, "track_running_stats", False):
        return "keeps running statistics. Set `track_running_stats=False`."
    if isinstance(module, _DropoutNd) and module.p > 0:
        return "draws random numbers. Remove it or set `p=0`; use a regularizer."
    if isinstance(module, nn.RReLU):
        return "draws random numbers. Replace it with `nn.LeakyReLU`."
    if getattr(module, "dropout", 0) and isinstance(module.dropout, float):
        return "draws random numbers. Set `dropout=0`."
    return None
