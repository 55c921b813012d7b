"""Gradients of all agents' models at once, in one of several exact ways."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from proxmesh.data.shards import Samples, arguments
from proxmesh.data.sparse import SparseTable, SparseWay
from proxmesh.problems.channels import AgentsInChannels
from proxmesh.problems.fit_check import Fit, Loss
from proxmesh.problems.layout import Layout
from proxmesh.problems.noise import SampledNoise
from proxmesh.problems.replay import Traced
from proxmesh.problems.stateful_layers import in_eval_mode

__all__ = ["PRECISIONS", "LossOfRow", "Precision", "StackedModel", "Way"]

Way: TypeAlias = Literal["vmap", "channels", "loop"]
"""vmap: by torch's batching rules; channels: by ours, for images; loop: one by one."""

Precision: TypeAlias = Literal["full", "bfloat16"]
PRECISIONS: dict[str, torch.dtype | None] = {"full": None, "bfloat16": torch.bfloat16}
"""What models compute in when they are trained; None: what their parameters are in."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class LossOfRow:
    """What maps a row of parameters and samples to a number.

    Parameters
    ----------
    model, loss, layout
        The model, the loss of its outputs, and how its parameters lie in a row.
    fit
        What was found out about them.
    autocast
        The precision in which the model computes when it is trained, if another than
        its own; outputs and loss keep that of the row.
    """

    model: nn.Module
    loss: Loss
    layout: Layout
    fit: Fit
    autocast: torch.dtype | None = None

    def in_training(
        self, row: Tensor, inputs: tuple[Any, ...], targets: Tensor
    ) -> Tensor:
        """Loss of the model as it is trained."""
        with self._precision(row.device.type):
            outputs = self.layout.call(self.model, row, inputs)
        value: Tensor = self.loss(outputs, targets)
        return value

    def exact(self, row: Tensor, inputs: tuple[Any, ...], targets: Tensor) -> Tensor:
        """The same in the model's own precision."""
        value: Tensor = self.loss(self.layout.call(self.model, row, inputs), targets)
        return value

    def _precision(self, device: str) -> AbstractContextManager[Any]:
        if self.autocast is None:
            return nullcontext()
        # A cache of casted parameters would outlive a row.
        return torch.autocast(device, self.autocast, cache_enabled=False)


@final
class StackedModel:
    """One model and loss with as many rows of parameters as there are agents.

    Parameters
    ----------
    of_row
        What is evaluated at every row.
    way
        How the rows of several agents are evaluated; see `Way`.
    sparse
        How the model multiplies by sparse samples, if they are.
    """

    def __init__(
        self, of_row: LossOfRow, way: Way, sparse: SparseWay = "gather"
    ) -> None:
        self.way = way
        self.sparse = sparse
        self._of_row = of_row
        self._evaluated = in_eval_mode(of_row.model)
        self.score = of_row.fit.score
        self._draws = of_row.fit.draws
        self._recorded = Traced(self._gradients)

    def grads(self, x: Tensor, batch: Samples) -> Tensor:
        """Row i: gradient of the mean loss at x_i on the i-th part of the batch."""
        if self.way != "loop":
            keys = () if batch.keys is None else (batch.keys,)
            table = _parts(batch.table)
            return self._recorded(x, batch.targets, *batch.inputs, *table, *keys)
        found = []
        for i, (row, inputs, targets) in enumerate(self._by_agent(x, batch)):
            with self._noise(batch, i), _no_shortcuts():
                found.append(_slope(self._of_row.in_training, row, inputs, targets))
        return torch.stack(found)

    def products(self, x: Tensor, u: Tensor, batch: Samples) -> Tensor:
        """Row i: Hessian of the mean loss at x_i on its part of the batch, times u_i.

        By differentiating ``<gradient, u>``, with torch's own batching rules. Attention
        is written out: the fused kernels have no second derivative.
        """
        exact = self._of_row.exact
        with torch.enable_grad(), plain_attention():
            rows = x.detach().requires_grad_(True)
            if self.way == "loop":
                values = []
                for i, each in enumerate(self._by_agent(rows, batch)):
                    with self._noise(batch, i):
                        values.append(exact(*each))
                total = torch.stack(values).sum()
            else:
                with self._noise(batch):
                    function = self._given(exact, batch.table)
                    all_agents = vmap(function, randomness=self._randomness)
                    total = all_agents(rows, batch.inputs, batch.targets).sum()
            (gradient,) = torch.autograd.grad(total, rows, create_graph=True)
            if not gradient.requires_grad:  # the loss is linear
                return torch.zeros_like(x)
            return torch.autograd.grad(gradient, rows, u, materialize_grads=True)[0]

    def hessian(self, row: Tensor, batch: Samples) -> Callable[[Tensor], Tensor]:
        """Hessian of one agent's mean loss, as a function that multiplies by it.

        The first derivative is taken once and kept, so that a product costs two
        thirds of one in `products`, in a few rows of one agent alone.
        """
        with torch.enable_grad(), plain_attention(), self._noise(batch, 0):
            row = row.detach().requires_grad_(True)
            inputs = tuple(part[0] for part in batch.inputs)
            exact = self._given(self._of_row.exact, batch.table)
            value = exact(row, inputs, batch.targets[0])
            (gradient,) = torch.autograd.grad(value, row, create_graph=True)

        def times(u: Tensor) -> Tensor:
            if not gradient.requires_grad:  # the loss is linear
                return torch.zeros_like(u)
            return torch.autograd.grad(
                gradient, row, u, retain_graph=True, materialize_grads=True
            )[0]

        return times

    def measures(self, x: Tensor, batch: Samples) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients, losses and shares of correct labels in eval mode, row by row."""
        if self.way != "loop":
            with torch.enable_grad(), self._rules():
                rows = x.detach().requires_grad_(True)
                scores = vmap(partial(self.scores, table=batch.table))
                values, correct = scores(rows, batch.inputs, batch.targets)
                gradient = torch.autograd.grad(values.sum(), rows)[0]
            return gradient, values.detach(), correct
        found = []
        for i, each in enumerate(x):
            inputs = tuple(part[i] for part in batch.inputs)
            with torch.enable_grad(), _no_shortcuts():
                row = each.detach().requires_grad_(True)
                value, correct = self.scores(row, inputs, batch.targets[i], batch.table)
                found.append((_derivative(value, row), value.detach(), correct))
        gradient, values, correct = map(torch.stack, zip(*found, strict=True))
        return gradient, values, correct

    def scores(
        self,
        row: Tensor,
        inputs: tuple[Tensor, ...],
        targets: Tensor,
        table: SparseTable | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Mean loss of one agent, and its share of correct labels (or 0).

        Where numbers are predicted, their mean squared error in its place.
        """
        given = arguments(inputs, table, self.sparse)
        outputs = self._of_row.layout.call(self._evaluated, row, given)
        value = self._of_row.loss(outputs, targets)
        if self.score is None:
            return value, torch.zeros_like(value)
        if self.score == "numbers":
            return value, (outputs[:, 0] - targets).square().to(torch.float64).mean()
        found = outputs.argmax(1) if self.score == "labels" else outputs[:, 0] > 0
        return value, (found == targets).to(torch.float64).mean()

    def _gradients(self, x: Tensor, targets: Tensor, *rest: Tensor) -> Tensor:
        """Take the gradient of the total."""
        return _slope(self._total, x, targets, *rest)

    def _total(self, x: Tensor, targets: Tensor, *rest: Tensor) -> Tensor:
        """Sum the losses of all agents.

        Agents share no parameters, so its gradient is all their gradients at once,
        with one plain backward pass.
        """
        inputs, keys = (rest[:-1], rest[-1]) if self._draws else (rest, None)
        table, features = None, self._of_row.fit.features
        if features is not None:
            rows, offsets, columns, values = inputs
            table, inputs = SparseTable(offsets, columns, values, features), (rows,)
        batch = Samples(inputs, targets, keys, table)
        with self._rules(), self._noise(batch):
            function = self._given(self._of_row.in_training, table)
            all_agents = vmap(function, randomness=self._randomness)
            total: Tensor = all_agents(x, batch.inputs, batch.targets).sum()
        return total

    def _given(
        self, function: Callable[..., Tensor], table: SparseTable | None
    ) -> Callable[..., Tensor]:
        """A function of a row, inputs and targets that is given sparse rows."""
        if table is None:
            return function
        return lambda row, inputs, targets: function(
            row, arguments(inputs, table, self.sparse), targets
        )

    def _by_agent(self, x: Tensor, batch: Samples) -> Iterator[Any]:
        for i, row in enumerate(x):
            inputs = tuple(part[i] for part in batch.inputs)
            given = arguments(inputs, batch.table, self.sparse)
            yield row, given, batch.targets[i]

    @property
    def _randomness(self) -> str:
        """What torch is to do where the model draws: each agent has its own noise."""
        return "different" if self._draws else "error"

    @contextmanager
    def _rules(self) -> Iterator[None]:
        """Batch the agents by rules that exist, of torch's or ours."""
        images = AgentsInChannels() if self.way == "channels" else nullcontext()
        with images, plain_attention():
            yield

    @staticmethod
    def _noise(batch: Samples, agent: int | None = None) -> AbstractContextManager[Any]:
        """Draw the noise of one agent, or of all."""
        if batch.keys is None:
            return nullcontext()
        return SampledNoise(batch.keys if agent is None else batch.keys[agent])


def _slope(function: Callable[..., Tensor], x: Tensor, *rest: Any) -> Tensor:
    """Take the gradient of a function by its first argument.

    By plain autograd: `torch.func.grad` imports torch's compiler, which takes a second,
    takes recurrent kernels apart, and is only needed when compiling.
    """
    if torch.compiler.is_compiling():
        found: Tensor = grad(function)(x, *rest)
        return found
    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        return _derivative(function(x, *rest), x)


def _derivative(value: Tensor, x: Tensor) -> Tensor:
    """Differentiate a number by x; it need not depend on it."""
    if not value.requires_grad:
        return torch.zeros_like(x)
    return torch.autograd.grad(value, x, materialize_grads=True)[0]


@contextmanager
def _no_shortcuts() -> Iterator[None]:
    """Keep out the kernels of torch's encoder layers that have no derivative."""
    if torch.compiler.is_compiling():  # where no such switch can be recorded
        yield
        return
    allowed = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(allowed)


@contextmanager
def plain_attention() -> Iterator[None]:
    """Take attention as products and a softmax.

    Fused kernels have no rule for several agents, and no second derivative.
    """
    with _no_shortcuts(), sdpa_kernel(SDPBackend.MATH):
        yield


def _parts(table: SparseTable | None) -> tuple[Tensor, ...]:
    """The tensors of a table."""
    return () if table is None else (table.offsets, table.columns, table.values)
