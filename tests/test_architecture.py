"""Imports point down only; versions agree everywhere."""

import ast
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import proxmesh as pm

SOURCE = Path(pm.__file__).parent
LAYERS = [
    {"errors"},
    {"checks", "construct", "launchers"},
    {"types"},
    {"graphs", "schedules"},
    {"data"},
    {"network", "problems"},
    {"algorithms"},
    {"metrics"},
    {"theory"},
    {"optim", "solver"},
    {"runs"},
    {"bench", "doctor"},
    {"report"},
    {"paper"},
    {"cli", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
SIBLINGS_APART = {"network", "problems"}


def imported(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    found = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "proxmesh" and len(parts) > 1 and parts[1] in LEVEL:
                found.add(parts[1])
    return found


FILES = [f for f in SOURCE.rglob("*.py") if f != SOURCE / "__init__.py"]


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_imports_point_down(file: Path) -> None:
    here = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert here in LEVEL, f"`{here}` belongs to no layer"
    for there in imported(file) - {here}:
        assert LEVEL[there] <= LEVEL[here], f"{here} must not import {there}"
        assert {here, there} != SIBLINGS_APART


def test_algorithms_see_only_types() -> None:
    allowed = {"algorithms", "types", "schedules", "errors", "checks"}
    for file in (SOURCE / "algorithms").glob("*.py"):
        assert imported(file) <= allowed, file.name


def test_types_import_torch_and_nothing_of_ours() -> None:
    for file in (SOURCE / "types").glob("*.py"):
        assert imported(file) <= {"types"}, file.name


def test_unknown_names_are_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute `nonsense`"):
        _ = pm.nonsense
    assert "solve" in dir(pm)


def test_one_version_everywhere() -> None:
    root = SOURCE.parents[1]
    assert version("proxmesh") == pm.__version__
    assert f'version = "{pm.__version__}"' in (root / "pyproject.toml").read_text()
    assert f"version: {pm.__version__}" in (root / "CITATION.cff").read_text()


def test_constraints_pin_every_dependency() -> None:
    root = SOURCE.parents[1]
    text = (root / "constraints.txt").read_text()
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in text.splitlines()
        if "==" in line
    }
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    asked = [*project["dependencies"], *(name for extra in extras for name in extra)]
    needed = {re.split(r"[\[<>=]", name)[0].lower() for name in asked} - {"proxmesh"}
    assert needed <= pinned
    assert "torch==2.13.0\n" in text
