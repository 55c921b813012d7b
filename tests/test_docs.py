"""What the README and the docs show is what the code does."""

import inspect
import re
import runpy
from pathlib import Path

import pytest
import torch

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS
from proxmesh.data.datasets import DATASETS
from proxmesh.data.partition import SPLITS
from proxmesh.graphs import CONSTRUCTORS
from proxmesh.metrics import COLUMNS

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _as_users_run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)


def test_the_example_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 1
    torch.manual_seed(0)
    found: dict[str, object] = {}
    exec(blocks[0], found)
    outcome, accuracy = capsys.readouterr().out.split()
    assert outcome == "finished"
    assert float(accuracy) > 0.845
    assert isinstance(found["model"], torch.nn.Module)


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
STORY = ROOT / "examples" / "story.ipynb"
IN_PARTS = {"backbone.py"}  # trained, stopped and served in tests/network/test_tutorial
STARTED = {"lenet.py"}  # by tests/documented: it takes longer than the others together


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.name)
def test_examples_run_and_are_short(file: Path) -> None:
    most = 90 if file.name in IN_PARTS else 80  # lines
    assert len(file.read_text().splitlines()) < most
    if file.name in IN_PARTS | STARTED:
        return
    main = runpy.run_path(str(file))["main"]
    result = (
        main(quick=True) if "quick" in inspect.signature(main).parameters else main()
    )
    assert result.outcome is pm.Outcome.FINISHED
    assert result.final["stationarity"] < 0.05 * result.history["stationarity"][0]


def test_examples_are_in_their_index_and_pages_include_the_first() -> None:
    index = (ROOT / "examples" / "README.md").read_text()
    for file in [*EXAMPLES, *(ROOT / "examples").glob("*/*.py"), STORY]:
        place = file.relative_to(ROOT / "examples")
        assert f"[`{place}`]({place})" in index
    pages = [(ROOT / "docs" / name).read_text() for name in ("own.md", "tutorial.md")]
    for file in EXAMPLES:
        if file.name.startswith("own_") or file.name in IN_PARTS:
            assert f'--8<-- "examples/{file.name}"' in "".join(pages)


def test_every_method_column_graph_split_and_data_set_is_documented() -> None:
    metrics = (ROOT / "docs/metrics.md").read_text()
    for name, meaning in COLUMNS.items():
        assert f"| `{name}` | {meaning.replace('|', '&#124;')} |" in metrics
    table = (ROOT / "docs/hsm-admm.md").read_text()
    assert all(f"| {name} |" in table for name in CONSTRUCTORS)
    methods = (ROOT / "docs/methods.md").read_text()
    for name, method in ALGORITHMS.items():
        assert f"| `{name}` | `{method.kind.__name__}` |" in methods
    data = (ROOT / "docs/data.md").read_text()
    assert all(f"`{name}`" in data for name in [*SPLITS, *DATASETS])
