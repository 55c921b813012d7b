"""Record the operations of a pure function of tensors once, and replay them."""

from collections.abc import Callable
from operator import getitem
from typing import Any, final

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Traced"]

aten = torch.ops.aten
TRANSPOSES = [(aten.transpose.int, 1, 2), (aten.permute.default, [0, 2, 1])]
RESHAPES = {aten.view.default, aten._unsafe_view.default}


@final
class Traced:
    """A function of tensors, recorded once for every set of shapes.

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
        """Call the function, or replay its recording if there is one."""
        if torch.compiler.is_compiling():  # the compiler records by itself
            return self._function(*tensors)
        key = tuple((t.shape, t.stride(), t.dtype, t.device) for t in tensors)
        recorded = self._recorded.get(key)
        if recorded is None and any(type(t) is not Tensor for t in tensors):
            return self._function(*tensors)  # symbolic shapes: not worth keeping
        if recorded is None:
            recorded = self._recorded[key] = self._record(*tensors)
        return recorded(*tensors)

    def _record(self, *tensors: Tensor) -> Callable[..., Tensor]:
        try:
            recorded = Recorder.of(self._function, tensors)
        except Exception:  # a function that cannot be recorded is called as it is
            return self._function
        turn_products(recorded)
        return recorded


@final
class Recorder(TorchDispatchMode):
    """Writes down every tensor operation that is carried out within it.

    `make_fx` does this too, and more, but importing what it needs takes a second: most
    of the time that a small run takes to start.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = fx.Graph()
        self.constants = torch.nn.Module()
        self._nodes: dict[int, fx.Node] = {}
        self._kept: list[Tensor] = []  # alive, so that no id is used twice
        self._given: set[int] = set()  # memory that the function did not allocate

    @staticmethod
    def of(
        function: Callable[..., Tensor], tensors: tuple[Tensor, ...]
    ) -> fx.GraphModule:
        """Record a call of a function with these tensors."""
        recorder = Recorder()
        # Views, so that a tensor that is given twice is two objects.
        own = [tensor.view_as(tensor) for tensor in tensors]
        for i, tensor in enumerate(own):
            recorder._remember(tensor, recorder.graph.placeholder(f"x{i}"))
            recorder._given.add(_memory(tensor))
        with recorder:
            found = function(*own)
        recorder.graph.output(recorder._node(found))
        recorder.graph.eliminate_dead_code()
        return fx.GraphModule(recorder.constants, recorder.graph)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch's switch: True would import the compiler only to keep it out."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Carry out an operation and write it down."""
        del types
        if torch.Tag.data_dependent_output in func.tags:
            raise TypeError(f"`{func}` turns a tensor into a number")
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            self._refuse_writing_to_inputs(func, args, kwargs)
        given = fx.node.map_aggregate((args, kwargs), self._node)
        found = func(*args, **kwargs)
        node = self.graph.call_function(func, *given)
        if isinstance(found, Tensor):
            self._remember(found, node)
        else:
            for i, part in enumerate(found):
                if isinstance(part, Tensor):
                    self._remember(part, self.graph.call_function(getitem, (node, i)))
        return found

    def _refuse_writing_to_inputs(self, func: Any, args: Any, kwargs: Any) -> None:
        """Refuse operations that write to memory from outside: a replay would again."""
        for i, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            if isinstance(value, Tensor) and (
                id(value) not in self._nodes or _memory(value) in self._given
            ):
                raise TypeError(f"`{func}` changes a tensor from outside")

    def _remember(self, tensor: Tensor, node: fx.Node) -> None:
        node.meta["shape"] = tuple(tensor.shape)
        self._nodes[id(tensor)] = node
        self._kept.append(tensor)

    def _node(self, value: Any) -> Any:
        """Return the node of a tensor; one that no operation made is a constant."""
        if not isinstance(value, Tensor):
            return value
        if id(value) not in self._nodes:
            name = f"constant{len(self._kept)}"
            self.constants.register_buffer(name, value)
            self._given.add(_memory(value))
            self._remember(value, self.graph.get_attr(name))
        return self._nodes[id(value)]


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


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
    return reshape.meta["shape"] == source.meta["shape"] and len(reshape.users) == 1
