"""Earlier runs are found again, good and bad ones alike."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import proxmesh as pm
from proxmesh.cli import main
from proxmesh.runs.listing import RunFilter, found_run, listed_runs, point_in_time

NOW = 1_700_000_000


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


def written(name: str, hours_ago: float = 0, **changes: Any) -> Path:
    """A run folder as a run of ten steps leaves it, but for some files."""
    folder = Path("runs") / name
    folder.mkdir(parents=True)
    config = {
        "seed": 3,
        "algorithm": {"name": "dsgt", "alpha": {"coefficient": 0.1}},
        "graph": {"name": "ring", "agents": 8},
        "data": {"name": "a9a", "split": "contiguous"},
        "model": {"name": "mlp"},
        "run": {"steps": 10, "batch": 64},
    }
    history = "iteration,stationarity,norm\n0,9.0,9.0\n5,0.25,0.2\n10,0.5,inf\n"
    summary = {
        "outcome": "finished",
        "message": "10 iterations.",
        "final": {"iteration": 10, "stationarity": 0.5},
        "versions": {"python": "3.11.7", "proxmesh": "0.1.0"},
    }
    files = {
        "config.toml": tomli_w.dumps(config),
        "history.csv": history,
        "summary.json": json.dumps(summary),
        **changes,
    }
    for file, content in files.items():
        if content is not None:
            (folder / file).write_text(content)
            os.utime(folder / file, (NOW - 3600 * hours_ago,) * 2)
    return folder


def summary(**changes: Any) -> str:
    final = {"iteration": 10, "stationarity": 0.5}
    return json.dumps({"outcome": "finished", "message": "", "final": final, **changes})


@pytest.fixture
def several() -> None:
    written("old", 50)
    written("of-a-comparison/dsgt/seed-3", 4)
    written("stopped", 3, **{"summary.json": summary(outcome="interrupted")})
    Path("runs/stopped/checkpoint/000000005").mkdir(parents=True)
    written("killed", 2, **{"summary.json": None})
    written("bad", 1, **{"config.toml": "seed = [[/bold]"})
    none = dict.fromkeys(("config.toml", "history.csv", "summary.json"))
    written("failed", 0, **{**none, "failed.txt": "no room \x1b[2J[/bold] left\n"})
    Path("runs/no-run").mkdir()
    Path("runs/no-run/config.toml").write_text("seed = 1\n")


@pytest.mark.usefixtures("several")
def test_runs_are_listed_the_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("runs") == 0
    lines = capsys.readouterr().out.splitlines()
    table = [line.split("  ") for line in lines[1:-1]]
    folders = [[cell for cell in row if cell.strip()][-1].strip() for row in table]
    assert folders == [
        "runs/failed",
        "runs/bad",
        "runs/killed",
        "runs/stopped",
        "runs/of-a-comparison/dsgt/seed-3",
        "runs/old",
    ]
    shown = [" ".join(line.split()) for line in lines]
    assert "dsgt a9a, mlp, ring of 8 10/10 0.5 finished runs/old" in shown[-2]
    assert "10/10 0.5 interrupted yes runs/stopped" in shown[4]
    assert "10/10 0.5 killed runs/killed" in shown[3]
    assert "- - - - unreadable runs/bad" in shown[2]
    assert shown[-1] == "unreadable: `runs/bad/config.toml` is not TOML."


@pytest.mark.usefixtures("several")
def test_filters_leave_what_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    def left(**wanted: Any) -> list[str]:
        return [r.folder.name for r in listed_runs(Path("runs"), RunFilter(**wanted))]

    assert left(outcome="finished") == ["seed-3", "old"]
    assert left(outcome="failed") == ["failed"]
    assert left(resumable=True) == ["stopped"]
    assert left(algorithm="dsgt", since=NOW - 3.5 * 3600) == ["killed", "stopped"]
    assert left(dataset="a9a", outcome="interrupted") == ["stopped"]
    assert left(dataset="mnist") == []
    assert call("runs", "--limit", "2") == 0
    assert "2 of 6 runs; `--limit 6` shows all" in capsys.readouterr().out
    assert call("runs", "--dataset", "mnist") == 0
    assert capsys.readouterr().out == "no such run in runs\n"
    assert call("runs", "runs/old", "--json") == 0
    [run] = json.loads(capsys.readouterr().out)
    assert (run["folder"], run["agents"], run["done"]) == ("runs/old", 8, 10)


def test_a_point_in_time_is_a_date_or_an_age() -> None:
    assert point_in_time("30min", now=NOW) == NOW - 1800
    assert point_in_time("2w", now=NOW) == NOW - 14 * 86_400
    day = time.strftime("%Y-%m-%d", time.localtime(NOW))
    assert NOW - 86_400 < point_in_time(day) <= NOW


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere"], "`nowhere` is not a folder"),
        (["--outcome", "finishd"], "Did you mean `finished`?"),
        (["--since", "yesterday"], "must be a date such as"),
        (["--since", "9" * 400 + "d"], "must be a date such as"),
        (["--limit", "0"], "See `proxmesh runs list --help`"),
        (["show", "nothing"], "no run folder in `runs` has `nothing` in its name"),
        (["show", "s"], "2 run folders have `s` in their names"),
        (["show", "runs/no-run"], "folder `runs/no-run` holds no run"),
        (["show", "x" * 5000], "in its name"),
    ],
)
@pytest.mark.usefixtures("several")
def test_wrong_input_is_refused_in_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("runs", *arguments) == 2
    printed = capsys.readouterr().err
    assert complaint in printed
    assert printed.count("\n") == 1
    assert len(printed) < 400


@pytest.mark.usefixtures("several")
def test_one_run_is_shown_with_the_way_to_make_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("runs", "show", "seed") == 0
    printed = capsys.readouterr().out
    folder = "runs/of-a-comparison/dsgt/seed-3"
    assert printed.startswith(f"{folder}\nfinished: 10 iterations.\n")
    for line in (
        "method     dsgt with alpha.coefficient=0.1",
        "task       a9a, mlp, ring of 8, batch 64, split contiguous, seed 3",
        "steps      10 of 10",
        "files      config.toml, history.csv, summary.json",
        "versions   python 3.11.7, proxmesh 0.1.0",
        f"run again  proxmesh run --config {folder}/config.toml",
    ):
        assert f"\n{line}\n" in printed
    rows = {row[0]: row[1:] for row in map(str.split, printed.splitlines()) if row}
    assert rows["iteration"] == ["0", "10", "5"]
    assert rows["stationarity"] == ["9", "0.5", "0.25"]
    assert call("runs", "show", "runs/stopped") == 0
    assert "\nresume     proxmesh resume runs/stopped\n" in capsys.readouterr().out


@pytest.mark.usefixtures("several")
def test_a_bad_run_is_shown_without_steering_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("runs", "show", "runs/failed") == 0
    assert "failed: no room ?[2J[/bold] left" in capsys.readouterr().out
    for name in ("bad", "killed", "failed", "stopped"):
        assert call("runs", "show", name, "--json") == 0
        assert json.loads(capsys.readouterr().out)["folder"] == f"runs/{name}"
    assert call("runs", "show", "bad") == 0
    printed = capsys.readouterr().out
    assert "unreadable: `runs/bad/config.toml` is not TOML." in printed
    assert "stationarity" in printed  # what can be read is shown


@pytest.mark.parametrize(
    "changes",
    [
        {"summary.json": "[" * 100_000},
        {"summary.json": summary(final={"iteration": 5})},
        {"summary.json": "null"},
        {"config.toml": "algorithm = 5"},
        {"config.toml": "[algorithm]\nname = [1]"},
        {"config.toml": "[run]\nautomatic = 5"},
        {"config.toml": "[graph]\nagents = 'many'"},
        {"history.csv": "iteration,stationarity\n0,one\n"},
        {"history.csv": "stationarity\n1\n"},
    ],
    ids=str,
)
def test_a_malformed_run_is_listed_as_unreadable(changes: dict[str, str]) -> None:
    folder = written("bad", 0, **changes)
    [run] = listed_runs(Path("runs"))
    assert run.outcome == "unreadable"
    assert str(folder) in run.message
    assert found_run("bad", Path("runs")).path == folder


def test_a_folder_that_no_run_has_made_yet_is_no_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("runs") == 0
    assert capsys.readouterr().out == "no run in runs\n"


def test_odd_times_and_names_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    folder = written("[red]x[/]\n$y_$")
    os.utime(folder / "summary.json", (2**40, 2**40))
    assert call("runs") == 0
    assert "[red]x[/]" in capsys.readouterr().out


def test_a_thousand_runs_are_listed_without_torch_or_pandas() -> None:
    for number in range(1000):
        written(f"{number:03d}")
    start = time.perf_counter()
    assert len(listed_runs(Path("runs"))) == 1000
    assert time.perf_counter() - start < 4  # .5 s on an idle machine
    program = (
        "import sys; from proxmesh.cli import app, runs; import proxmesh.runs.listing;"
        "sys.exit('torch' in sys.modules or 'pandas' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(pm.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
