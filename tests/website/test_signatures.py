"""The reference shows the types and defaults that the code has."""

import inspect
from pathlib import Path
from typing import Any

import griffe
import pytest

import proxmesh as pm

ROOT = Path(__file__).parents[2]
EXTENSIONS = ("dataclasses", str(ROOT / "website" / "signatures.py"))


@pytest.fixture(scope="module")
def package() -> griffe.Module:
    found = griffe.load(
        "proxmesh",
        search_paths=[ROOT / "src"],
        extensions=griffe.load_extensions(*EXTENSIONS),
        docstring_parser="numpy",
        resolve_aliases=True,
    )
    assert isinstance(found, griffe.Module)
    return found


def entries(thing: Any) -> dict[str, Any]:
    """The parameters that a docstring explains, by name."""
    sections = thing.docstring.parsed if thing.docstring else []
    kind = griffe.DocstringSectionKind.parameters
    found = [
        one for section in sections if section.kind is kind for one in section.value
    ]
    return {entry.name.lstrip("*"): entry for entry in found}


def is_called(thing: Any) -> bool:
    """Whether programs call it; exceptions are only raised."""
    raised = isinstance(thing, type) and issubclass(thing, Exception)
    return callable(thing) and not raised


CALLED = [name for name in pm.__all__ if is_called(getattr(pm, name))]


@pytest.mark.parametrize("name", CALLED)
def test_every_parameter_has_its_own_default(name: str, package: griffe.Module) -> None:
    shown, thing = entries(package[name]), getattr(pm, name)
    for given in inspect.signature(thing).parameters.values():
        if given.name not in shown or given.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        text = shown[given.name].value
        if given.default is inspect.Parameter.empty:
            assert text is None, f"{name}: `{given.name}` is required"
        elif isinstance(given.default, bool | float | int | str | tuple | None):
            assert eval(str(text)) == given.default, f"{name}: `{given.name}`"


def test_grouped_parameters_have_their_own_types(package: griffe.Module) -> None:
    shown = entries(package["solve"])
    assert str(shown["steps"].annotation) == "int | None"
    assert str(shown["out"].annotation) == "str | Path | None"
    assert str(shown["force"].annotation) == "bool"
    shown = entries(package["Settings"])
    assert str(shown["steps"].annotation) == "int"
    assert str(shown["timeout"].annotation) == "float"
    assert str(entries(package["LearningProblem"])["seed"].value) == "0"


def test_every_explained_parameter_has_a_type(package: griffe.Module) -> None:
    for name in CALLED:
        for entry in entries(package[name]).values():
            assert entry.annotation is not None, f"{name}: `{entry.name}`"
