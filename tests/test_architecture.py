"""Imports point down only; versions agree everywhere."""

import ast
import re
import statistics
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import proxmesh as pm

SOURCE = Path(pm.__file__).parent
ROOT = SOURCE.parents[1]
PAGE = (ROOT / "docs/architecture.md").read_text()


def layers() -> list[list[str]]:
    """The layers as docs/architecture.md lists them, from the bottom up."""
    block = re.search(r"```layers\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    lines = [re.split(r" {2,}", line)[0] for line in block[1].strip().splitlines()]
    return [re.split(r", | \| ", names) for names in reversed(lines)]


LAYERS = layers()
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
    allowed = {"algorithms", "types", "schedules", "compressors", "errors", "checks"}
    for file in (SOURCE / "algorithms").glob("*.py"):
        assert imported(file) <= allowed, file.name


def test_types_import_torch_and_nothing_of_ours() -> None:
    for file in (SOURCE / "types").glob("*.py"):
        assert imported(file) <= {"types"}, file.name


def test_unknown_names_are_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute `nonsense`"):
        _ = pm.nonsense  # type: ignore[attr-defined]
    assert "solve" in dir(pm)


def test_one_version_everywhere() -> None:
    assert version("proxmesh") == pm.__version__
    assert f'version = "{pm.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f"version: {pm.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_constraints_pin_every_dependency() -> None:
    text = (ROOT / "constraints.txt").read_text()
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in text.splitlines()
        if "==" in line
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    asked = [*project["dependencies"], *(name for extra in extras for name in extra)]
    needed = {re.split(r"[\[<>=]", name)[0].lower() for name in asked} - {"proxmesh"}
    assert needed <= pinned
    assert "torch==2.13.0\n" in text


def test_the_page_lists_every_module_once() -> None:
    there = {p.name.removesuffix(".py") for p in SOURCE.iterdir()}
    there -= {"__init__", "__pycache__", "py.typed"}
    listed = [name for layer in LAYERS for name in layer]
    assert sorted(listed) == sorted(there)


def test_the_picture_shows_every_layer() -> None:
    picture = (ROOT / "docs/images/layers.svg").read_text()
    for layer in LAYERS:
        assert any(name in picture for name in layer), layer


def test_the_walks_name_what_is_there() -> None:
    steps = re.findall(r"`([\w/]+\.py)`:\s+`([\w.]+)`", PAGE)
    assert len(steps) >= 20
    for file, name in steps:
        source = (SOURCE / file).read_text()
        for part in name.split("."):
            assert re.search(rf"(def|class) {part}\b", source), f"{file}: {name}"


LONG_BUT_UNIFORM = {"compressors.py", "graphs.py", "regularizers.py"}


def test_files_and_functions_stay_short() -> None:
    lengths = []
    for file in FILES:
        text = file.read_text()
        lengths.append(len(text.splitlines()))
        assert lengths[-1] <= 400 or file.name in LONG_BUT_UNIFORM, file.name
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                described = len((ast.get_docstring(node) or "").splitlines())
                length = (node.end_lineno or 0) - node.lineno - described
                assert length <= 80, f"{file.name}: {node.name}"
    assert statistics.median(lengths) < 130


def test_abilities_are_declared_not_sniffed() -> None:
    found = [
        m for f in FILES for m in re.findall(r"\b[hg](?:as|et)attr\(", f.read_text())
    ]
    assert len(found) <= 30, "declare an ability in types/ instead"
    problems = [f.name for f in FILES if re.search(r"problem: Any\b,", f.read_text())]
    assert problems == []
