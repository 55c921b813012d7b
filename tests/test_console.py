"""What a terminal of 80 columns shows: whole numbers, whole words."""

import io
import re
import sys

import pytest
from rich.table import Table

from proxmesh.cli import console as speaking
from proxmesh.cli.console import PatientConsole, print_wide, warn
from proxmesh.display.progress import LiveProgress


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal of 80 columns in place of stdout."""
    seen = io.StringIO()
    narrow = PatientConsole(width=80, force_terminal=True, file=seen, no_color=True)
    monkeypatch.setattr(speaking, "console", narrow)
    return seen


def shown(terminal: io.StringIO) -> list[str]:
    text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())
    return text.splitlines()


def comparison(last: str = "3") -> Table:
    table = Table(box=None, pad_edge=False)
    names = ("method", "stationarity", "loss", "accuracy", "nonzeros", "MB", "seeds")
    for name in names:
        table.add_column(name, no_wrap=True)
    for method in ("hsm-admm", "prox-gt-sr-o"):
        numbers = [f"0.{n}210 ± 0.{n}054" for n in range(1, 6)]
        table.add_row(method, *numbers, last)
    return table


def test_a_table_that_is_too_wide_goes_on_below(terminal: io.StringIO) -> None:
    print_wide(comparison())
    lines = shown(terminal)
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("prox-gt-sr-o ") for line in lines) == 2
    for n in range(1, 6):
        assert any(f"0.{n}210 ± 0.{n}054" in line for line in lines)


def test_a_cell_that_is_too_wide_breaks_between_words(terminal: io.StringIO) -> None:
    reason = "0 of 3; failed: " + "the numbers of this file are no numbers " * 3
    print_wide(comparison(reason))
    lines = shown(terminal)
    assert max(map(len, lines)) <= 80
    words = " ".join(line.removeprefix("prox-gt-sr-o") for line in lines).split()
    assert " ".join(words).count(" ".join(reason.split())) >= 1


def test_lines_break_between_words(terminal: io.StringIO) -> None:
    text = "found c_rho 0.251, c_eta 0.402 from the largest curvature " * 4
    speaking.console.print(text)
    lines = shown(terminal)
    assert len(lines) > 1
    assert " ".join(lines).split() == text.split()


def test_a_pipe_gets_tables_and_lines_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speaking, "console", PatientConsole(width=80))
    print_wide(comparison())
    speaking.console.print("word " * 40)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert len(lines[0]) > 80


def test_a_warning_beside_a_bar_has_a_line_of_its_own(
    terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    bar = LiveProgress(speaking.console, 10)
    with bar.shown():
        bar.on_prepare("reading the data")
        warn("samples repeat")
    lines = re.split(r"\n|\x1b\[2K|\x1b\[1A", terminal.getvalue())
    told = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", line) for line in lines]
    assert [line.rstrip() for line in told if "repeat" in line] == [
        "warning: samples repeat"
    ]
