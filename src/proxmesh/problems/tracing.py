"""Replay a pure function of tensors without the machinery that derived it."""

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

__all__ = ["Traced"]


@final
class Traced:
    """A function of tensors, traced once for every set of shapes.

    `vmap` and `grad` rebuild the same list of tensor operations at every call; here the
    list is recorded once and replayed, to the same bits. The function must be pure:
    what it reads besides its arguments is fixed when it is first called.

    Examples
    --------
    >>> from torch.func import grad
    >>> slope = Traced(grad(lambda x: (x**3).sum()))
    >>> slope(torch.tensor([1.0, 2.0]))
    tensor([ 3., 12.])
    """

    def __init__(self, function: Callable[..., Tensor]) -> None:
        self._function = function
        self._recorded: dict[Any, Callable[..., Tensor]] = {}

    def __call__(self, *tensors: Tensor) -> Tensor:
        """Call the function, by its recording if there is one."""
        if torch.compiler.is_compiling():  # which records by itself
            return self._function(*tensors)
        key = tuple((t.shape, t.dtype, t.device) for t in tensors)
        recorded = self._recorded.get(key)
        if recorded is None:
            recorded = self._recorded[key] = self._record(*tensors)
        return recorded(*tensors)

    def _record(self, *tensors: Tensor) -> Callable[..., Tensor]:
        try:
            return make_fx(self._function)(*tensors)
        except Exception:  # what cannot be recorded is called as it is
            return self._function
