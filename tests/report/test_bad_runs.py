"""One bad run does not spoil a report: it is named, the others are shown."""

import json
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tomli_w
from matplotlib.figure import Figure

import proxmesh as pm
from proxmesh.cli import main
from proxmesh.report.comparison import FILES, write_comparison
from proxmesh.report.figures import draw_run
from proxmesh.report.pictures import draw_what_is_there
from proxmesh.report.runs import collect
from proxmesh.report.theory import draw_theory
from proxmesh.solver.folder import RunFolder

COLUMNS = ("gradients", "bytes_sent", "seconds", "stationarity", "consensus")
SUMMARY = {"outcome": "finished", "message": "2 iterations."}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def blank(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that do not look at pictures."""
    touch = lambda _, file, **__: Path(file).touch()  # noqa: E731
    monkeypatch.setattr(Figure, "savefig", touch)


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


def written(
    folder: Path, algorithm: str = "dsgt", seed: int = 0, values: Any = (9.0, 0.5, 0.1)
) -> Path:
    folder.mkdir(parents=True)
    config = {"seed": seed, "algorithm": {"name": algorithm}, "graph": {"name": "ring"}}
    (folder / "config.toml").write_text(tomli_w.dumps(config))
    history = pd.DataFrame({"iteration": range(len(values))})
    for column in COLUMNS:
        history[column] = values
    history.to_csv(folder / "history.csv", index=False)
    summary = {**SUMMARY, "final": {"iteration": len(values) - 1}}
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def replaced(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def interrupted(folder: Path) -> None:
    summary = {"outcome": "interrupted", "message": "at iteration 2.", "final": {}}
    (folder / "summary.json").write_text(json.dumps(summary))


def killed(folder: Path) -> None:
    (folder / "summary.json").unlink()


def failed_badly(folder: Path) -> None:
    killed(folder)
    (folder / "failed.txt").write_bytes(b"\xff\xfe")


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "brackets": (replaced("summary.json", b"[" * 100_000), "is not JSON"),
    "seed": (replaced("config.toml", b"seed = [1]"), "`seed` is not a whole number"),
    "algorithm": (replaced("config.toml", b"algorithm = 5"), "`algorithm` is not a"),
    "name": (replaced("config.toml", b"[algorithm]\nname = [1]"), "is not a name"),
    "automatic": (replaced("config.toml", b"[run]\nautomatic = 5"), "is not a list"),
    "strings": (replaced("history.csv", b"iteration,norm\n2,x\n"), "column `norm`"),
    "empty": (replaced("history.csv", b""), "is not a table"),
    "lost": (replaced("history.csv", b"iteration\n1\n"), "ends at iteration 1, but"),
    "failed": (failed_badly, "is not text in UTF-8"),
    "interrupted": (interrupted, "was interrupted at iteration 2."),
    "killed": (killed, "has not ended: it is running, or was killed"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.usefixtures("blank")
def test_a_bad_run_is_left_out_and_named(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, reason = BAD[kind]
    written(Path("runs/good"))
    spoil(written(Path("runs/bad"), seed=1))
    assert call("compare", "runs", "--out", "report") == 0
    printed = capsys.readouterr()
    [line] = printed.err.splitlines()
    assert line.startswith("note: left out: ")
    assert "runs/bad" in line
    assert reason in line
    assert "dsgt" in printed.out
    assert len(pd.read_csv("report/runs.csv")) == 1


@pytest.mark.parametrize(
    "values",
    [
        (1e308, -1e308, 5e-324),
        (math.nan, math.nan, math.nan),
        (1e-320, 2e-322, 0.0),
    ],
    ids=str,
)
def test_any_numbers_can_be_drawn(values: tuple[float, ...], tmp_path: Path) -> None:
    folder = written(tmp_path / "runs" / "odd", values=values)
    written(tmp_path / "runs" / "usual", "hsm-admm")
    seen = pd.DataFrame({"iteration": range(3), "step": values, "lyapunov": values})
    seen.to_csv(folder / "theory.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runs = collect([tmp_path / "runs"])
        draw_run(folder)
        draw_theory(folder)
        names = write_comparison(runs, tmp_path / "report")
    assert "curves.png" in names
    assert max(map(len, (tmp_path / "report/table.md").read_text().splitlines())) < 300


def test_a_name_is_not_a_formula(tmp_path: Path) -> None:
    written(tmp_path / "runs" / "a", "$x_$ [/bold] | a & b")
    written(tmp_path / "runs" / "b", "hsm-admm")
    runs = collect([tmp_path / "runs"])
    assert len(write_comparison(runs, tmp_path / "report", "$x_$")) == 4
    assert r"$x_$ [/bold] \| a & b" in (tmp_path / "report/table.md").read_text()
    shown = r"\$x\_\$ {[}/bold] \textbar{} a \& b"
    assert shown in (tmp_path / "report/table.tex").read_text()
    draw_run(tmp_path / "runs" / "a", "$x_$")


def test_columns_may_be_missing_or_have_the_names_of_others(tmp_path: Path) -> None:
    folder = written(tmp_path / "runs" / "a")
    rows = "iteration,stationarity,label,seed\n0,1.0,7,7\n2,0.5,7,7\n2,0.4,7,7\n"
    (folder / "history.csv").write_text(rows)
    written(tmp_path / "runs" / "b", seed=1)
    assert len(write_comparison(collect([tmp_path / "runs"]), tmp_path / "report")) == 4
    assert pd.read_csv(tmp_path / "report/runs.csv")["label"].tolist() == ["dsgt"] * 2
    draw_run(folder)


@pytest.mark.usefixtures("blank")
def test_the_report_does_not_replace_the_curves_of_a_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = written(Path("runs/good"))
    (run / "curves.png").write_text("its own")
    assert call("compare", "runs/good", "--out", "runs/good") == 2
    assert "is that of a single run" in capsys.readouterr().err
    assert (run / "curves.png").read_text() == "its own"
    assert not (run / "table.md").exists()


@pytest.mark.usefixtures("blank")
def test_a_report_leaves_nothing_else_behind() -> None:
    written(Path("runs/good"))
    for _ in range(2):
        assert call("compare", "runs", "--out", "report", "--quiet") == 0
        names = {*FILES, "report.html"}
        assert {file.name for file in Path("report").iterdir()} == names


def test_many_bad_runs_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(14):
        killed(written(Path(f"runs/{number}")))
    assert call("compare", "runs", "--out", "report") == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 12
    assert lines[10] == "note: left out: 4 more runs."
    assert lines[11] == "error: folder `runs` holds no run that has ended."


def no_room(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def too_much(*_: object, **__: object) -> None:
    raise ValueError("Image size of 90000x2 pixels is too large.\nSee ...")


@pytest.mark.parametrize(
    ("fail", "reason"),
    [(no_room, "No space left on device"), (too_much, "Image size of 90000x2 pixels")],
)
def test_a_picture_that_fails_is_one_line_and_loses_nothing(
    fail: Callable[..., None], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(Path("runs/good"))
    (run / "curves.png").write_text("an earlier one")
    before = {file.name for file in run.iterdir()}
    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.warns(pm.Notice, match=f"curves.png was not drawn: {reason}"):
        draw_what_is_there(run)
    assert {file.name for file in run.iterdir()} == before
    with pytest.warns(pm.Notice, match=reason):
        names = write_comparison(collect([Path("runs")]), Path("report"))
    assert names == ["table.md", "table.tex", "runs.csv"]
    (run / "history.csv").write_text("iteration\nx\n")
    with pytest.warns(pm.Notice, match="curves.png was not drawn: `runs/good/history"):
        draw_what_is_there(run)


@pytest.mark.usefixtures("blank")
def test_a_picture_of_a_graph_is_overwritten_only_by_force(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("ring.png").write_text("mine")
    assert call("graph", "ring", "--out", "ring.png") == 2
    assert "picture `ring.png` exists already" in capsys.readouterr().err
    assert Path("ring.png").read_text() == "mine"
    assert call("graph", "ring", "--out", "ring.png", "--force") == 0
    assert Path("ring.png").read_text() == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["graph", "ring", "--out", f"{'x' * 300}.png"],
        ["compare", "runs", "--out", "x" * 300],
        ["compare", "x" * 300, "--out", "report"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_name_that_is_too_long_is_refused_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    written(Path("runs/good"))
    assert call(*arguments) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert len(printed) < 400


def test_a_run_folder_with_too_long_a_name_is_refused_before_the_run() -> None:
    with pytest.raises(pm.InputError, match=r"`x+ ... x+` cannot be written: F"):
        RunFolder(Path("x" * 300)).require_free()


def test_no_screen_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "junk")  # read when matplotlib is imported
    assert call("runs") == 0  # any command
    assert os.environ["MPLBACKEND"] == "agg"
