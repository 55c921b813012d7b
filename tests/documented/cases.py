"""What is run, at which size, with which files; and what is not run, and why."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from documented.pages import ROOT, Command, commands, pages, python_blocks

BENCHMARKS = sorted(
    file
    for file in (ROOT / "benchmarks").glob("*.py")
    if "__main__" in file.read_text()
)
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))

NOT_RUN: Mapping[str, str] = {  # by how a command begins
    "make run": "sets up, then `proxmesh run --l1 5e-4`, which is run",
    "make test": "continuous integration runs it beside this",
    "make soak": "an hour; `make test` takes a part of it",
    "make docs": "serves until it is stopped; `make test` builds the site",
    "make bench": "whole sizes take ten minutes; `proxmesh bench --quick` is run",
    "python3 -m venv": "sets up; `make` has done it",
    ".venv/bin/python -m pip": "sets up; `make` has done it",
    "pip install": "sets up; `make` has done it",
    "pytest tests/": "part of `make test`",
    "pytest -m long tests/": "part of `make test-documented`",
    "pytest -m soak": "minutes to hours; `make test` takes a part of it",
    "PROXMESH_FULL_PARITY=1 pytest": "hours; `make test` takes a part of it",
    "torchrun --nnodes 2": "needs a second machine",
    "python tests/unchanged.py": "takes minutes, on two versions of the code",
    "python examples/backbone.py": "tests/network/test_tutorial.py does",
    "torchrun --standalone --nproc-per-node 4 examples/backbone.py": "the same",
    "mpiexec -n 4 --map-by :OVERSUBSCRIBE python examples/backbone.py": "the same",
    **{
        f"{launcher} examples/{name}.py": "takes minutes; hospitals.py is run on ranks"
        for name in ("lenet", "sparse_mlp")
        for launcher in (
            "torchrun --standalone --nproc-per-node 8",
            "mpiexec -n 8 --map-by :OVERSUBSCRIBE python",
        )
    },
    "mpiexec -n 6 --map-by :OVERSUBSCRIBE python examples/hospitals.py": (
        "minutes on two cores; the line for torchrun is run"
    ),
    "sbatch": "needs Slurm; tests/test_deploy.py holds the file to our options",
    "sysctl": "changes the kernel's settings",
}

WRITTEN_OUT: Mapping[str, str] = {  # what a page leaves open
    "mpiexec ... ": "mpiexec -n 2 ",
    "-n 8 ...": "-n 8 proxmesh run",
    "--only NAME": "--only step",
    "FOLDER FOLDER ...": "runs/first runs/second",
    "runs [FOLDER]": "runs",
    "report RUN": "report runs/earlier",
    "show RUN": "show runs/earlier",
    "predict RUN data.csv": "predict runs/earlier new.csv",
}

SMALLER: Mapping[str, str] = {  # the first pattern that is found says which flags
    r"proxmesh run .*mnist": "--steps 2 --eval-every 2",
    r"proxmesh run\b": "--steps 20 --eval-every 10",
    r"proxmesh compare runs/": "",
    r"proxmesh compare": "--steps 20 --eval-every 10 --seeds 1",
    r"proxmesh tune": "--steps 20 --trials 2",
    r"proxmesh paper \w": "--scale small --runs {shared}/paper",
    r"proxmesh bench": "--quick",
    r"python benchmarks/": "--quick",
    r"examples/(lenet|own_method|sensors|sparse_mlp)\.py": "--quick",
}

EXIT_CODES: Mapping[str, int] = {  # by what a page says is printed, or by the command
    r"^error:": 2,
    r"^diverged:": 4,
    r"^proxmesh check .*c_eta=0.2$": 4,  # it would diverge
}

PRELUDES: Mapping[str, str] = {  # what the Python of a page takes for granted
    "docs/theory.md": "import proxmesh as pm\ngraph = pm.graphs.star(8)\n",
}

WITH_MNIST = re.compile(r"mnist|FOLDER|paper all")


@dataclass(frozen=True)
class Case:
    """A command line to run, and every place that shows it."""

    text: str
    printed: tuple[str, ...]
    places: tuple[str, ...]

    @property
    def code(self) -> int:
        """How it should end."""
        lines = "\n".join((self.text, *self.printed))
        found = [c for x, c in EXIT_CODES.items() if re.search(x, lines, re.MULTILINE)]
        return found[0] if found else 0


def collected() -> Iterator[Command]:
    """Every command of the pages, and what must be run even if no page shows it."""
    yield Command("every figure", "proxmesh paper all")
    yield Command("every part", "proxmesh bench")
    for file in BENCHMARKS:
        yield Command(f"benchmarks/{file.name}", f"python benchmarks/{file.name}")
    for file in EXAMPLES:
        for line in launch_lines(file):
            yield Command(str(file.relative_to(ROOT)), line)
    for page in pages():
        yield from commands(str(page.relative_to(ROOT)), page.read_text())


def launch_lines(example: Path) -> list[str]:
    """What an example's docstring says to type, from the repository's root."""
    docstring = ast.get_docstring(ast.parse(example.read_text())) or ""
    found = re.findall(r"(?:python|torchrun|mpiexec) .*?\S+\.py", docstring)
    assert found, f"the docstring of {example} does not say how to start it"
    place = str(example.relative_to(ROOT))
    return [" ".join([*line.split()[:-1], place]) for line in found]


def is_run(command: Command) -> bool:
    """Whether nothing speaks against running it."""
    return not any(command.text.startswith(begin) for begin in NOT_RUN)


def cases() -> list[Case]:
    """The commands that are run, small; the same one twice is one case."""
    found: dict[str, Case] = {}
    for command in filter(is_run, collected()):
        text = written_out(command)
        places = found[text].places if text in found else ()
        found[text] = Case(text, command.printed, (*places, command.place))
    return list(found.values())


def written_out(command: Command) -> str:
    """With what was left open filled in, and small unless its output is documented."""
    text = command.text.removeprefix(".venv/bin/")
    for short, long in WRITTEN_OUT.items():
        text = text.replace(short, long)
    flags = [more for pattern, more in SMALLER.items() if re.search(pattern, text)]
    if flags and not command.printed:
        for flag in re.findall(r"--\S+(?: [^-]\S*)?", flags[0]):
            name = flag.split()[0]
            text = re.sub(rf" {name}( [^-]\S*)?(?= |$)", "", text) + f" {flag}"
    return text


def programs() -> dict[str, str]:
    """The Python blocks of each page as one program, as a reader would type them."""
    found = {}
    for page in pages():
        name = str(page.relative_to(ROOT))
        blocks = python_blocks(page.read_text())
        if blocks:
            found[name] = "\n".join([PRELUDES.get(name, ""), *blocks])
    return found
