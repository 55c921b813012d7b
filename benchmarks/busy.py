"""How much longer a run takes on a machine whose cores are busy.

    python benchmarks/busy.py [--quick]

`proxmesh run` is timed from start to end with nothing beside it, then beside an endless
loop for each core, as proxmesh sets things up and as OpenMP does by itself: its threads
spin while they wait for each other (GOMP_SPINCOUNT=300000). The scheduler gives the run
half of each core at best, so twice the time is the least. Limit: 2.5 times. `--quick`
makes 50 steps, once, and leaves the spinning out: does it work?
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from proxmesh.launchers import cores

LIMIT = 2.5
MOST_SECONDS = 600
SPINNING = {"GOMP_SPINCOUNT": "300000"}


@contextmanager
def endless_loops(count: int) -> Iterator[None]:
    """So many processes that do nothing but compute."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def seconds_of_run(flags: Sequence[str], more: dict[str, str] | None = None) -> float:
    """What `proxmesh run` takes from start to end; infinity if it takes too long."""
    ours = ("OMP_WAIT_POLICY", "OMP_NUM_THREADS")
    environment = {k: v for k, v in os.environ.items() if k not in ours}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "proxmesh", "run", "--quiet", *flags]
        begin = time.perf_counter()
        try:
            subprocess.run(
                [*command, "--out", f"{folder}/run"],
                env={**environment, **(more or {})},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=MOST_SECONDS,
                check=True,
            )
        except subprocess.TimeoutExpired:
            return float("inf")
        return time.perf_counter() - begin


def main() -> None:
    """Time the run in turn, quiet and busy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="50 steps, once")
    quick = parser.parse_args().quick
    flags = ["--steps", "50"] if quick else []
    rounds = 1 if quick else 3
    seconds_of_run(flags)  # data is fetched, ways are timed and remembered
    times: dict[str, list[float]] = {"quiet": [], "busy": [], "spinning": []}
    for turn in range(rounds):
        times["quiet"].append(seconds_of_run(flags))
        with endless_loops(cores()):
            times["busy"].append(seconds_of_run(flags))
            if not quick and turn == 0:  # it may take many minutes
                times["spinning"].append(seconds_of_run(flags, SPINNING))
    quiet = statistics.median(times["quiet"])
    busy = statistics.median(times["busy"]) / quiet
    load = f"{cores()} endless loops beside it"
    print(f"proxmesh run {' '.join(flags)}: {quiet:.1f} s with nothing beside it")
    verdict = "holds" if busy <= LIMIT else "missed"
    print(f"{load}: {busy:.2f} times as long (limit {LIMIT}: {verdict})")
    for found in times["spinning"]:
        print(f"{load}, threads that spin: {found / quiet:.2f} times as long")


if __name__ == "__main__":
    main()
