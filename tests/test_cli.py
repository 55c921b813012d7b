import json
import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from ranks import FORKS

from proxmesh import __version__
from proxmesh.cli import main
from proxmesh.runs.record import command_in

SMALL = ["--dataset", "breast-cancer", "--steps", "20", "--batch", "8", "--agents", "4"]
OWN = f"{Path(__file__).parents[1] / 'examples/own_method.py'}:AdaptThenCombine"
INTERRUPTS = [
    (signal.SIGINT, 130),
    pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long),
]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)  # the command line's own default
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # keep pytest's handlers


@pytest.fixture
def painted() -> None:
    """For tests that look at figures."""


@pytest.fixture(autouse=True)
def _figures_stay_blank(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Painting takes longer than a small run; what is not looked at is not painted."""
    if "painted" not in request.fixturenames:
        blank = lambda _, file, **__: Path(file).touch()  # noqa: E731
        monkeypatch.setattr(Figure, "savefig", blank)
        unwritten = lambda _, file, *__: file  # noqa: E731
        monkeypatch.setattr("proxmesh.report.writing._written", unwritten)


@contextmanager
def started(*arguments: str) -> Iterator[BaseProcess]:
    """Start the command in a process of its own, which a failing test leaves dead."""
    process = FORKS.Process(target=_command_line, args=(arguments,))
    process.start()  # in this folder
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _command_line(arguments: tuple[str, ...]) -> None:
    # A shell without job control lets background jobs ignore SIGINT, and their children
    # inherit that: this process is put back to hear it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with Path("printed.txt").open("w", buffering=1) as sys.stdout:
        main(list(arguments))


def wait_until(ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    code = stopped.value.code
    assert isinstance(code, int)
    return code


def _folder_in(printed: str) -> Path:
    """The folder that a run names; its last line is the path of the report in it."""
    *_, results, report = printed.strip().splitlines()
    folder = Path(results.removeprefix("results in "))
    assert report == f"report: {folder / 'report.html'}"
    return folder


@pytest.mark.usefixtures("painted")
def test_run_prints_progress_a_summary_and_leaves_a_folder(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("run", *SMALL) == 0
    printed = capsys.readouterr().out
    folder = _folder_in(printed)
    assert folder.parent == Path("runs")
    names = {file.name for file in folder.iterdir()}
    assert names == {
        "agents.csv",
        "config.toml",
        "curves.png",
        "first_layer.csv",
        "history.csv",
        "model.safetensors",
        "report.html",
        "sparse_model.safetensors",
        "summary.json",
    }
    assert "20/20  stationarity" in printed
    assert "test accuracy" in printed
    assert "finished: 20 iterations." in printed
    history = pd.read_csv(folder / "history.csv")
    consensus = next(x.split() for x in printed.splitlines() if "consensus" in x)
    assert float(consensus[1]) < 1e-9, "the agents start alike"
    assert float(consensus[3]) == pytest.approx(history["consensus"][1:].min(), 1e-3)


def test_verbose_says_how_gradients_are_taken_and_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--set", "model.precision=bfloat16", "--set", "run.vectorize=false")
    assert call("run", "--steps", "1", "--verbose", *options) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "gradients by loop, one after another: as was asked for" in said
    (config,) = Path("runs").glob("*/config.toml")
    assert 'precision = "bfloat16"' in config.read_text()


def test_same_config_same_history_bit_for_bit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("run", *SMALL, "--seed", "3", "--out", "a", "--quiet") == 0
    assert capsys.readouterr().out == "a\n"
    assert call("run", "--config", "a/config.toml", "--out", "b", "--quiet") == 0
    first, second = (pd.read_csv(f"{name}/history.csv") for name in "ab")
    untimed = [name for name in first if name != "seconds"]
    assert first[untimed].equals(second[untimed])
    assert Path("a/config.toml").read_text() == Path("b/config.toml").read_text()


def test_tensorboard_is_in_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    every = ["--eval-every", "10", "--checkpoint-every", "10"]
    assert call("run", *SMALL, *every, "--out", "a", "--tensorboard") == 0
    assert f"tensorboard --logdir a{os.sep}tensorboard\n" in capsys.readouterr().out
    assert call("resume", "a", "--steps", "40", "--quiet") == 0
    events = accumulator.EventAccumulator("a/tensorboard").Reload()
    logged = [event.step for event in events.Scalars("stationarity")]
    assert logged == [0, 10, 20, 30, 40], "it goes on where it has logged before"
    assert call("run", *SMALL, "--out", "a", "--force", "--quiet") == 0
    assert not Path("a/tensorboard").exists(), "it was of another run"


def test_a_missing_tensorboard_is_said_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert call("run", "--dataset", "no-such", "--tensorboard") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "needs the package tensorboard: `pip install" in error


def test_json_is_the_only_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", *SMALL, "--json", "--out", "a") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["outcome"] == "finished"
    assert summary["folder"] == "a"
    assert summary["final"]["iteration"] == 20
    assert 0 < summary["final"]["stationarity"] < 1


def test_a_taken_folder_is_refused_and_untouched(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("run", *SMALL, "--out", "a", "--quiet") == 0
    before = Path("a/history.csv").read_bytes()
    assert call("run", *SMALL, "--seed", "9", "--out", "a") == 2
    assert "already holds a run" in capsys.readouterr().err
    assert Path("a/history.csv").read_bytes() == before
    assert call("run", *SMALL, "--seed", "9", "--out", "a", "--force", "--quiet") == 0
    assert "seed = 9" in Path("a/config.toml").read_text()


def test_divergence_exits_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    small_step = ["--set", "algorithm.c_eta=0.01", "--set", "algorithm.c_rho=0.25"]
    assert call("run", *SMALL, "--steps", "200", *small_step) == 4
    printed = capsys.readouterr().out
    assert "diverged: at iteration" in printed
    assert "raise `c_eta` to 0.375 or more. The losses may need a larger" in printed


def test_target_stops_early(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        call("run", *SMALL, "--target", "test_accuracy=0.5", "--eval-every", "1") == 0
    )
    assert "target reached: test_accuracy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--stepz", "4"], "No such option: --stepz"),
        (["run", "--steps", "abc"], "got 'abc'"),
        (["run", "--steps", "0"], "must be greater than or equal to 1, got 0."),
        (["run", "--algorithm", "hsm_admm"], "Did you mean `hsm-admm`?"),
        (["run", "--l1", "-1"], "`weight` must be finite and not negative, got -1.0."),
        (["run", "--l1", "1", "--regularizer", "box"], "`--l1` is the weight of"),
        (["run", "--target", "norm"], "is not METRIC=VALUE"),
        (["run", "--config", "missing.toml"], "config `missing.toml` cannot be read"),
        (["run", "--dataset", "missing.csv"], "`missing.csv` does not exist"),
        (["run", "--graph", "missing.txt"], "graph file `missing.txt` cannot be read"),
        (["run", "--steps", "10", "--steps", "abc"], "got 'abc'"),
        (["run", "--threads", "100000"], "must be less than or equal to 1024"),
        (["run", "--dataset", "."], "is a folder"),
        (["run", "--dataset", "mnist", "--data-dir", "no"], "folder `no` does not"),
        (["rum"], "No such command 'rum'"),
        (["graph", "star", "--agents", "1"], "needs at least 2 agents, got n=1"),
        (["graph", "star", "--graph", "ring"], "differ"),
        (["graph", "star", "--out", "star.jpeg"], "has no known format"),
        (["graph", "star", "--out", "no/star.png"], "cannot be written"),
        (["data", "fetch", "mist"], "Did you mean `mnist`?"),
        (["data", "verify", "a8a"], "Did you mean `a9a`?"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert list(Path().iterdir()) == []


def test_notices_are_one_line_and_stop_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("run", *SMALL, "--batch", "200", "--quiet") == 0
    notice = capsys.readouterr().err
    assert notice.startswith("note: batch_size 200 exceeds the 106 samples of agent 0")
    assert notice.count("\n") == 1


def test_large_features_are_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{1000 * (i % 7)},{i % 5},{i % 2}" for i in range(60)]
    Path("large.csv").write_text("\n".join(rows) + "\n")
    call(
        "run", "--dataset", "large.csv", "--steps", "1", "--agents", "3", "--batch", "4"
    )
    assert (
        "note: dataset `large.csv` has features up to 6e+03" in capsys.readouterr().err
    )


@pytest.mark.long
def test_compiled_runs_agree_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    finals = []
    for mode in ("on", "off"):
        task = [*SMALL, "--model", "logistic", "--compile", mode]
        assert call("run", *task, "--out", mode) == 0
        assert ("compiling the step" in capsys.readouterr().out) == (mode == "on")
        finals.append(pd.read_csv(f"{mode}/history.csv").iloc[-1])
    assert finals[0]["train_loss"] == pytest.approx(finals[1]["train_loss"], rel=1e-4)


def test_what_auto_came_to_is_in_the_config(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "proxmesh.solver.compile_step.why_no_compiler",
        lambda: "no C++ compiler was found.",
    )
    arguments = [*SMALL, "--compile", "on", "--threads", "1", "--quiet"]
    assert call("run", *arguments, "--out", "a") == 0
    assert "no C++ compiler was found" in capsys.readouterr().err
    run = tomllib.loads(Path("a/config.toml").read_text())["run"]
    assert run["compile"] == "off"
    assert (run["vectorize"], run["paired"], run["threads"]) == ("vmap", True, 1)


def test_set_reaches_keys_that_have_a_flag_and_flags_win() -> None:
    settings = ["--set", "graph.agents=5", "--set", "run.batch=7", "--set", "seed=8"]
    arguments = ["--dataset", "breast-cancer", "--steps", "2", "--batch", "6"]
    assert call("run", *arguments, *settings, "--out", "a", "--quiet") == 0
    config = Path("a/config.toml").read_text()
    assert "agents = 5" in config
    assert "batch = 6" in config
    assert "seed = 8" in config


def test_a_mistake_in_a_config_file_is_named_with_its_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("task.toml").write_text("seed = 1\n[run]\nsteps = 0\n")
    assert call("run", "--config", "task.toml") == 2
    assert "(`task.toml`, line 3)" in capsys.readouterr().err


def test_own_csv_with_an_own_graph() -> None:
    kinds = ["cat" if i % 7 > 3 else "dog" for i in range(60)]
    rows = [f"{i % 7},{i % 5 - 2},{kind}" for i, kind in enumerate(kinds)]
    Path("pets.csv").write_text("\n".join(["height,width,kind", *rows]) + "\n")
    Path("links.txt").write_text("0 1\n1 2\n# a triangle\n2 0\n")
    arguments = ["--dataset", "pets.csv", "--graph", "links.txt", "--agents", "3"]
    arguments += ["--set", "data.standardize=true", "--batch", "8", "--steps", "200"]
    assert call("run", *arguments, "--out", "pets", "--quiet") == 0
    history = pd.read_csv("pets/history.csv")
    assert history["test_accuracy"].iloc[-1] > 0.9


@pytest.mark.usefixtures("painted")
def test_graph_prints_numbers_and_draws(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("graph", "ring", "--out", "ring.svg") == 0
    printed = capsys.readouterr().out
    assert "second eigenvalue of W    0.804738" in printed
    assert "<svg" in Path("ring.svg").read_text()
    assert call("graph", "erdos-renyi", "--set", "graph.prob=0.9", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["agents"] == 8
    assert facts["diameter"] >= 1
    assert call("graph") == 0
    assert "barabasi-albert" in capsys.readouterr().out


def test_data_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("data", "list") == 0
    assert "fashion-mnist" in capsys.readouterr().out
    assert call("data", "verify") == 0
    assert "a9a: sha256 of both LIBSVM files as published" in capsys.readouterr().out
    assert call("data", "fetch", "digits") == 0
    assert "nothing to fetch" in capsys.readouterr().out


def test_bare_command_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert call() == 0
    assert capsys.readouterr().out.startswith("Usage: proxmesh")


def test_own_files_are_found_again_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"{i % 7},{i % 5},{i % 2}" for i in range(60)]
    Path("mine.csv").write_text("\n".join(rows) + "\n")
    Path("links.txt").write_text("0 1\n1 2\n")
    task = ["--dataset", "mine.csv", "--graph", "links.txt", "--agents", "3"]
    assert call("run", *task, "--steps", "2", "--batch", "4", "--out", "a") == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert call("run", "--config", "../a/config.toml", "--out", "b", "--quiet") == 0


@pytest.mark.long
def test_a_reader_that_leaves_does_not_stop_the_run(tmp_path: Path) -> None:
    command = (
        f"{sys.executable} -m proxmesh run {' '.join(SMALL)} --out piped | head -1"
    )
    subprocess.run(command, shell=True, check=True, capture_output=True, cwd=tmp_path)
    assert (tmp_path / "piped/summary.json").exists()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version") == 0
    assert capsys.readouterr().out == f"proxmesh {__version__}\n"


def test_help_answers_without_torch() -> None:
    code = (
        "import sys\n"
        "from proxmesh.cli import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'pandas', 'sklearn', 'networkx', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--algorithm" in done.stdout


@pytest.mark.parametrize(("number", "code"), INTERRUPTS)
def test_an_interrupted_run_keeps_its_rows(number: signal.Signals, code: int) -> None:
    command = ["run", "--out", "run", "--quiet", "--dataset", "breast-cancer"]
    long = ["--steps", "1000000", "--eval-every", "20", "--threads", "1"]
    long += ["--compile", "off"]
    history = Path("run/history.csv")

    def has_rows() -> bool:
        return history.exists() and len(history.read_text().splitlines()) > 3

    with started(*command, *long) as process:
        wait_until(has_rows, "the run did not start")
        os.kill(process.pid or 0, number)
        process.join(60)
        assert process.exitcode == code
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["outcome"] == "interrupted"
    assert summary["final"]["iteration"] == pd.read_csv(history)["iteration"].iloc[-1]


COMPARED = [*SMALL, "--eval-every", "10", "--seeds", "2", "--out", "c"]


@pytest.mark.usefixtures("painted")
def test_compare_runs_every_method_and_seed_and_makes_a_table_and_curves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("compare", "--algorithms", "hsm-admm,d-psgd", *COMPARED) == 0
    printed = capsys.readouterr().out
    assert "4/4  " in printed
    shown = printed[printed.index("method ") :].splitlines()  # whole, also in a pipe
    assert shown[0].split() == ["method", "stationarity", "training", "loss", "test",
                                "accuracy", "nonzeros", "iterations", "gradients",
                                "MB", "sent", "seconds", "seeds"]  # fmt: skip
    assert [row.split()[0] for row in shown[1:3]] == ["hsm-admm", "d-psgd"]
    assert "constants: every method's own defaults" in printed
    assert "found by each run itself: hsm-admm" in printed
    files = {file.name for file in Path("c").iterdir()}
    assert files == {
        "curves.png",
        "d-psgd",
        "hsm-admm",
        "methods.toml",
        "report.html",
        "runs.csv",
        "table.md",
        "table.tex",
        "task.toml",
    }
    assert len(pd.read_csv("c/runs.csv")) == 4
    assert "**" in Path("c/table.md").read_text()
    before = Path("c/d-psgd/seed-0/summary.json").stat().st_mtime_ns
    assert call("compare", "--algorithms", "sppdm,d-psgd", *COMPARED) == 0
    printed = capsys.readouterr().out
    assert "2 runs are already in c" in printed
    assert Path("c/d-psgd/seed-0/summary.json").stat().st_mtime_ns == before
    assert "hsm-admm" not in Path("c/table.md").read_text()


def test_compare_takes_values_from_a_file_and_from_set(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("mine.toml").write_text(
        '[methods.slow]\nalgorithm = "d-psgd"\nalpha = 1e-4\n'
        "[methods.d-psgd]\nalpha = 0.2\n[tuned]\ndate = '[/bold]'\n"
    )
    assert (
        call(
            "compare",
            "--algorithms",
            "slow,d-psgd,sppdm",
            "--params",
            "mine.toml",
            "--set",
            "sppdm.gamma=30",
            *COMPARED,
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert "constants: parameters `mine.toml`, tuned [/bold]\n" in printed
    slow = Path("c/slow/seed-0/config.toml").read_text()
    assert "alpha = 0.0001" in slow
    assert 'name = "d-psgd"' in slow
    assert "gamma = 30" in Path("c/sppdm/seed-1/config.toml").read_text()
    assert call(*shlex.split(command_in(Path("c")))[1:]) == 0
    for run in ("slow/seed-0", "sppdm/seed-1"):
        first, again = (Path(name) / run / "config.toml" for name in ("c", "c-again"))
        assert first.read_text() == again.read_text()


def test_compare_gives_every_method_the_same_gradients(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("compare", "--algorithms", "hsm-admm,d-psgd", "--gradients", "4000",
                *COMPARED) == 0  # fmt: skip
    del capsys
    made = pd.read_csv("c/runs.csv")
    reached = made.groupby("label")["iteration"].unique()
    assert {label: list(k) for label, k in reached.items()} == {
        "hsm-admm": [24],  # three looks are paid for
        "d-psgd": [500],
    }


@pytest.mark.usefixtures("painted")
def test_compare_shows_a_method_that_diverges(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wild = ["--set", "hsm-admm.c_rho=5", "--set", "hsm-admm.c_eta=1e-3"]
    assert call("compare", "--algorithms", "hsm-admm", *wild, *COMPARED) == 4
    assert call("compare", "--algorithms", "hsm-admm,d-psgd", *wild, *COMPARED) == 0
    printed = capsys.readouterr().out
    assert "diverged" in printed
    assert "0 of 2; diverged at k =" in Path("c/table.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithms", "hsm_admm"], "unknown algorithm `hsm_admm`. Did you mean"),
        (["--algorithms", ","], "`--algorithms ,` names no method."),
        (["--params", "a9a-rang"], "unknown preset or file of parameters `a9a-rang`."),
        (["--set", "sppdm.speed=1"], "does not fit `sppdm`: unknown option `speed`"),
        (
            ["--set", "algorithm.alpha=1"],
            "`algorithm` is the section of a single",
        ),
        (["--set", "grapf.prob=1"], "unknown section or method `grapf`"),
        (["--set", "dsgt.alpha=1"], "unknown section or method `dsgt`"),
        (["--out", "taken"], "folder `taken` cannot be written."),
        (["--gradients", "7"], "does not pay for one step of `HSMADMM`"),
        (["nowhere", "--out", "x"], "`nowhere` is not a folder."),
        (["nowhere"], "give `--out FOLDER` for the report"),
        (["--seeds", "0"], "See `proxmesh compare --help`"),
        (["--graph", "rung"], "unknown graph `rung`. Did you mean `ring`?"),
    ],
)
def test_compare_refuses_wrong_input_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("taken").touch()
    assert call("compare", *SMALL, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not Path("comparisons").exists()


def test_compare_reads_folders_of_runs_and_refuses_different_tasks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("run", *SMALL, "--out", "a", "--quiet") == 0
    assert call("run", *SMALL, "--algorithm", "dsgt", "--out", "b", "--quiet") == 0
    assert call("run", *SMALL, "--graph", "star", "--out", "c", "--quiet") == 0
    assert call("compare", "a", "b", "--out", "both") == 0
    assert "dsgt" in Path("both/table.md").read_text()
    capsys.readouterr()
    assert call("compare", "a", "c", "--out", "wrong") == 2
    error = capsys.readouterr().err
    assert "runs of different tasks: `graph.name` is 'ring' in the first" in error
    assert not Path("wrong").exists()


def test_tune_takes_steps_and_seed_from_a_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("task.toml").write_text(
        'seed = 7\n[data]\nname = "breast-cancer"\n[run]\nsteps = 100\nbatch = 8\n'
    )
    assert call("tune", "--config", "task.toml", "--trials", "1", "--quiet") == 0
    assert capsys.readouterr().out == "tuning/params.toml\n"
    tree = tomllib.loads(Path("tuning/params.toml").read_text())
    tuned = tree["tuned"]
    assert (tuned["seed"], tuned["gradients"]) == (7, 2 * 100 * 8)
    found = tomllib.loads(Path("tuning/hsm-admm/automatic/config.toml").read_text())
    names = ["c_rho", "c_eta", "smoothness"]
    assert tuned["automatic"] == {"hsm-admm": names}
    constants = {name: found["algorithm"][name] for name in names}
    assert tree["methods"]["hsm-admm"] == {}, "it is left automatic"
    row = pd.read_csv("tuning/trials.csv").iloc[0]
    assert {name: row[name] for name in names} == constants
    assert call("tune", "--config", "task.toml", "--trials", "1") == 0  # it is there
    assert f"c_rho {constants['c_rho']:g}, " in capsys.readouterr().out
    assert call("tune", "--config", "task.toml", "--trials", "1", "--set",
                "data.split=shuffled") == 2  # fmt: skip
    assert "holds another run: its `data.split`" in capsys.readouterr().err


def test_tune_writes_values_that_compare_reads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tune = ["tune", "--algorithms", f"hsm-admm,{OWN}", *SMALL, "--trials", "3",
            "--objective", "objective", "--steps", "100"]  # fmt: skip
    assert call(*tune) == 0
    printed = capsys.readouterr().out
    assert "6/6  " in printed
    assert "proxmesh compare --params tuning/params.toml" in printed
    assert len(pd.read_csv("tuning/trials.csv")) == 6
    assert call(*tune) == 0  # all trials are there
    assert "trial" not in capsys.readouterr().out.replace("trials", "")
    assert (
        call(
            "compare",
            *COMPARED,
            "--params",
            "tuning/params.toml",
            "--algorithms",
            OWN,
        )
        == 0
    )
    assert "tuned 20" in capsys.readouterr().out
    alpha = tomllib.loads(Path("tuning/params.toml").read_text())["methods"][
        "AdaptThenCombine"
    ]["alpha"]
    config = tomllib.loads(Path("c/AdaptThenCombine/seed-0/config.toml").read_text())
    assert config["algorithm"] == {"name": OWN, "alpha": alpha}


def test_run_takes_a_method_from_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", *SMALL, "--algorithm", OWN, "--set", "algorithm.alpha=0.1") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("AdaptThenCombine on breast-cancer: ")
    folder = _folder_in(printed)
    assert "-AdaptThenCombine-breast-cancer-" in folder.name
    assert call("runs", "--algorithm", "AdaptThenCombine") == 0
    assert str(folder) in capsys.readouterr().out
    again = ["run", "--config", str(folder / "config.toml"), "--out", "b", "--quiet"]
    assert call(*again) == 0
    assert call("run", *SMALL, "--algorithm", "mine.py:A") == 2
    assert "there is no file `" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), INTERRUPTS)
def test_a_stopped_comparison_leaves_no_process_and_goes_on(
    number: int, code: int
) -> None:
    compare = ["compare", *SMALL, "--seeds", "2", "--algorithms", "d-psgd"]
    history = [Path(f"c/d-psgd/seed-{seed}/history.csv") for seed in (0, 1)]
    long = ["--steps", "999999", "--compile", "off", "--out", "c"]
    with started(*compare, *long) as process:
        wait_until(lambda: all(f.exists() for f in history), "the runs did not start")
        os.kill(process.pid or 0, number)
        process.join(60)
        assert process.exitcode == code
    assert "repeat the command to go on" in Path("printed.txt").read_text()
    for file in history:  # stopped like a run of its own: it can go on from there
        assert json.loads(file.with_name("summary.json").read_text())["outcome"] == (
            "interrupted"
        )
        assert list(file.parent.glob("checkpoint/0*/manifest.json"))
    sizes = [file.stat().st_size for file in history]
    time.sleep(1)
    assert [file.stat().st_size for file in history] == sizes  # nobody writes on
    few = ["--seeds", "2", "--algorithms", "d-psgd", "--out", "c", "--quiet"]
    assert call("compare", *SMALL, *few) == 0  # half-written runs are made again
    assert set(pd.read_csv("c/runs.csv")["iteration"]) == {20}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithms", "hsm"], "unknown algorithm `hsm`. Did you mean `hsm-admm`?"),
        (["--objective", "speed"], "unknown objective `speed`."),
        (["--space", "s.toml"], "the search space of `hsm-admm` is empty."),
        (["--space", "no.toml"], "space `no.toml` cannot be read"),
        (["--sampler", "best"], "unknown sampler `best`."),
        (["--set", "algorithm.k0=9"], "`algorithm` is the section of a single"),
        (["--out", "s.toml"], "folder `s.toml` cannot be written."),
    ],
)
def test_tune_refuses_wrong_input_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s.toml").write_text("[hsm-admm]\n")
    assert call("tune", *SMALL, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not Path("tuning").exists()


ROUND = ["--set", "algorithm.c_rho=0.25", "--set", "algorithm.c_a=1"]
TOO_SHORT = [*ROUND, "--set", "algorithm.c_eta=0.2"]


def test_run_says_what_was_found_and_whether_it_is_stable(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("run", *SMALL, "--out", "a") == 0
    printed = capsys.readouterr().out
    assert "found c_rho " in printed
    assert "Hessian-vector products" in printed
    assert "\nstable steps: c_eta/c_rho 1.31, this graph needs 1.25\n" in printed
    assert "curve down" not in printed, "of every network; said by `check`"
    config = tomllib.loads(Path("a/config.toml").read_text())
    assert f"c_rho {config['algorithm']['c_rho']:.3g}" in printed
    assert config["run"]["automatic"] == ["c_rho", "c_eta", "smoothness", "follow"]
    assert call("run", "--config", "a/config.toml", "--out", "b", "--quiet") == 0
    assert tomllib.loads(Path("b/config.toml").read_text()) == config
    again, first = (pd.read_csv(f"{f}/history.csv").iloc[:, :4] for f in "ba")
    assert again.equals(first)


def test_an_unstable_run_is_warned_of_and_refused_when_strict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("run", *SMALL, *TOO_SHORT, "--out", "a", "--strict") == 2
    said = capsys.readouterr().err
    assert said.startswith("error: `--strict`: unstable: c_eta / c_rho = 0.8 is below")
    assert "Raise `c_eta` from 0.2 to" in said
    assert said.count("\n") == 1
    assert not Path("a").exists()
    call("run", *SMALL, *TOO_SHORT, "--out", "a")
    printed = capsys.readouterr()
    assert "warning: this run is likely to diverge. Raise `c_eta`" in printed.err
    assert "unstable steps: c_eta/c_rho 0.8, this graph needs 1.25" in printed.out
    assert call("run", *SMALL, "--strict", "--quiet") == 0  # stable steps may start


def test_check_answers_with_and_without_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("check", *SMALL) == 0
    printed = capsys.readouterr().out
    assert "Hessian-vector products" in printed
    assert "threshold, worst prox" in printed
    assert not list(Path().iterdir())  # a question leaves nothing behind
    graph = ["--graph", "star", "--agents", "32", "--smoothness", "3"]
    assert call("check", *graph, *TOO_SHORT, "--json") == 4
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "unstable"
    assert found["threshold"] == pytest.approx(1.272, abs=1e-3)
    assert found["threshold_smooth"] == pytest.approx(1.102, abs=1e-3)
    enough = f"algorithm.c_eta={1.001 * found['stable_c_eta']}"
    assert call("check", *graph, *ROUND, "--set", enough) == 0
    printed = capsys.readouterr().out
    assert "stable: " in printed
    assert "certified from k" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithm", "dsgt"], "known bound on their step, got `dsgt`"),
        (["--algorithm", "dsgt", "--smoothness", "1"], "`DSGT` has no certificate"),
        (["--curvature", "-1"], "`--curvature` goes with `--smoothness`"),
        (["--smoothness", "-1"], "`smoothness` must not be negative, got -1"),
        (["--smoothness", "nan"], "`smoothness` must be finite, got nan"),
        (["--smoothness", "0"], "which is 0. Give `smoothness`"),
    ],
)
def test_check_refuses_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("check", *SMALL, *arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.usefixtures("painted")
def test_the_monitor_counts_and_draws(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*SMALL, "--eval-every", "5", "--out", "a"]
    assert call("run", *arguments, "--monitor", "theory") == 0
    assert "lemma 2: held " in capsys.readouterr().out
    assert Path("a/theory.png").stat().st_size > 10_000
    assert len(pd.read_csv("a/theory.csv")) == 4
    assert call("run", *arguments, "--monitor", "practice") == 2
    assert "`run.monitor` must be 'theory', got 'practice'" in capsys.readouterr().err


def test_automatic_runs_of_two_seeds_are_one_method(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for seed in ("0", "1"):
        folder = f"c/hsm-admm/seed-{seed}"
        assert call("run", *SMALL, "--seed", seed, "--out", folder, "--quiet") == 0
    capsys.readouterr()
    folders = ["c/hsm-admm/seed-0", "c/hsm-admm/seed-1"]
    assert call("compare", *folders, "--out", "d") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("hsm-admm")]) == 1
    assert call("run", *SMALL, *ROUND, "--out", "e", "--quiet") == 0
    assert call("compare", *folders, "e", "--out", "f") == 0  # other constants
