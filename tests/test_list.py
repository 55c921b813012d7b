"""`proxmesh list` and `--help` name what the registries hold, and import none."""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, get_args

import pytest

from proxmesh import compressors
from proxmesh.algorithms import ALGORITHMS
from proxmesh.cli import main
from proxmesh.cli.catalog import KINDS
from proxmesh.data.datasets import DATASETS
from proxmesh.data.partition import SPLITS
from proxmesh.graphs import CONSTRUCTORS
from proxmesh.metrics import COLUMNS
from proxmesh.network.links import LINKS
from proxmesh.problems.models import MODELS
from proxmesh.problems.regularizers import REGULARIZERS

COMPRESSORS = {kind().kind: kind for kind in get_args(compressors.Known)}
REGISTRIES: Mapping[str, tuple[Mapping[str, Any], Callable[[Any], Any]]] = {
    "algorithms": (ALGORITHMS, lambda method: method.about or method.kind),
    "graphs": (CONSTRUCTORS, lambda build: build),
    "datasets": (DATASETS, lambda entry: entry.build),
    "splits": (SPLITS, lambda split: split),
    "models": (MODELS, lambda build: build),
    "regularizers": (REGULARIZERS, lambda kind: kind),
    "compressors": (COMPRESSORS, lambda kind: kind),
    "links": (LINKS, lambda build: build),
    "metrics": (COLUMNS, lambda meaning: meaning),
}


def call(*arguments: str) -> object:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return stopped.value.code


def first_line(thing: Any) -> str:
    text = thing if isinstance(thing, str) else inspect.getdoc(thing) or ""
    line = text.splitlines()[0].replace("``", "")
    returned, sign, what = line.removesuffix(".").partition("Return ")
    return what[:1].upper() + what[1:] if sign and not returned else returned + what


def test_every_name_of_every_registry_with_its_own_line() -> None:
    assert set(KINDS) == set(REGISTRIES)
    for kind, (registry, described) in REGISTRIES.items():
        listed = {item.name: item.about for item in KINDS[kind].read()}
        told = {name: first_line(described(thing)) for name, thing in registry.items()}
        assert listed == told
        assert all(listed.values())


def test_no_two_methods_read_alike() -> None:
    lines = [item.about for item in KINDS["algorithms"].read()]
    assert len(set(lines)) == len(lines)


def test_lists_one_kind_or_all_as_text_or_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("list", "graphs", "models") == 0
    said = capsys.readouterr().out
    assert "star " in said
    assert "mlp " in said
    assert "hsm-admm" not in said
    assert call("list", "--json") == 0
    tree = json.loads(capsys.readouterr().out)
    assert list(tree) == list(KINDS)
    assert tree["models"][-1] == {
        "name": "mlp",
        "about": "The papers' two-layer network with tanh",
    }


def test_an_unknown_kind_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("list", "graph") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "unknown kind `graph` of `proxmesh list`. Did you mean `graphs`?" in line


@pytest.mark.parametrize("command", ["run", "check", "compare", "tune"])
def test_help_names_the_methods_whole(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(command, "--help") == 0
    words = capsys.readouterr().out.replace(",", " ").replace(". ", " ").split()
    assert set(ALGORITHMS) <= set(words)


def test_it_answers_without_torch() -> None:
    code = (
        "import sys\n"
        "from proxmesh.cli import main\n"
        "try: main(['list'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'numpy', 'pandas', 'networkx'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
