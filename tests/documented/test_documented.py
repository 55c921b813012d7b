"""Every documented command and program, run as a user would, at small size.

`make test-documented` runs them; `make test` checks only that the tables are in order.
"""

import bz2
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from documented.cases import (
    EXIT_CODES,
    NOT_RUN,
    PRELUDES,
    SMALLER,
    WITH_MNIST,
    WRITTEN_OUT,
    Case,
    cases,
    collected,
    is_run,
    programs,
)
from documented.pages import BLOCK, ROOT, python_blocks
from ranks import AS_ROOT, clean_environment

SECONDS = 1200  # after which a command counts as hanging
COMPARISONS = ROOT / "docs" / "results" / "comparisons"
DATA = Path(os.environ.get("PROXMESH_DATA", ROOT.parent / "shared" / "data"))
HAS_MNIST = any((DATA / "mnist").glob("train-images*"))
ENVIRONMENT = {
    **clean_environment(),
    **AS_ROOT,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # eight ranks, two cores
    "OMPI_MCA_mpi_yield_when_idle": "1",
    **({"PROXMESH_DATA": str(DATA.resolve())} if HAS_MNIST else {}),
}


# -- files that the commands speak of --------------------------------------------------


def _table(file: Path) -> None:
    draw = np.random.default_rng(0)
    x = draw.standard_normal((100, 4))
    rows = np.column_stack([x, x.sum(1) > 0])
    np.savetxt(file, rows, delimiter=",", header="a,b,c,d,label", comments="")


def _links(file: Path) -> None:
    file.write_text("0 1\n1 2   # comments are fine\n2 3\n3 4\n")


def _prices(file: Path) -> None:
    x = np.random.default_rng(0).standard_normal((100, 4))
    rows = np.column_stack([x, x @ [1, 2, 3, 4]])
    np.savetxt(file, rows, delimiter=",", header="a,b,c,d,price", comments="")


def _wide(file: Path) -> None:
    draw = np.random.default_rng(0)
    lines = [
        f"{label} " + " ".join(f"{j}:0.1" for j in np.sort(draw.choice(47_236, 75)) + 1)
        for label in draw.choice([-1, 1], 200)
    ]
    unique = [" ".join(dict.fromkeys(line.split())) for line in lines]
    file.write_bytes(bz2.compress("\n".join(unique).encode()))


def _unlabeled(file: Path) -> None:
    np.savetxt(file, np.eye(5, 123), delimiter=",")


def _hosts(file: Path) -> None:
    file.write_text("localhost slots=8\n")


def _script(file: Path) -> None:
    (example,) = python_blocks((ROOT / "README.md").read_text())
    assert "steps=500" in example
    file.write_text(example.replace("steps=500", "steps=20"))


def _constants(file: Path) -> None:
    page = (ROOT / "docs" / "comparing.md").read_text()
    (shown,) = [text for language, text in BLOCK.findall(page) if language == "toml"]
    file.write_text(shown)


def _run_folder(file: Path) -> None:
    folder = file if not file.suffix else file.parent
    seed = len(list(folder.parent.iterdir()))  # two runs that are compared differ
    _ended(
        ["proxmesh", "run", "--steps=4", f"--seed={seed}", f"--out={folder}"],
        file.parent,
    )


def _comparison(folder: Path) -> None:
    task = ["--dataset=breast-cancer", "--model=logistic", "--batch=16", "--steps=20"]
    methods = "--algorithms=hsm-admm,deepstorm-v2,prox-dasa"
    options = [methods, "--seeds=2", "--eval-every=5", "--quiet", f"--out={folder}"]
    _ended(["proxmesh", "compare", *task, *options], folder.parent)


def _cut_off_run(folder: Path) -> None:
    options = ["--steps=4", "--checkpoint-every=2", f"--out={folder}"]
    _ended(["proxmesh", "run", *options], folder.parent)
    (folder / "summary.json").unlink()


FILES: Mapping[str, Callable[[Path], object]] = {
    "mine.csv": _table,
    "links.txt": _links,
    "prices.csv": _prices,
    "rcv1_train.binary.bz2": _wide,
    "new.csv": _unlabeled,
    "train.py": _script,
    "hosts": _hosts,
    "examples/deploy/hostfile": _hosts,  # in place of one that names two machines
    "tuning/params.toml": _constants,
    "comparisons/breast-cancer-logistic-ring8-500": _comparison,
    "runs/earlier/config.toml": _run_folder,
    "RUN/config.toml": _run_folder,
    "runs/earlier": _run_folder,
    "runs/first": _run_folder,
    "runs/long": _cut_off_run,
    "runs/second": _run_folder,
    "NAME-task.toml": lambda file: shutil.copy(
        COMPARISONS / "ring-a9a-task.toml", file
    ),
    "NAME-methods.toml": lambda file: shutil.copy(
        COMPARISONS / "ring-a9a-methods.toml", file
    ),
    "FOLDER": lambda file: file.symlink_to(DATA.resolve()),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of what users find in the repository, which they may write into."""
    leave = shutil.ignore_patterns("results", "__pycache__", ".*")
    for name in ("benchmarks", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=leave)
    return tmp_path


# -- the tables are in order -----------------------------------------------------------


@pytest.mark.parametrize("begin", NOT_RUN)
def test_what_is_not_run_is_still_there(begin: str) -> None:
    assert any(command.text.startswith(begin) for command in collected())


def test_every_rule_is_used() -> None:
    run = [command.text for command in collected() if is_run(command)]
    texts = [case.text for case in cases()]
    printed = [line for case in cases() for line in case.printed]
    for short in WRITTEN_OUT:
        assert any(short in text for text in run), short
    for pattern in SMALLER:
        assert any(re.search(pattern, text) for text in texts), pattern
    for pattern in EXIT_CODES:
        assert any(re.search(pattern, text) for text in [*texts, *printed]), pattern
    for file in FILES:
        assert any(file in text.split() for text in texts), file
    assert set(PRELUDES) <= set(programs())


def test_nothing_is_left_open() -> None:
    for case in cases():
        assert "..." not in case.text, f"{case.places}: say what `...` is"


# -- they are run ----------------------------------------------------------------------


def _marked(case: Case) -> object:
    """Figures share their runs, so one process makes them all."""
    group = "paper" if "--runs" in case.text else case.places[0]
    return pytest.param(case, id=case.places[0], marks=pytest.mark.xdist_group(group))


@pytest.mark.documented
@pytest.mark.parametrize("case", list(map(_marked, cases())))
def test_command(
    case: Case, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if WITH_MNIST.search(case.text) and not HAS_MNIST:
        pytest.skip(f"no MNIST in {DATA}; name its folder with PROXMESH_DATA")
    text = case.text.replace("{shared}", str(tmp_path_factory.getbasetemp()))
    for name, make in FILES.items():
        if name in text.split():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            make(folder / name)
    said = _ended(shlex.split(text), folder, case.code)
    for line in case.printed:
        pattern = re.escape(line).replace(re.escape("..."), ".*")
        assert re.search(pattern, said), f"{case.places}: not printed: {line}\n{said}"
    assert not (folder / "benchmarks" / "results").exists(), "a quick run wrote there"


@pytest.mark.documented
@pytest.mark.parametrize("page", programs())
def test_program(page: str, folder: Path) -> None:
    (folder / "program.py").write_text(programs()[page])
    _ended(["python", "program.py"], folder)


def _ended(words: list[str], folder: Path, code: int = 0) -> str:
    """What a command prints that ends with this code."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    ended = f"`{shlex.join(words)}` ended with {done.returncode}, not {code}:"
    assert done.returncode == code, f"{ended}\n{done.stdout}"
    return done.stdout
