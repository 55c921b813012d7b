"""Call a constructor with options that a user typed, or say which one is wrong."""

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ConfigDict, ValidationError, create_model

from proxmesh.errors import InputError, shortened, unknown

__all__ = ["construct"]

T = TypeVar("T")

NUMBERS = (int, float, int | None, float | None)


def construct(
    who: str,
    function: Callable[..., T],
    options: Mapping[str, Any],
    *args: Any,
    also_known: Iterable[str] = (),
) -> T:
    """Return ``function(*args, **options)`` after checking names and types.

    Parameters
    ----------
    who
        What is being built, for messages.
    function
        A class or a function whose parameters have type hints.
    options
        What the user typed, by name.
    args
        Positional arguments that do not come from the user.
    also_known
        Names that may stand beside the options, for the hint after a typo.

    Examples
    --------
    >>> from proxmesh.graphs import erdos_renyi
    >>> construct("graph `erdos-renyi`", erdos_renyi, {"prob": "high"}, 8)
    Traceback (most recent call last):
    proxmesh.errors.InputError: graph `erdos-renyi`: `prob` must be a valid number, ...
    """
    accepted = dict(list(inspect.signature(function).parameters.items())[len(args) :])
    for option in options:
        if option not in accepted:
            raise unknown("option", option, [*accepted, *also_known], of=who)
    missing = [
        f"`{name}`"
        for name, parameter in accepted.items()
        if parameter.default is parameter.empty and name not in options
    ]
    if missing:
        raise InputError(f"{who} needs a value for {' and '.join(missing)}.")
    return function(*args, **_with_types(who, function, options))


def _with_types(
    who: str, function: Callable[..., Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Convert the options to the types that the function asks for."""
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
        kinds = [
            str(one["ctx"]["expected"]).strip("'")  # one of several classes by its kind
            for one in error.errors()
            if one["type"] == "literal_error" and one["loc"][-1] == "kind"
        ]
        if len(kinds) > 1:
            of = f"`{first['loc'][0]}` of {who}"
            raise unknown("kind", str(first["input"]), kinds, of=of) from error
        wrong = first["msg"].replace("Input should be", "must be", 1)
        got = shortened(first["input"], write=repr)
        raise InputError(f"{who}: `{first['loc'][0]}` {wrong}, got {got}.") from error
    return dict(checked)
