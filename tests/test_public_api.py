"""Every public name says what it is, what its parameters mean, and shows itself.

Public is what `proxmesh.__all__` names, and what two pages show: docs/api.md and
docs/protocols.md.
"""

import dataclasses
import enum
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import proxmesh as pm
from proxmesh import types
from proxmesh.problems.regularizers import Regularizer

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (DOCS / "api.md").read_text() + (DOCS / "protocols.md").read_text()

NO_EXAMPLE = {
    "proxmesh.data.datasets.fashion_mnist": "needs files that are not in the package",
    "proxmesh.data.datasets.mnist": "needs files that are not in the package",
    "proxmesh.optim.HSMADMM": "needs several processes; its docstring has the loop",
}
"""Classes and functions that cannot be shown in five lines, and why."""


def is_protocol(thing: Any) -> bool:
    return getattr(thing, "_is_protocol", False)


def is_type_guard(thing: Any) -> bool:
    """Whether it only asks for an ability, which one line says."""
    return "TypeGuard" in str(getattr(thing, "__annotations__", {}).get("return"))


PROTOCOLS = [Regularizer, *filter(is_protocol, vars(types).values())]


def home(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def found_at(path: str) -> Any:
    """The module, or the name in a module, with this dotted path."""
    try:
        return import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(import_module(module), name)


def public(thing: Any) -> Iterator[Any]:
    """The thing itself, or the classes and functions that a module exports."""
    if isinstance(thing, ModuleType):
        for name in thing.__all__:
            yield from public(getattr(thing, name))
    elif isinstance(thing, type | FunctionType) and home(thing).startswith("proxmesh."):
        yield thing


SHOWN = re.findall(r"^::: ([\w.]+)", PAGES, re.MULTILINE)
THINGS = [getattr(pm, name) for name in pm.__all__] + [found_at(path) for path in SHOWN]
NAMES = {home(found): found for thing in THINGS for found in public(thing)}


def function_of(member: Any) -> Any:
    if isinstance(member, staticmethod | classmethod):
        return member.__func__
    if isinstance(member, property):
        return member.fget
    return member.func if isinstance(member, cached_property) else member


def members(thing: Any) -> dict[str, Any]:
    """The public methods and properties that a class itself defines."""
    if not inspect.isclass(thing):
        return {}
    return {
        name: function_of(member)
        for name, member in vars(thing).items()
        if not name.startswith("_") and isinstance(function_of(member), FunctionType)
    }


METHODS = {
    f"{path}.{name}": (thing, member)
    for path, thing in NAMES.items()
    for name, member in members(thing).items()
}


def parameters(thing: Any) -> list[str]:
    """What a caller gives; for a class, what its constructor takes."""
    if not inspect.isclass(thing):
        names = list(inspect.signature(thing).parameters)
        return [name for name in names if name not in {"self", "cls"}]
    if dataclasses.is_dataclass(thing):
        return [field.name for field in dataclasses.fields(thing) if field.init]
    if is_protocol(thing) or issubclass(thing, enum.Enum):
        return []
    return parameters(vars(thing)["__init__"]) if "__init__" in vars(thing) else []


def explained(thing: Any, *titles: str) -> set[str]:
    """The names that these sections of the docstring explain."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    title, found = "", set()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below and not below.strip("-"):
            title = line
        elif title in titles and line and not line.startswith((" ", "-")):
            names = line.partition(":")[0].split(",")
            found |= {name.strip().lstrip("*") for name in names}
    return found


def explained_by_a_protocol(owner: type[Any], name: str, given: list[str]) -> bool:
    """Whether a protocol that this class satisfies explains the method once for all.

    Its docstring may list an optional method, as ``name(x, y)``.
    """
    for protocol in PROTOCOLS:
        needed = members(protocol)
        if owner is protocol or not all(hasattr(owner, other) for other in needed):
            continue
        if name in needed or f"``{name}({', '.join(given)})" in str(protocol.__doc__):
            return True
    return False


def each(paths: Iterable[str]) -> pytest.MarkDecorator:
    """One case per name."""
    return pytest.mark.parametrize("path", list(paths))


@each(NAMES)
def test_it_is_described(path: str) -> None:
    thing = NAMES[path]
    assert len(thing.__doc__ or "") > 20


@each(NAMES)
def test_its_parameters_are_explained(path: str) -> None:
    thing = NAMES[path]
    if is_type_guard(thing):
        return
    record = dataclasses.is_dataclass(thing)
    titles = ("Parameters", "Attributes") if record else ("Parameters",)
    assert set(parameters(thing)) <= explained(thing, *titles)


@each(path for path in NAMES if path not in NO_EXAMPLE)
def test_it_shows_itself(path: str) -> None:
    thing = NAMES[path]
    if is_protocol(thing) or is_type_guard(thing):
        return
    _, _, shown = (inspect.getdoc(thing) or "").partition("Examples\n--------\n")
    assert ">>> " in shown


@each(METHODS)
def test_its_methods_are_explained(path: str) -> None:
    owner, method = METHODS[path]
    assert method.__doc__
    given = parameters(method)
    missing = set(given) - explained(method, "Parameters")
    assert not missing or explained_by_a_protocol(owner, method.__name__, given)


def test_modules_are_described() -> None:
    for name in pm.__all__:
        assert len(inspect.getdoc(getattr(pm, name)) or "") > 20, name


def test_the_page_shows_every_public_name() -> None:
    shown = {home(found) for path in SHOWN for found in public(found_at(path))}
    for name in pm.__all__:
        for thing in public(getattr(pm, name)):
            assert home(thing) in shown, f"docs/api.md lacks `{home(thing)}`"


def test_the_list_without_examples_is_true() -> None:
    assert set(NO_EXAMPLE) <= set(NAMES)
    for path in NO_EXAMPLE:
        assert ">>> " not in (inspect.getdoc(NAMES[path]) or "")
