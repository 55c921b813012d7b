"""A run is shown where somebody looks: terminal, notebook, log."""

import io
import re
import sys

import nbformat
import pytest
import torch
from nbclient import NotebookClient
from rich.console import Console
from torch import nn

import proxmesh as pm
from proxmesh.display import stages
from proxmesh.display.progress import LiveProgress, PlainProgress, watching
from proxmesh.display.sparkline import sparkline


def problem() -> pm.LearningProblem:
    torch.manual_seed(0)
    shards = [(torch.randn(20, 3), torch.arange(20) % 2) for _ in range(4)]
    return pm.LearningProblem(nn.Linear(3, 2), nn.functional.cross_entropy, shards)


GRAPH = pm.graphs.ring(4)


def test_a_log_gets_a_line_per_stage_and_evaluation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pm.solve(problem(), pm.HSMADMM(), GRAPH, 20, eval_every=10, progress=True)
    printed = capsys.readouterr()
    assert printed.out == ""
    *before, first, middle, last = printed.err.splitlines()
    assert before == [
        "opening the data ...",
        "finding constants ...",
        "taking the first gradients ...",
        "evaluating the start ...",
    ]
    assert first.startswith(" 0/20  stationarity ")
    assert re.fullmatch(r"10/20  stationarity \S+  loss \S+  \d+ it/s", middle)
    assert last.startswith("20/20  ")


@pytest.mark.parametrize("wanted", ["auto", False])
def test_nobody_is_told_what_nobody_asked_for(
    wanted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    pm.solve(problem(), pm.DSGT(), GRAPH, 10, progress=wanted)
    assert capsys.readouterr() == ("", "")


def test_only_one_of_several_processes_shows_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert isinstance(watching(True, 10), PlainProgress)
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert watching(True, 10) is None


def test_a_wrong_word_is_refused() -> None:
    with pytest.raises(pm.InputError, match="unknown value `yes` of `progress`"):
        pm.solve(problem(), pm.DSGT(), GRAPH, 10, progress="yes")  # type: ignore[arg-type]


def test_a_terminal_gets_a_bar_that_stops_while_the_program_speaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert isinstance(watching("auto", 10), LiveProgress)
    seen = io.StringIO()
    console = Console(file=seen, force_terminal=True, width=100, color_system=None)
    monkeypatch.setattr("proxmesh.display.progress.Console", lambda **_: console)
    monkeypatch.setattr(stages, "SECONDS_WORTH_TELLING", 0.0)
    run = pm.prepare(problem(), pm.HSMADMM(), GRAPH, 20)
    prepared = seen.getvalue()
    assert re.search(r"finding constants: \d+\.\d s", prepared)
    assert prepared.endswith("\x1b[?25h"), "the cursor is there again"
    run.go()
    last = seen.getvalue().removeprefix(prepared)
    assert "20/20" in last
    assert "stationarity" in last


@pytest.mark.parametrize(
    ("encoding", "signs"), [("utf-8", "▁▂▃▄▅▆▇█"), ("ascii", ".:-=+*#@")]
)
def test_eighty_columns_have_room_for_numbers_and_a_curve(
    encoding: str, signs: str
) -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    console = Console(file=file, force_terminal=True, width=80, color_system=None)
    live = LiveProgress(console, 123_456)
    with live.shown():
        for k in range(0, 123_457, 1929):
            live.on_step(k, k / 1000)
            row = {"stationarity": 10.0 ** (-k / 20_000), "test_accuracy": 0.8512}
            live.on_row({**row, "iteration": k})
    file.flush()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", raw.getvalue().decode(encoding))
    *_, bar, numbers = re.split(r"[\r\n]+", text.strip())
    assert bar.endswith("123456/123456 1000 it/s 00:00")
    known = re.escape("stationarity 6.72e-07  test accuracy 0.8512  ")
    found = re.fullmatch(rf"{known}([{re.escape(signs)}]+)", numbers)
    assert found is not None, numbers
    assert max(len(bar), len(numbers)) <= 80
    heights = [signs.index(sign) for sign in found[1]]
    assert len(heights) > 30
    assert heights == sorted(heights, reverse=True)
    assert set(heights) == set(range(8)), "a straight line on a log scale"


def test_a_curve_of_what_has_no_logarithm() -> None:
    assert sparkline([float("nan"), 0.0, -1.0, float("inf")], width=9) == ""
    assert sparkline([0.0, 2.0, 2.0], width=9) == "▁▁"
    assert sparkline([1.0], width=0) == ""


def test_a_divergence_is_noticed_beside_a_bar() -> None:
    with pytest.warns(pm.Notice, match="the run diverged"):
        pm.solve(problem(), pm.DSGT(1e9), GRAPH, 20, progress=True)


CELLS = """
import torch
from torch import nn
import proxmesh as pm
shards = [(torch.randn(20, 3), torch.arange(20) % 2) for _ in range(4)]
problem = pm.LearningProblem(nn.Linear(3, 2), nn.functional.cross_entropy, shards)
result = pm.solve(problem, pm.DSGT(), pm.graphs.ring(4), steps=20)
"""


@pytest.mark.long
def test_a_notebook_gets_one_bar_of_html() -> None:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(CELLS)]
    ended = NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    (shown,) = ended.cells[0].outputs
    assert shown.output_type == "display_data"
    assert "<progress value='20' max='20'" in shown.data["text/html"]
    assert shown.data["text/plain"].startswith("20/20  ")
    assert "stationarity" in shown.data["text/plain"]
