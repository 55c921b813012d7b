"""How a model's trainable parameters lie in one flat row."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

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

    @staticmethod
    def of(model: nn.Module) -> "Layout":
        """Return the layout of a model; frozen parameters stay out of it."""
        trainable = [
            (n, w.shape) for n, w in model.named_parameters() if w.requires_grad
        ]
        if not trainable:
            raise InputError(
                f"model `{type(model).__name__}` has no trainable parameter. "
                "Give it some, or set `requires_grad=True`."
            )
        names, shapes = zip(*trainable, strict=True)
        return Layout(names, shapes)

    @property
    def sizes(self) -> list[int]:
        """Entries of each parameter."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def p(self) -> int:
        """Length of the row."""
        return sum(self.sizes)

    def unflatten(self, row: Tensor) -> dict[str, Tensor]:
        """Cut a row into named parameters."""
        parts = torch.split_with_sizes(row, self.sizes)
        shaped = (part.view(s) for part, s in zip(parts, self.shapes, strict=True))
        return dict(zip(self.names, shaped, strict=True))

    def flatten(self, model: nn.Module) -> Tensor:
        """Read a model's trainable parameters into a row."""
        weights = dict(model.named_parameters())
        return torch.cat([weights[name].detach().reshape(-1) for name in self.names])

    def write(self, row: Tensor, model: nn.Module) -> None:
        """Write a row into a model's trainable parameters."""
        weights = dict(model.named_parameters())
        with torch.no_grad():
            for name, value in self.unflatten(row).items():
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
        numbers = self.unflatten(torch.arange(self.p))
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
