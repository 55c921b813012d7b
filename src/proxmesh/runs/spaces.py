"""What a search may change: ranges, multiples and choices for each method."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, TypeAlias, final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from proxmesh.algorithms import ALGORITHMS
from proxmesh.errors import InputError, shortened, unknown
from proxmesh.files import parsed_toml, read_text
from proxmesh.runs.config import put
from proxmesh.runs.methods import method_named
from proxmesh.schedules import Power

__all__ = ["Choice", "Range", "Space", "load_spaces", "space_of"]

EXACT_KEYS = ConfigDict(extra="forbid", frozen=True)
DIGITS = 3  # of a value that is tried, so that the one written down is the one run


@final
class Range(BaseModel):
    """Numbers from low to high; with `times`, multiples of another hyperparameter."""

    model_config = EXACT_KEYS

    low: FiniteFloat
    high: FiniteFloat
    log: bool = True
    times: str | None = None

    @model_validator(mode="after")
    def _in_order(self) -> "Range":
        if not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError("low must be below high")
        return self

    def spread(self, points: int) -> list[float]:
        """Return that many values from end to end."""
        if points == 1:
            middle = math.sqrt(self.low * self.high)
            return [middle if self.log else (self.low + self.high) / 2]
        inner = [i / (points - 1) for i in range(1, points - 1)]
        if self.log:
            between = [self.low * (self.high / self.low) ** s for s in inner]
        else:
            between = [self.low + (self.high - self.low) * s for s in inner]
        return [self.low, *between, self.high]


@final
class Choice(BaseModel):
    """One of a list."""

    model_config = EXACT_KEYS

    choices: Annotated[list[Any], Field(min_length=1)]


Dimension: TypeAlias = Range | Choice


@final
@dataclass(frozen=True, slots=True)
class Space:
    """The hyperparameters of one method that a search may change."""

    label: str
    dimensions: Mapping[str, Dimension]

    def options(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Turn a point of the search into options of the method."""
        values: dict[str, Any] = {}
        for name, dimension in self.dimensions.items():
            value = point[name]
            if isinstance(dimension, Range):
                times = 1.0 if dimension.times is None else values[dimension.times]
                value = float(f"{value * times:.{DIGITS}g}")
            values[name] = value
        tree: dict[str, Any] = {}
        for name, value in values.items():
            put(tree, name, value)
        return tree

    def point(self, algorithm: Any) -> dict[str, Any] | None:
        """Return the point of a method's own values; None if they lie outside."""
        values = {name: _field(algorithm, name) for name in self.dimensions}
        point: dict[str, Any] = {}
        for name, dimension in self.dimensions.items():
            value = values[name]
            if isinstance(dimension, Choice):
                inside = value in dimension.choices
            elif isinstance(value, int | float):
                value /= 1.0 if dimension.times is None else values[dimension.times]
                inside = dimension.low <= value <= dimension.high
            else:  # a schedule, or None, where the space has numbers
                inside = False
            if not inside:
                return None
            point[name] = value
        return point

    def grid(self, trials: int) -> list[dict[str, Any]]:
        """Return the points of a grid as fine as that many trials pay for."""
        fixed = [e for e in self.dimensions.values() if isinstance(e, Choice)]
        ranges = len(self.dimensions) - len(fixed)
        left = trials / math.prod(len(e.choices) for e in fixed)
        points = max(1, int(left ** (1 / ranges) + 1e-9)) if ranges else 1
        axes = [
            d.choices if isinstance(d, Choice) else d.spread(points)
            for d in self.dimensions.values()
        ]
        every = [dict(zip(self.dimensions, p, strict=True)) for p in product(*axes)]
        if len(every) <= trials:
            return every
        return [every[i * len(every) // trials] for i in range(trials)]  # spread out


def load_spaces(
    file: str | None = None, own: Mapping[str, str] | None = None
) -> dict[str, Space]:
    """The spaces of all methods and, over them, those of a TOML file.

    `own`: names of methods that are not ours, by their labels.
    """
    tree: dict[str, Any] = {name: m.space for name, m in ALGORITHMS.items()}
    tree |= {label: method_named(name).space for label, name in (own or {}).items()}
    if file is not None:
        tree |= _parsed(read_text(file, "space"), f"space `{file}`", tree)
    return {label: space_of(label, entries) for label, entries in tree.items()}


def _parsed(text: str, source: str, known: Iterable[str]) -> dict[str, Any]:
    tree = parsed_toml(text, source)
    for label, entries in tree.items():
        if label not in known:
            raise unknown("algorithm", label, known, of=source)
        if not isinstance(entries, Mapping):
            got = shortened(entries, write=repr)
            raise InputError(f"{source}: `{label}` must be a table, got {got}.")
    return tree


def space_of(label: str, entries: Mapping[str, Any]) -> Space:
    """A space from its entries; a pair is a range, a list is a choice.

    Examples
    --------
    >>> space_of("dsgt", {"alpha": (0.1, 1.0)}).dimensions["alpha"].low
    0.1
    """
    space = Space(
        label,
        {name: _dimension(label, name, entry) for name, entry in entries.items()},
    )
    before: list[str] = []
    for name, dimension in space.dimensions.items():
        times = dimension.times if isinstance(dimension, Range) else None
        if times is not None and times not in before:
            raise InputError(
                f"space of `{label}`: `{name}` is a multiple of `{times}`, which is "
                "not listed before it. List it first."
            )
        before.append(name)
    return space


def _dimension(label: str, name: str, entry: Any) -> Dimension:
    who = f"space of `{label}`: `{shortened(name)}`"
    if isinstance(entry, tuple) and len(entry) == 2:
        entry = dict(zip(("low", "high"), map(float, entry), strict=True))
    elif isinstance(entry, list):
        entry = {"choices": entry}
    try:
        return TypeAdapter(Dimension).validate_python(entry, strict=True)
    except ValidationError as error:
        raise InputError(
            f"{who} must be {{ low, high }}, numbers with low below high and positive "
            "on a logarithmic scale, with `log` or `times` if needed, or "
            f"{{ choices = [...] }}, got {shortened(entry, write=repr)}."
        ) from error


def _field(algorithm: Any, name: str) -> Any:
    """Read a field, or a part of a schedule; a plain number is a constant one."""
    first, _, part = name.partition(".")
    known = [field.name for field in dataclasses.fields(algorithm)]
    if first not in known:
        raise unknown("hyperparameter", name, known, of=type(algorithm).__name__)
    value = getattr(algorithm, first)
    if not part:
        return value
    parts = [field.name for field in dataclasses.fields(Power)]
    if part not in parts:
        raise unknown("part", part, parts, of=f"the schedule `{first}`")
    schedule = value if isinstance(value, Power) else Power(float(value), 0.0)
    return getattr(schedule, part)
