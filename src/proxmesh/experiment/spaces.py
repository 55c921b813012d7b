"""What a search may change: ranges, multiples and choices for every method."""

import itertools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias, final

from proxmesh.algorithms import ALGORITHMS
from proxmesh.errors import InputError, unknown
from proxmesh.experiment.config import put
from proxmesh.schedules import Power

__all__ = ["Choice", "Range", "Space", "load_spaces"]

DIGITS = 3  # of a value that is tried, so that the one written down is the one run


@final
@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from low to high; with `times`, multiples of another hyperparameter."""

    low: float
    high: float
    log: bool = True
    times: str | None = None

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
@dataclass(frozen=True, slots=True)
class Choice:
    """One of a list."""

    choices: tuple[Any, ...]


Entry: TypeAlias = Range | Choice


@final
@dataclass(frozen=True, slots=True)
class Space:
    """The hyperparameters of one method that a search may change."""

    label: str
    entries: Mapping[str, Entry]

    def options(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Turn a point of the search into options of the method."""
        values: dict[str, Any] = {}
        for name, entry in self.entries.items():
            value = point[name]
            if isinstance(entry, Range):
                times = 1.0 if entry.times is None else values[entry.times]
                value = float(f"{value * times:.{DIGITS}g}")
            values[name] = value
        tree: dict[str, Any] = {}
        for name, value in values.items():
            put(tree, name, value)
        return tree

    def point(self, algorithm: Any) -> dict[str, Any] | None:
        """Return the point of a method's own values; None if they lie outside."""
        values = {name: _field(algorithm, name) for name in self.entries}
        point: dict[str, Any] = {}
        for name, entry in self.entries.items():
            value = values[name]
            if isinstance(entry, Choice):
                near = [c for c in entry.choices if c == value]
                inside = bool(near)
            else:
                value /= 1.0 if entry.times is None else values[entry.times]
                inside = entry.low <= value <= entry.high
            if not inside:
                return None
            point[name] = value
        return point

    def grid(self, trials: int) -> list[dict[str, Any]]:
        """Return the points of a grid as fine as that many trials pay for."""
        fixed = [e for e in self.entries.values() if isinstance(e, Choice)]
        ranges = len(self.entries) - len(fixed)
        left = trials / math.prod(len(e.choices) for e in fixed)
        points = max(1, int(left ** (1 / ranges) + 1e-9)) if ranges else 1
        axes = [
            entry.choices if isinstance(entry, Choice) else entry.spread(points)
            for entry in self.entries.values()
        ]
        every = itertools.product(*axes)
        return [dict(zip(self.entries, p, strict=True)) for p in every][:trials]


def load_spaces(file: str | None = None) -> dict[str, Space]:
    """Read the shipped spaces and, over them, those of a file."""
    shipped = resources.files("proxmesh") / "experiment" / "spaces.toml"
    tree = _parsed(shipped.read_text(encoding="utf-8"), "the shipped spaces")
    if file is not None:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"space `{file}` cannot be read: {error}.") from error
        tree |= _parsed(text, f"space `{file}`")
    return {label: _space(label, entries) for label, entries in tree.items()}


def _parsed(text: str, source: str) -> dict[str, Any]:
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: not valid TOML: {error}.") from error
    for label, entries in tree.items():
        if label not in ALGORITHMS:
            raise unknown("algorithm", label, ALGORITHMS, of=source)
        if not isinstance(entries, Mapping):
            raise InputError(f"{source}: `{label}` must be a table, got {entries!r}.")
    return tree


def _space(label: str, entries: Mapping[str, Any]) -> Space:
    return Space(label, {name: _entry(label, name, e) for name, e in entries.items()})


def _entry(label: str, name: str, entry: Any) -> Entry:
    who = f"space of `{label}`: `{name}`"
    keys = set(entry) if isinstance(entry, Mapping) else set()
    if keys == {"choices"}:
        if not entry["choices"]:
            raise InputError(f"{who} has no choices. List some, or leave it out.")
        return Choice(tuple(entry["choices"]))
    if not {"low", "high"} <= keys <= {"low", "high", "log", "times"}:
        raise InputError(
            f"{who} must be {{ low, high }}, with `log` or `times` if need be, or "
            f"{{ choices }}, got {entry!r}."
        )
    found = Range(**entry)
    if not (0 < found.low < found.high or (not found.log and found.low < found.high)):
        raise InputError(
            f"{who}: `low` must be below `high`, and positive on a logarithmic scale, "
            f"got {found.low} and {found.high}."
        )
    return found


def _field(algorithm: Any, name: str) -> Any:
    """Read a field, or a part of a schedule; a plain number is a constant one."""
    first, _, part = name.partition(".")
    if not hasattr(algorithm, first):
        kind = type(algorithm).__name__
        raise InputError(f"`{kind}` has no hyperparameter `{name}` to tune.")
    value = getattr(algorithm, first)
    if not part:
        return value
    schedule = value if isinstance(value, Power) else Power(float(value), 0.0)
    return getattr(schedule, part)
