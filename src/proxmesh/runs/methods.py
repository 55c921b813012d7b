"""Methods by name: ours, and classes in a file of your own, ``mine.py:HeavyBall``."""

import dataclasses
import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from proxmesh.algorithms import ALGORITHMS
from proxmesh.algorithms.registry import Method
from proxmesh.errors import InputError, shortened, unknown
from proxmesh.solver.reading import method_called

__all__ = ["by_label", "is_from_file", "method_named", "whole_name"]

SUFFIX = ".py"
NEEDED = ("init", "step", "cost")
GRAY = "#555555"


def is_from_file(name: str) -> bool:
    """Whether a name is that of a class in a file.

    Examples
    --------
    >>> is_from_file("mine.py:HeavyBall"), is_from_file("dsgt")
    (True, False)
    """
    file, sign, _ = name.rpartition(":")
    return bool(sign) and file.endswith(SUFFIX)


def whole_name(name: str) -> str:
    """The name with the whole path of its file, to be found from any folder."""
    if not is_from_file(name):
        return name
    file, _, kind = name.rpartition(":")
    return f"{Path(file).expanduser().resolve()}:{kind}"


def method_named(name: str, of: str = "") -> Method:
    """What a name stands for; a file is loaded, once in each process.

    A class of your own may have a search space, a class attribute `space` like those in
    `proxmesh.algorithms.registry`.

    Examples
    --------
    >>> method_named("dsgt").kind.__name__
    'DSGT'
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    if name.endswith(SUFFIX):
        raise InputError(
            f"algorithm `{shortened(name)}` is a file. Name the class in it, such as "
            f"`{shortened(name)}:HeavyBall`."
        )
    if not is_from_file(name):
        raise unknown("algorithm", name, ALGORITHMS, of=of)
    file, _, kind = whole_name(name).rpartition(":")
    found = _class_in(_loaded(Path(file)), kind, Path(name.rpartition(":")[0]))
    return Method(found, title=kind, color=GRAY, space=vars(found).get("space", {}))


def by_label(names: Sequence[str]) -> dict[str, str]:
    """Names by the label of each method in tables and folders.

    Examples
    --------
    >>> list(by_label(["dsgt", "/srv/mine.py:HeavyBall"]))
    ['dsgt', 'HeavyBall']
    """
    found: dict[str, str] = {}
    for name in map(whole_name, names):
        label = method_called(name)
        if found.setdefault(label, name) != name:
            raise InputError(
                f"`{shortened(name)}` and `{shortened(found[label])}` are both called "
                f"`{label}` in tables. Rename one of the classes."
            )
    return found


@cache
def _loaded(file: Path) -> ModuleType:
    """Run a file as a module; whatever goes wrong in it is one line."""
    who = f"`{shortened(file)}`"
    if not file.is_file():
        raise InputError(f"there is no file {who}. Write FILE.py:CLASS.")
    digest = hashlib.sha256(str(file).encode()).hexdigest()[:8]
    name = f"{file.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look up their types
    sys.path.insert(0, str(file.parent))  # what lies beside it can be imported
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InputError(
            f"{who} cannot be loaded: {type(error).__name__}: {shortened(error)}"
            f"{_line_in(error, file)}."
        ) from error
    finally:
        sys.path.remove(str(file.parent))
    return module


def _line_in(error: BaseException, file: Path) -> str:
    """Where in the file it went wrong, if that is known."""
    if isinstance(error, SyntaxError):
        return "" if error.lineno is None else f" (line {error.lineno})"
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(file)
    ]
    return f" (line {lines[-1]})" if lines else ""


def _class_in(module: ModuleType, kind: str, file: Path) -> type[Any]:
    """The class of this name, if it can be a method."""
    own: Mapping[str, type[Any]] = {
        name: thing
        for name, thing in vars(module).items()
        if isinstance(thing, type) and thing.__module__ == module.__name__
    }
    if kind not in own:
        raise unknown("class", kind, own, of=f"`{shortened(file)}`")
    found = own[kind]
    who = f"class `{kind}` of `{shortened(file)}`"
    missing = [f"`{name}`" for name in NEEDED if name not in dir(found)]
    if missing:
        raise InputError(f"{who} is not an algorithm: it has no {', '.join(missing)}.")
    if not dataclasses.is_dataclass(found):
        raise InputError(
            f"{who} is not a dataclass, so its values cannot be written down. Put "
            "`@dataclass(frozen=True)` before it."
        )
    return found
