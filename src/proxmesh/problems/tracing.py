"""Replay a pure function of tensors without the machinery that derived it."""

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

__all__ = ["Traced"]

aten = torch.ops.aten
TRANSPOSES = [(aten.transpose.int, 1, 2), (aten.permute.default, [0, 2, 1])]
RESHAPES = {aten.view.default, aten._unsafe_view.default}


@final
class Traced:
    """A function of tensors, traced once for every set of shapes.

    `vmap` and `grad` rebuild the same list of tensor operations at every call; here the
    list is recorded once and replayed. The function must be pure: what it reads besides
    its arguments is fixed when it is first called.

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
            recorded = make_fx(self._function)(*tensors)
        except Exception:  # what cannot be recorded is called as it is
            return self._function
        turn_products(recorded)
        return recorded


def turn_products(recorded: fx.GraphModule) -> None:
    """Take ``B'A'`` where ``(AB)'`` is asked for.

    The gradient of a linear layer comes out of autograd transposed, and is then copied
    into the layout of the weights: slower than the product itself for small models.
    """
    graph = recorded.graph
    for node in list(graph.nodes):
        if (node.target, *node.args[1:]) not in TRANSPOSES:
            continue
        product = node.args[0]
        if product.target in RESHAPES and _keeps_shape(product):
            product = product.args[0]
        if product.target is not aten.bmm.default or len(product.users) > 1:
            continue
        left, right = product.args
        with graph.inserting_before(node):
            turned = graph.call_function(
                aten.bmm.default,
                (
                    graph.call_function(aten.transpose.int, (right, 1, 2)),
                    graph.call_function(aten.transpose.int, (left, 1, 2)),
                ),
            )
        node.replace_all_uses_with(turned)
    graph.eliminate_dead_code()
    recorded.recompile()


def _keeps_shape(reshape: fx.Node) -> bool:
    (source,) = reshape.all_input_nodes
    same = tuple(reshape.meta["val"].shape) == tuple(source.meta["val"].shape)
    return same and len(reshape.users) == 1
