"""How a model's trainable parameters lie in one flat row."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_map_only

from proxmesh.data.shards import Samples
from proxmesh.errors import InputError

__all__ = ["Layout"]


@final
@dataclass(frozen=True, slots=True)
class Layout:
    """Names and shapes of the trainable parameters, in the order of the row.

    Examples
    --------
    >>> layout = Layout.of(nn.Linear(3, 2))
    >>> layout.names, layout.p
    (('weight', 'bias'), 8)
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    dtypes: tuple[torch.dtype, ...] = ()  # of the parameters; empty: the row's own
    tied: tuple[tuple[str, str], ...] = ()  # other places, and names

    @staticmethod
    def of(model: nn.Module) -> "Layout":
        """Return the layout of a model; frozen parameters stay out of it."""
        trainable = [
            (n, w.shape, w.dtype)
            for n, w in model.named_parameters()
            if w.requires_grad
        ]
        if not trainable:
            raise InputError(
                f"model `{type(model).__name__}` has no trainable parameter. "
                "Give it some, or set `requires_grad=True`."
            )
        names, shapes, dtypes = zip(*trainable, strict=True)
        return Layout(names, shapes, dtypes, _tied(model))

    @property
    def sizes(self) -> list[int]:
        """Entries of each parameter."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def p(self) -> int:
        """Length of the row."""
        return sum(self.sizes)

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the row: the parameters' highest, but at least float32.

        In 16 bits the small steps of a method would be lost to rounding.
        """
        return reduce(torch.promote_types, self.dtypes, torch.float32)

    def cast(self, samples: Samples, device: torch.device) -> Samples:
        """Move samples, inputs in the parameters' precision, targets in the row's."""
        moved = samples.cast(self.dtype, device)
        of_inputs = reduce(torch.promote_types, self.dtypes)
        if of_inputs == self.dtype:
            return moved
        narrow = moved.cast(of_inputs, device)
        return replace(narrow, targets=moved.targets)

    def unflatten(self, row: Tensor) -> dict[str, Tensor]:
        """Cut a row into named parameters; those of 16 bits get their precision."""
        parts = self.cut(row)
        for name, dtype in zip(self.names, self.dtypes, strict=False):
            if dtype.itemsize < torch.float32.itemsize:
                parts[name] = parts[name].to(dtype)
        return parts

    def call(self, model: nn.Module, row: Tensor, inputs: tuple[Any, ...]) -> Any:
        """Call a model with the parameters of a row in place of its own.

        Its outputs have at least the precision of the row, for the loss.
        """
        weights = self.unflatten(row)
        also = {place: weights[name] for place, name in self.tied}
        # Torch's own search for tied weights leaves ours in a layer with two names.
        found = functional_call(model, {**weights, **also}, inputs, tie_weights=False)
        return tree_map_only(Tensor, lambda part: _widened(part, row.dtype), found)

    def cut(self, row: Tensor) -> dict[str, Tensor]:
        """Cut a row into named parts."""
        parts = torch.split_with_sizes(row, self.sizes)
        shaped = (part.view(s) for part, s in zip(parts, self.shapes, strict=True))
        return dict(zip(self.names, shaped, strict=True))

    def flatten(self, model: nn.Module) -> Tensor:
        """Read a model's trainable parameters into a row."""
        weights = dict(model.named_parameters())
        parts = [weights[name].detach().reshape(-1) for name in self.names]
        return torch.cat(parts).to(self.dtype)

    def write(self, row: Tensor, model: nn.Module) -> None:
        """Write a row into a model's trainable parameters."""
        weights = dict(model.named_parameters())
        with torch.no_grad():
            for name, value in self.cut(row).items():
                weights[name].copy_(value)

    def select(self, wanted: Callable[[str], bool]) -> "Layout":
        """Return the layout of the parameters with these names alone."""
        kept = [
            (n, s) for n, s in zip(self.names, self.shapes, strict=True) if wanted(n)
        ]
        names, shapes = zip(*kept, strict=True)
        return Layout(names, shapes)

    def columns(self, names: tuple[str, ...]) -> Tensor:
        """Return the columns of these parameters in the row."""
        numbers = self.cut(torch.arange(self.p))
        return torch.cat([numbers[name].reshape(-1) for name in names])

    def row_groups(self) -> Tensor:
        """Number the groups: each row of a weight, each entry of a bias."""
        groups, start = [], 0
        for shape in self.shapes:
            width = math.prod(shape[1:]) if len(shape) > 1 else 1
            rows = math.prod(shape) // width
            groups.append(torch.arange(start, start + rows).repeat_interleave(width))
            start += rows
        return torch.cat(groups)


def _widened(part: Tensor, dtype: torch.dtype) -> Tensor:
    if not part.is_floating_point() or part.dtype.itemsize >= dtype.itemsize:
        return part
    return part.to(dtype)


def _tied(model: nn.Module) -> tuple[tuple[str, str], ...]:
    """List the other places of trainable parameters that are in several layers."""
    names = {id(w): n for n, w in model.named_parameters() if w.requires_grad}
    places = (
        (f"{layer}.{name}" if layer else name, names[id(weight)])
        for layer, module in model.named_modules()
        for name, weight in module.named_parameters("", False, False)
        if id(weight) in names
    )
    return tuple((place, name) for place, name in places if place != name)
