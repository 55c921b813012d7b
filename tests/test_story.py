"""The notebook of the examples: what is shown is small, and all of it runs."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

STORY = Path(__file__).parents[1] / "examples" / "story.ipynb"
LENGTH = "STEPS = 600"
PICTURES = 6


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [part for cell in notebook.cells for part in cell.get("outputs", [])]


def pictures(notebook: nbformat.NotebookNode) -> int:
    return sum("image/png" in part.get("data", {}) for part in outputs(notebook))


def test_the_story_is_shown_with_its_pictures_and_nothing_else() -> None:
    notebook = nbformat.read(STORY, as_version=4)
    assert STORY.stat().st_size < 300_000
    assert pictures(notebook) == PICTURES
    assert {part.get("name", "stdout") for part in outputs(notebook)} == {"stdout"}
    said = json.dumps([part.get("text", "") for part in outputs(notebook)])
    assert "/" not in said, "a path of the machine that ran it"


@pytest.mark.long
def test_the_story_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPLBACKEND", raising=False)  # set by commands run before
    notebook = nbformat.read(STORY, as_version=4)
    for cell in notebook.cells:
        cell["outputs"] = [] if cell.cell_type == "code" else cell.get("outputs", [])
    (first, *_) = [cell for cell in notebook.cells if LENGTH in cell.source]
    first.source = first.source.replace(LENGTH, "STEPS = 40")
    run = NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": tmp_path}}
    )
    run.execute()
    assert pictures(notebook) == PICTURES
