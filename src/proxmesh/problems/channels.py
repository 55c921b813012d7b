"""Rules that keep all agents in the channels of one image-shaped tensor.

Under `vmap` alone, a convolution puts the agents into its channels and a pool puts them
into its samples; between the two the activations are copied back and forth, in the
layout that CPUs like least. Here both keep the agents in the channels, and the channels
lie together in memory. Same arithmetic; LeNet's gradients take less than half the time.
"""

from typing import Any, final

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

__all__ = ["AgentsInChannels", "has_images"]

IMAGE_DIMS = 4  # samples, channels, height, width


def has_images(model: torch.nn.Module) -> bool:
    """Whether these rules could make a difference to a model."""
    return any(isinstance(m, torch.nn.Conv2d) for m in model.modules())


@final
class AgentsInChannels(TorchFunctionMode):
    """Within it, `vmap` batches convolutions and max-pools of images by our rules.

    For ``grad(vmap(f))``, not for ``vmap(grad(f))``: what is differentiated are the
    plain operations that the rules call.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Replace the two operations, pass on every other."""
        del types
        replacement = REPLACEMENTS.get(func)
        if replacement is not None and args and args[0].ndim == IMAGE_DIMS:
            found = replacement(*args, **(kwargs or {}))
            if found is not None:
                return found
        return func(*args, **(kwargs or {}))


@final
class _Conv2d(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
        return functional.conv2d(x, weight, bias, *rest)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, *operands: Any) -> tuple[Any, int]:
        x, weight, bias, stride, padding, dilation, groups = operands
        agents = info.batch_size
        weight = _agents_first(weight, in_dims[1], agents).flatten(0, 1)
        if bias is not None:
            bias = _agents_first(bias, in_dims[2], agents).flatten(0, 1)
        if in_dims[0] is not None or groups > 1:
            x = _in_channels(_agents_first(x, in_dims[0], agents), 0)
            groups = groups * agents  # otherwise all agents see the same images
        found: Any = functional.conv2d(
            x.contiguous(memory_format=torch.channels_last),
            weight.contiguous(memory_format=torch.channels_last),
            bias, stride, padding, dilation, groups,
        )  # fmt: skip
        return found.unflatten(1, (agents, -1)), 1


@final
class _MaxPool2d(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, *rest: Any) -> Any:
        return functional.max_pool2d(x, *rest)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, *rest: Any) -> tuple[Any, int]:
        found: Any = functional.max_pool2d(_in_channels(x, in_dims[0]), *rest)
        return found.unflatten(1, (info.batch_size, -1)), 1


def _conv2d(  # noqa: PLR0917 - torch's own signature
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    apply: Any = _Conv2d.apply
    return apply(x, weight, bias, stride, padding, dilation, groups)


def _max_pool2d(  # noqa: PLR0917 - torch's own signature
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    if return_indices:
        return None
    apply: Any = _MaxPool2d.apply
    return apply(x, kernel_size, stride, padding, dilation, ceil_mode)


REPLACEMENTS: dict[Any, Any] = {
    torch.conv2d: _conv2d,
    functional.max_pool2d: _max_pool2d,
}


def _agents_first(x: Tensor, dim: int | None, agents: int) -> Tensor:
    """Move the agents to the front; repeat for them what has no such dimension."""
    return x.expand(agents, *x.shape) if dim is None else x.movedim(dim, 0)


def _in_channels(x: Tensor, dim: int) -> Tensor:
    """Merge agents and channels: [samples, agents * channels, height, width]."""
    return x.movedim(dim, 1).flatten(1, 2)
