"""Hyperparameters of several methods: shipped presets and users' own files.

A file has a table for each method, and may say for which task it was made::

    [tuned]
    command = "proxmesh tune ..."
    [task]
    "data.name" = "a9a"
    [methods.hsm-admm]
    c_rho = 0.1
    [methods.slow]                # a second setting of a method, under its own label
    algorithm = "hsm-admm"
    c_rho = 1.0
"""

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, final

from proxmesh.construct import construct
from proxmesh.errors import InputError, shortened, unknown
from proxmesh.files import parsed_toml, read_text
from proxmesh.runs.config import flattened, task_of
from proxmesh.runs.methods import method_named

__all__ = [
    "DEFAULTS",
    "Parameters",
    "changed",
    "load_parameters",
    "preset_for",
    "presets",
]

AUTOMATIC = ("hsm-admm", "hsm-admm-direct")
SECTIONS = ("tuned", "task", "methods")
LABEL = r"\w[\w+-]*(\.[\w+-]+)*"  # also the name of a folder


@final
@dataclass(frozen=True, slots=True)
class Parameters:
    """Options by label, checked against the methods they are for."""

    source: str  # a preset's name, or a file
    methods: Mapping[str, Mapping[str, Any]]
    task: Mapping[str, Any] = field(default_factory=dict)  # dotted keys of a config
    tuned: Mapping[str, Any] = field(default_factory=dict)  # command, budget, date

    def section(self, label: str) -> dict[str, Any]:
        """The `algorithm` section of a config for this label; defaults if not given."""
        options = dict(self.methods.get(label, {}))
        name = options.pop("algorithm", label)
        return {"name": name, **options}

    def left_automatic(self) -> "Parameters":
        """Without constants for the methods that do better with those they find."""
        kept = {n: v for n, v in self.methods.items() if n not in AUTOMATIC}
        return dataclasses.replace(self, methods=kept)

    def budget_note(self, gradients: int) -> str:
        """What to say where runs are much longer or shorter than the trials were."""
        trial = self.tuned.get("gradients")
        if not isinstance(trial, int) or 0.5 <= gradients / max(trial, 1) <= 2:
            return ""
        return (
            f"they were tuned in trials of {trial:,} gradients per agent, and these "
            f"runs have {gradients:,}. For constants that fit, type `proxmesh tune` "
            "with the same options, then add `--params tuning/params.toml`."
        )

    def differences(self, config: Mapping[str, Any]) -> list[str]:
        """What in a complete config is not as in the task these values are for."""
        flat = flattened(config)
        return [
            f"`{key}` is {flat.get(key)!r}, but they were tuned for {value!r}"
            for key, value in self.task.items()
            if flat.get(key) != value
        ]


DEFAULTS = Parameters("every method's own defaults", {})


def changed(
    parameters: Parameters, methods: Mapping[str, Mapping[str, Any]]
) -> Parameters:
    """Return the parameters with some values set anew, all checked."""
    above = _merged(parameters.methods, methods)
    below = {
        label: _nested_defaults(parameters.section(label)["name"], options)
        for label, options in methods.items()
    }
    found = dataclasses.replace(parameters, methods=_merged(below, above))
    for label in methods:
        _check(found, label)
    return found


@cache
def presets() -> tuple[Parameters, ...]:
    """Every preset inside the package."""
    files = (resources.files("proxmesh.runs") / "tuned").iterdir()
    return tuple(
        _parsed(
            file.read_text(encoding="utf-8"),
            f"preset `{file.name.removesuffix('.toml')}`",
        )
        for file in sorted(files, key=lambda f: f.name)
        if file.name.endswith(".toml")
    )


def preset_for(config: Mapping[str, Any]) -> Parameters | None:
    """The preset whose task is this complete config's, if there is one."""
    return next((p for p in presets() if p.task == task_of(config)), None)


def load_parameters(name: str) -> Parameters:
    """Read a preset by its name, or a file; `defaults` is every method's own."""
    if name == "defaults":
        return DEFAULTS
    known = {p.source.split("`")[1]: p for p in presets()}
    if name in known:
        return known[name]
    if os.path.isdir(name):
        raise InputError(f"parameters `{name}` is a folder. Give the TOML file in it.")
    if not os.path.exists(name):
        raise unknown("preset or file of parameters", name, [*known, "defaults"])
    return _parsed(read_text(name, "parameters"), f"parameters `{name}`")


def _parsed(text: str, source: str) -> Parameters:
    tree = parsed_toml(text, source)
    for key in tree:
        if key not in SECTIONS:
            raise unknown("section", key, SECTIONS, of=source)
        if not isinstance(tree[key], Mapping):
            raise InputError(
                f"{source}: `{key}` must be a table, got "
                f"{shortened(tree[key], write=repr)}."
            )
    methods = tree.get("methods", {})
    if not methods:
        raise InputError(f"{source} has no table [methods.NAME]. Write one.")
    found = Parameters(source, methods, tree.get("task", {}), tree.get("tuned", {}))
    for label in methods:
        _check(found, label)
    return found


def _nested_defaults(name: str, options: Any) -> dict[str, Any]:
    """The method's own schedules, of which only a part is set anew."""
    if not isinstance(options, Mapping):
        return {}
    nested = [key for key, value in options.items() if isinstance(value, Mapping)]
    if not nested:
        return {}
    method = method_named(name)
    own = dataclasses.asdict(method.kind(**method.fixed))
    return {k: own[k] for k in nested if isinstance(own.get(k), Mapping)}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two trees; the second wins, but leaves what it does not name."""
    tree = dict(below)
    for key, value in above.items():
        old = tree.get(key)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        tree[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return tree


def _check(parameters: Parameters, label: str) -> None:
    """Refuse values that do not fit the method they are for."""
    if not isinstance(parameters.methods[label], Mapping):
        raise InputError(
            f"{parameters.source}: `{shortened(label)}` must be a table of values, got "
            f"{shortened(parameters.methods[label], write=repr)}."
        )
    if not re.fullmatch(LABEL, label):
        raise InputError(
            f"{parameters.source}: `{shortened(label)}` cannot name a folder. Use "
            "letters, digits, `-`, `_` and `+`, and dots between them."
        )
    section = parameters.section(label)
    name = section.pop("name")
    method = method_named(str(name), of=parameters.source)
    try:
        construct(f"algorithm `{name}`", method.kind, {**section, **method.fixed})
    except InputError as error:
        raise InputError(
            f"{parameters.source} does not fit `{label}`: {error}"
        ) from error
