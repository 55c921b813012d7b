"""How long until the first iteration, and until the help is on the screen."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from proxmesh.bench.report import Finding, Ratio
from proxmesh.bench.timing import in_turns

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


def startup(rounds: int) -> Finding:
    """Processes, each timed from its start on; all files are in the system's cache."""
    with tempfile.TemporaryDirectory() as folder:
        times = in_turns(
            {
                "import torch": _process([sys.executable, "-c", "import torch"]),
                "first iteration": _first_iteration(Path(folder)),
                "proxmesh --help": _process([sys.executable, "-m", "proxmesh", "-h"]),
            },
            rounds,
            turn=0.0,
        )
    beyond = times["first iteration"].median - times["import torch"].median
    return Finding(
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
            subprocess.run(command, check=True, capture_output=True)
        return (time.perf_counter() - begin) / repetitions

    return timed


def _first_iteration(folder: Path) -> Callable[[int], float]:
    def timed(repetitions: int) -> float:
        total = 0.0
        for i in range(repetitions):
            out = ["--out", str(folder / f"{os.getpid()}-{time.time_ns()}-{i}")]
            begin = time.time()
            done = subprocess.run(
                [sys.executable, "-c", WATCHED, *RUN, *out],
                check=True,
                capture_output=True,
                text=True,
            )
            line = next(x for x in done.stdout.splitlines() if x.startswith("first"))
            total += float(line.split()[1]) - begin
        return total / repetitions

    return timed
