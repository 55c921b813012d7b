"""Types and defaults of the reference, taken from the code, name by name.

griffe reads docstrings; where one entry explains several parameters (``c_rho, c_eta``),
it gives all of them the type and the default of the first. mkdocs.yml loads this.
"""

import re
from collections.abc import Iterator
from typing import Any

import griffe

__all__ = ["TrueParameters"]

KEYWORD_ONLY = griffe.ParameterKind.keyword_only


class TrueParameters(griffe.Extension):
    """Each parameter with its own type and default, and Markdown in place of ``::``."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Correct a package that was read whole, after its dataclasses are known."""
        things = list(everything(pkg))
        for thing in things:
            if thing.is_module:
                unwrap(thing)
            elif thing.is_function:
                take_over_keywords(thing)
            elif thing.is_class and "BaseModel" in map(str, thing.bases):
                give_constructor(thing)
        for thing in things:
            if thing.docstring is not None:
                correct(thing.docstring)


def everything(thing: Any) -> Iterator[Any]:
    """A module or class and all that it defines itself."""
    yield thing
    for member in thing.members.values():
        if not member.is_alias:
            yield from everything(member)


def unwrap(module: griffe.Module) -> None:
    """Show ``solve = wrapper(module.solve)`` as the function that is wrapped."""
    for name, member in list(module.members.items()):
        target = getattr(called_with(member), "canonical_path", "")
        if target.startswith("proxmesh.") and target.endswith(f".{name}"):
            module.set_member(name, griffe.Alias(name, target, parent=module))


def called_with(attribute: Any) -> Any:
    """The one argument of the call that an attribute is set to, or None."""
    value = None if attribute.is_alias else getattr(attribute, "value", None)
    if isinstance(value, griffe.ExprCall) and len(value.arguments) == 1:
        return value.arguments[0]
    return None


def take_over_keywords(function: griffe.Function) -> None:
    """Give a function ``@_with_the_keywords_of(other)`` the parameters of the other."""
    for decorator in function.decorators:
        found = re.fullmatch(r"_with_the_keywords_of\((\w+)\)", str(decorator.value))
        if found and function.parent is not None:
            other: Any = function.parent.members[found[1]]
            function.parameters = other.parameters
            function.returns = function.parent.members["Result"].name


def give_constructor(model: griffe.Class) -> None:
    """A pydantic model takes its fields by name."""
    fields = [
        griffe.Parameter(
            name, annotation=plain(field), kind=KEYWORD_ONLY, default=field.value
        )
        for name, field in model.attributes.items()
        if field.annotation is not None and "property" not in field.labels
    ]
    made = griffe.Function("__init__", parameters=griffe.Parameters(*fields))
    model.set_member("__init__", made)


def plain(field: griffe.Attribute) -> str:
    """The type of a field without what pydantic checks beyond it.

    Names of annotated types in the same module are written out.
    """
    text = str(field.annotation)
    for name, other in field.module.attributes.items():
        if str(other.value).startswith("Annotated["):
            text = re.sub(rf"\b{name}\b", str(other.value), text)
    text = text.replace("FiniteFloat", "float")
    return re.sub(r"Annotated\[((?:[^\[\],]|\[[^]]*\])+), \w+\([^)]*\)\]", r"\1", text)


def correct(docstring: griffe.Docstring) -> None:
    """Give every entry of a docstring what the code says about its name."""
    docstring.value = docstring.value.replace("::\n\n    ", ":\n\n    ")
    owner: Any = docstring.parent
    for section in docstring.parsed:
        if section.kind is griffe.DocstringSectionKind.parameters:
            known = {one.name.lstrip("*"): one for one in owner.parameters}
            for entry in section.value:
                given = known.get(entry.name.lstrip("*"))
                if given is not None:
                    given.default = literal(given.default, owner.module)
                    entry.annotation, entry.value = given.annotation, given.default
        elif section.kind is griffe.DocstringSectionKind.attributes:
            for entry in section.value:
                if entry.name in owner.members:
                    entry.annotation = owner.members[entry.name].annotation


def literal(default: Any, module: griffe.Module) -> Any:
    """The value of a constant that a default names, rather than the name."""
    name = str(default)
    if not name.isidentifier() or not name.isupper():
        return default
    constant: Any = module.members[name]
    while constant.is_alias:
        constant = constant.target
    return constant.value
