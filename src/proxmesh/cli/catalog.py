"""What there is, by name, read off the source: importing it would bring torch.

Every kind has one registry, which stays the only list of its names. A name is described
by the first line of its docstring, or by what its entry says ``about`` it. A new kind
of thing is one line in `KINDS`.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from textwrap import wrap
from typing import NamedTuple, final

__all__ = ["KINDS", "Item", "Kind", "methods_epilog"]

HELP_WIDTH = 76  # of 80 columns
AS_IT_IS = "\b"  # typer breaks lines inside names; it leaves such a paragraph alone

Definition = ast.ClassDef | ast.FunctionDef


class Item(NamedTuple):
    """One thing that has a name."""

    name: str
    about: str


@final
@dataclass(frozen=True, slots=True)
class Kind:
    """Things of one kind."""

    use: str  # how one is chosen
    read: Callable[[], Iterator[Item]]


def _in_table(module: str, table: str) -> Iterator[Item]:
    """Entries of ``table = {"name": thing}``; a thing may be text, too."""
    (found,) = (
        node.value
        for node in _parsed(module).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and table in _targets(node)
    )
    assert isinstance(found, ast.Dict)
    for key, value in zip(found.keys, found.values, strict=True):
        yield Item(_text(key), _about(module, value))


def _entered(module: str, decorator: str) -> Iterator[Item]:
    """Functions under ``@decorator`` or ``@decorator("name")``, or put in by hand."""
    for node in _parsed(module).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            yield Item(_text(node.targets[0].slice), _about(module, node.value))
        for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else []:
            assert isinstance(node, ast.FunctionDef)
            name = _text(mark.args[0]) if isinstance(mark, ast.Call) else node.name
            called = mark.func if isinstance(mark, ast.Call) else mark
            if isinstance(called, ast.Name) and called.id == decorator:
                yield Item(name.replace("_", "-"), _first_line(node))


def _by_kind(module: str) -> Iterator[Item]:
    """Classes with a field ``kind: Literal["name"]``."""
    for node in _parsed(module).body:
        for part in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(part, ast.AnnAssign) and _targets(part) == ["kind"]:
                assert isinstance(node, ast.ClassDef)
                yield Item(_text(part.value), _first_line(node))


KINDS = {
    "algorithms": Kind(
        "--algorithm NAME", partial(_in_table, "algorithms.registry", "ALGORITHMS")
    ),
    "graphs": Kind("--graph NAME", partial(_entered, "graphs", "topology")),
    "datasets": Kind("--dataset NAME", partial(_entered, "data.datasets", "_named")),
    "splits": Kind("--split NAME", partial(_in_table, "data.partition", "SPLITS")),
    "models": Kind("--model NAME", partial(_in_table, "problems.models", "MODELS")),
    "regularizers": Kind(
        "--regularizer NAME",
        partial(_in_table, "problems.regularizers", "REGULARIZERS"),
    ),
    "compressors": Kind(
        "--set algorithm.compressor.kind=NAME", partial(_by_kind, "compressors")
    ),
    "links": Kind(
        "--link NAME=VALUE", partial(_in_table, "network.links.names", "LINKS")
    ),
    "metrics": Kind("--target NAME=VALUE", partial(_in_table, "metrics", "COLUMNS")),
}


def methods_epilog() -> str:
    """The methods, for the end of a command's help."""
    names = ", ".join(item.name for item in KINDS["algorithms"].read())
    more = "`proxmesh list` describes them, and graphs, data sets and more."
    lines = wrap(f"Methods: {names}. {more}", HELP_WIDTH, break_on_hyphens=False)
    return "\n".join([AS_IT_IS, *lines])


@cache
def _parsed(module: str) -> ast.Module:
    path = files("proxmesh").joinpath(f"{module.replace('.', '/')}.py")
    return ast.parse(path.read_text(encoding="utf-8"))


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _text(node: ast.expr | None) -> str:
    assert isinstance(node, ast.Constant)
    return str(node.value)


def _about(module: str, value: ast.expr) -> str:
    """What an entry says itself, or the thing that it names."""
    if isinstance(value, ast.Constant):
        return _text(value)
    if isinstance(value, ast.Call):
        for keyword in value.keywords:
            if keyword.arg == "about":
                return _text(keyword.value)
        value = value.args[0]
    assert isinstance(value, ast.Name)
    return _first_line(_definition(module, value.id))


def _definition(module: str, name: str) -> Definition:
    """Where a name of a module is defined: there, or where it is imported from."""
    for node in _parsed(module).body:
        if isinstance(node, Definition) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and name in {a.name for a in node.names}:
            assert node.module is not None
            return _definition(node.module.removeprefix("proxmesh."), name)
    raise AssertionError(f"`{module}` has no `{name}`")


def _first_line(node: Definition) -> str:
    line = (ast.get_docstring(node) or "").split("\n", maxsplit=1)[0]
    plain = line.replace("``", "").removesuffix(".")
    named = plain.removeprefix("Return ")
    return plain if named == plain else named[0].upper() + named[1:]
