"""Call a constructor with options that a user typed, or say which one is wrong."""

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ConfigDict, ValidationError, create_model

from proxmesh.errors import InputError, unknown

__all__ = ["call"]

T = TypeVar("T")


NUMBERS = (int, float, int | None, float | None)


def call(
    who: str,
    function: Callable[..., T],
    options: Mapping[str, Any],
    *args: Any,
    beside: Iterable[str] = (),
) -> T:
    """Return ``function(*args, **options)`` after checking names and types.

    `beside` are names that may stand beside the options, for the hint after a typo.

    Examples
    --------
    >>> from proxmesh.graphs import erdos_renyi
    >>> call("graph `erdos-renyi`", erdos_renyi, {"prob": "high"}, 8)
    Traceback (most recent call last):
    proxmesh.errors.InputError: graph `erdos-renyi`: `prob` must be a valid number, ...
    """
    accepted = dict(list(inspect.signature(function).parameters.items())[len(args) :])
    for option in options:
        if option not in accepted:
            raise unknown("option", option, [*accepted, *beside], of=who)
    missing = [
        f"`{name}`"
        for name, parameter in accepted.items()
        if parameter.default is parameter.empty and name not in options
    ]
    if missing:
        raise InputError(f"{who} needs a value for {' and '.join(missing)}.")
    return function(*args, **_typed(who, function, options))


def _typed(
    who: str, function: Callable[..., Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    source = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    hints = typing.get_type_hints(source)
    for name, value in options.items():
        if isinstance(value, bool) and hints.get(name) in NUMBERS:
            raise InputError(f"{who}: `{name}` must be a number, got {value}.")
    fields: dict[str, Any] = {name: (hints.get(name, Any), ...) for name in options}
    config = ConfigDict(arbitrary_types_allowed=True)
    model = create_model("Options", __config__=config, **fields)
    try:
        checked = model.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        wrong = first["msg"].replace("Input should be", "must be", 1)
        raise InputError(
            f"{who}: `{first['loc'][0]}` {wrong}, got {first['input']!r}."
        ) from error
    return {name: getattr(checked, name) for name in options}
