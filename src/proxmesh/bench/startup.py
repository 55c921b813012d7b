"""How long until the first iteration, and until the help is on the screen."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from proxmesh.bench.report import Measurement, Ratio
from proxmesh.bench.timing import Effort, in_turns

__all__ = ["startup"]

RUN = ["run", "--steps", "1", "--eval-every", "1", "--compile", "off"]
WATCHED = """
import sys, time
from proxmesh.algorithms import HSMADMM
step = HSMADMM.step
def first(*arguments):
    found = step(*arguments)
    print("first", time.time(), flush=True)
    HSMADMM.step = step
    return found
HSMADMM.step = first
from proxmesh.cli import main
main(sys.argv[1:])
"""


def startup(effort: Effort) -> Measurement:
    """Processes, each timed from its start on; all files are in the system's cache."""
    with tempfile.TemporaryDirectory() as folder:
        times = in_turns(
            {
                "import torch": _process([sys.executable, "-c", "import torch"]),
                "first iteration": _first_iteration(Path(folder)),
                "proxmesh --help": _process([sys.executable, "-m", "proxmesh", "-h"]),
            },
            effort,
            turn=0.0,
        )
    beyond = times["first iteration"].median - times["import torch"].median
    return Measurement(
        "startup",
        "`proxmesh run` (a9a/MLP) to its first eager iteration",
        measured=times,
        ratios=[
            Ratio("seconds beyond `import torch`", beyond / 1e3, at_most=1.5),
            Ratio(
                "seconds of `proxmesh --help`",
                times["proxmesh --help"].median / 1e3,
                at_most=0.3,
            ),
        ],
    )


def _process(command: Sequence[str]) -> Callable[[int], float]:
    def timed(repetitions: int) -> float:
        begin = time.perf_counter()
        for _ in range(repetitions):
            _output(command)
        return (time.perf_counter() - begin) / repetitions

    return timed


def _first_iteration(folder: Path) -> Callable[[int], float]:
    def timed(repetitions: int) -> float:
        total = 0.0
        for i in range(repetitions):
            out = ["--out", str(folder / f"{os.getpid()}-{time.time_ns()}-{i}")]
            begin = time.time()
            said = _output([sys.executable, "-c", WATCHED, *RUN, *out])
            line = next(x for x in said.splitlines() if x.startswith("first"))
            total += float(line.split()[1]) - begin
        return total / repetitions

    return timed


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout
