"""Gradients of all agents' models at once, in one of several exact ways."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, grad_and_value, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from proxmesh.data.shards import Samples
from proxmesh.problems.channels import AgentsInChannels
from proxmesh.problems.fit_check import Loss
from proxmesh.problems.layout import Layout
from proxmesh.problems.replay import Traced

__all__ = ["StackedModel", "Way"]

Way: TypeAlias = Literal["vmap", "channels", "loop"]
"""vmap: by torch's batching rules; channels: by ours, for images; loop: one by one."""

FOR_VMAP = [SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION]  # all but flash: no rule


@final
class StackedModel:
    """One model and loss with as many rows of parameters as there are agents.

    Parameters
    ----------
    model, loss, layout
        What maps a row of parameters and samples to a number.
    classifies
        Whether outputs are scores of labels.
    way
        How the rows of several agents are evaluated; see `Way`.
    """

    def __init__(
        self, model: nn.Module, loss: Loss, layout: Layout, classifies: bool, way: Way
    ) -> None:
        self.way = way
        self._model = model
        self._loss = loss
        self._layout = layout
        self.classifies = classifies
        self._recorded = Traced(self._gradients)

    def grads(self, x: Tensor, batch: Samples) -> Tensor:
        """Row i: gradient of the mean loss at x_i on the i-th part of the batch."""
        if self.way != "loop":
            return self._recorded(x, batch.targets, *batch.inputs)
        one = grad(self._value)
        return torch.stack([one(*each) for each in _by_agent(x, batch)])

    def products(self, x: Tensor, u: Tensor, batch: Samples) -> Tensor:
        """Row i: Hessian of the mean loss at x_i on its part of the batch, times u_i.

        By differentiating ``<gradient, u>``, with torch's own batching rules. Attention
        is written out: the fused kernels have no second derivative.
        """
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            rows = x.detach().requires_grad_(True)
            if self.way == "loop":
                values = [self._value(*each) for each in _by_agent(rows, batch)]
                total = torch.stack(values).sum()
            else:
                total = vmap(self._value)(rows, batch.inputs, batch.targets).sum()
            (gradient,) = torch.autograd.grad(total, rows, create_graph=True)
            if not gradient.requires_grad:  # the loss is linear
                return torch.zeros_like(x)
            return torch.autograd.grad(gradient, rows, u, materialize_grads=True)[0]

    def hessian(
        self, row: Tensor, inputs: tuple[Tensor, ...], targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        """Hessian of one agent's mean loss, as a function that multiplies by it.

        The first derivative is taken once and kept, so that a product costs two
        thirds of one in `products`, in a few rows of one agent alone.
        """
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            row = row.detach().requires_grad_(True)
            value = self._value(row, inputs, targets)
            (gradient,) = torch.autograd.grad(value, row, create_graph=True)

        def times(u: Tensor) -> Tensor:
            if not gradient.requires_grad:  # the loss is linear
                return torch.zeros_like(u)
            return torch.autograd.grad(
                gradient, row, u, retain_graph=True, materialize_grads=True
            )[0]

        return times

    def measures(self, x: Tensor, batch: Samples) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients, losses and shares of correct labels, row by row."""
        if self.way != "loop":
            with torch.enable_grad(), self._rules():
                rows = x.detach().requires_grad_(True)
                values, correct = vmap(self.scores)(rows, batch.inputs, batch.targets)
                gradient = torch.autograd.grad(values.sum(), rows)[0]
            return gradient, values.detach(), correct
        one = grad_and_value(self.scores, has_aux=True)
        found = [one(*each) for each in _by_agent(x, batch)]
        columns = zip(*((g, v, c) for g, (v, c) in found), strict=True)
        gradient, values, correct = map(torch.stack, columns)
        return gradient, values, correct

    def scores(
        self, row: Tensor, inputs: tuple[Tensor, ...], targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Mean loss of one agent, and its share of correct labels (or 0)."""
        outputs = self._outputs(row, inputs)
        value = self._loss(outputs, targets)
        if not self.classifies:
            return value, torch.zeros_like(value)
        return value, (outputs.argmax(1) == targets).to(torch.float64).mean()

    def _gradients(self, x: Tensor, targets: Tensor, *inputs: Tensor) -> Tensor:
        """Take the gradient of the total.

        By plain autograd: `torch.func.grad` imports torch's compiler, which takes a
        second, and is only needed when compiling.
        """
        if torch.compiler.is_compiling():
            found: Tensor = grad(self._total)(x, targets, *inputs)
            return found
        with torch.enable_grad():
            rows = x.detach().requires_grad_(True)
            return torch.autograd.grad(self._total(rows, targets, *inputs), rows)[0]

    def _total(self, rows: Tensor, targets: Tensor, *inputs: Tensor) -> Tensor:
        """Sum the losses of all agents.

        Agents share no parameters, so its gradient is all their gradients at once,
        with one plain backward pass.
        """
        with self._rules():
            total: Tensor = vmap(self._value)(rows, inputs, targets).sum()
        return total

    def _value(
        self, row: Tensor, inputs: tuple[Tensor, ...], targets: Tensor
    ) -> Tensor:
        value: Tensor = self._loss(self._outputs(row, inputs), targets)
        return value

    def _outputs(self, row: Tensor, inputs: tuple[Tensor, ...]) -> Any:
        return functional_call(self._model, self._layout.unflatten(row), inputs)

    @contextmanager
    def _rules(self) -> Iterator[None]:
        """What `vmap` needs: our rules for images, and attention that it can batch."""
        images = AgentsInChannels() if self.way == "channels" else nullcontext()
        with images, sdpa_kernel(FOR_VMAP):
            yield


def _by_agent(x: Tensor, batch: Samples) -> Iterator[Any]:
    for i, row in enumerate(x):
        yield row, tuple(part[i] for part in batch.inputs), batch.targets[i]
