"""`proxmesh new` writes a project that works as it is."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from documented.pages import commands
from documented.test_documented import ENVIRONMENT

from proxmesh.cli import main
from proxmesh.runs.config import load_config

FILES = {
    ".gitignore", "README.md", "config.toml", "data.py", "model.py", "test_project.py",
    "train.py",
}  # fmt: skip


def call(*arguments: str) -> object:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return stopped.value.code


@pytest.fixture
def project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    monkeypatch.chdir(tmp_path)
    assert call("new", "my-sites") == 0
    assert "  cd my-sites\n  python data.py\n" in capsys.readouterr().out
    return tmp_path / "my-sites"


def test_files_are_whole_and_tidy(project: Path) -> None:
    assert {file.name for file in project.iterdir()} == FILES
    assert "# my-sites\n" in (project / "README.md").read_text()
    for file in project.iterdir():
        assert not re.search(r"\$[a-z{]", file.read_text()), file.name
    ruff = Path(sys.executable).with_name("ruff")
    for check in ("check", "format --check"):
        subprocess.run([ruff, *check.split(), "--isolated"], cwd=project, check=True)
    assert load_config(project / "config.toml").graph.agents == 4


def test_nothing_is_overwritten(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "train.py").write_text("mine")
    assert call("new", "my-sites") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "`my-sites` exists already" in line
    assert (project / "train.py").read_text() == "mine"
    Path("dangling").symlink_to("nowhere")
    assert call("new", "dangling") == 2
    assert not Path("nowhere").exists()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("my sites", "cannot be the name of a project"),
        ("-x", "No such option"),
        ("2sites", "with a letter first"),
        ("..", "cannot be the name of a project"),
        ("", "cannot be the name of a project"),
        ("a\nb", "`a b` cannot be the name of a project"),
        ("x" * 65, "up to 64 letters"),
        ("nowhere/sites", "`nowhere` is no folder"),
    ],
)
def test_a_bad_name_is_one_line(
    name: str,
    wrong: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("new", name) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert wrong in line
    assert not list(tmp_path.iterdir())


def is_elsewhere(line: str) -> bool:
    """Whether other tests run it, or nobody may: it changes what is installed."""
    return line.startswith(("pip install", "proxmesh doctor"))


@pytest.mark.long
def test_every_line_of_its_readme_works(project: Path) -> None:
    text = (project / "README.md").read_text()
    lines = [c.text for c in commands("README.md", text) if not is_elsewhere(c.text)]
    started = {line.split()[0] for line in lines}
    assert started == {"python", "mpiexec", "torchrun", "proxmesh"}
    said = {}
    for line in lines:
        done = subprocess.run(
            shlex.split(line),
            cwd=project,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        said[line] = done.stdout
    trained = [out for line, out in said.items() if "train.py" in line]
    assert len(trained) == 3
    assert "test accuracy 0.9" in trained[0]
    assert trained[0] == trained[1] == trained[2]  # one process or four
