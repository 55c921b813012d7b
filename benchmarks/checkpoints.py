"""What checkpoints cost a run, and how soon one goes on after a kill.

    python benchmarks/checkpoints.py [--quick]

Three tasks: LeNet on 8 agents, the a9a/MLP on 1,024, and a network of 20 million
parameters on 4. Steps are made, one thread for them, first with nothing beside them,
then while a checkpoint is written. What the second takes longer is the price of a
checkpoint; divided by the interval at which a run makes them (a minute, or a hundred
times what one takes), it is the share of the run. Limit: 1 %.

Then `proxmesh run` is killed, and `proxmesh resume` timed until it has made its next
iteration; what importing takes is subtracted. Limit: 5 s. `--quick` makes all of it
small: does it work?
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from proxmesh.bench.startup import WATCHED
from proxmesh.bench.tasks import Task, lenet, mlp
from proxmesh.solver.checkpoint import Manifest, checkpoints_in, described_by
from proxmesh.solver.journal import Journal
from proxmesh.solver.saving import DEFAULT_SECONDS, SHARE_OF_TIME, Interval, Saver
from proxmesh.solver.state import size_in_bytes

LIMIT = 0.01
SECONDS_TO_GO_ON = 5.0


def nothing_known(agents: int) -> dict[str, Any]:
    """The part of a manifest that takes no time."""
    return {
        "version": "0",
        "engine": "simulated",
        "agents": agents,
        "edges": [],
        "facts": {},
        "config_sha256": "",
        "settings": {},
        "algorithm": {},
        "problem": {},
        "config": None,
    }


def measured(name: str, task: Task, rounds: int) -> None:
    """Print the price of a checkpoint of this task."""
    common = nothing_known(task.world.n)

    def described(iteration: int, journal: Journal, files: Any) -> Manifest:
        return described_by(common, iteration, journal, files)

    state, prices, durations = task.state, [], []
    with tempfile.TemporaryDirectory() as place:
        interval = Interval.of(None)
        assert interval is not None
        saver = Saver(Path(place) / "checkpoint", task.world, interval, described)
        for _ in range(rounds):
            times = []
            for _ in range(20):
                begin = time.perf_counter()
                state = task.step(state)
                times.append(time.perf_counter() - begin)
            alone = statistics.median(times)
            begin, steps = time.perf_counter(), 0
            saver._start(state, Journal())
            writing = saver._writing
            assert writing is not None
            while not writing.is_over:
                state = task.step(state)
                steps += 1
            taken = time.perf_counter() - begin
            saver._conclude(failed=writing.error is not None)
            prices.append(max(0.0, taken - steps * alone))
            durations.append(writing.seconds)
    price, duration = statistics.median(prices), statistics.median(durations)
    every = max(DEFAULT_SECONDS, duration / SHARE_OF_TIME)
    share = price / every
    verdict = "holds" if share <= LIMIT else "missed"
    print(
        f"{name}: {size_in_bytes(state) / 1e6:,.0f} MB, written in {duration:.2f} s, "
        f"price {1e3 * price:.0f} ms every {every:.0f} s: {share:.2%} of the run "
        f"(limit {LIMIT:.0%}: {verdict})"
    )


def killed_and_resumed(rounds: int) -> None:
    """Print how long a run that was killed takes to make its next iteration."""
    python, times = sys.executable, []
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        run = ["run", "--out", str(out), "--compile", "off", "--steps", "1000000"]
        run += ["--checkpoint-every", "100", "--quiet", "--threads", "1"]
        command = [python, "-m", "proxmesh", *run]
        for _ in range(rounds):
            before = checkpoints_in(out / "checkpoint")[:1]
            with subprocess.Popen(command) as process:
                while checkpoints_in(out / "checkpoint")[:1] == before:
                    time.sleep(0.01)
                process.kill()
            command = [python, "-m", "proxmesh", "resume", str(out), "--quiet"]
            begin, watched = time.time(), [python, "-c", WATCHED, *command[3:]]
            with subprocess.Popen(
                watched, stdout=subprocess.PIPE, text=True
            ) as resumed:
                assert resumed.stdout is not None
                times.append(float(resumed.stdout.readline().split()[1]) - begin)
                resumed.kill()
    begin = time.perf_counter()
    imports = "import torch, proxmesh.cli.run, proxmesh.runs.build, sklearn.datasets"
    subprocess.run([python, "-c", imports], check=True)
    importing = time.perf_counter() - begin
    beyond = statistics.median(times) - importing
    verdict = "holds" if beyond <= SECONDS_TO_GO_ON else "missed"
    print(
        f"killed, then resumed: next iteration after {statistics.median(times):.1f} s, "
        f"{beyond:.1f} s beyond its imports (limit {SECONDS_TO_GO_ON:g} s: {verdict})"
    )


def main() -> None:
    """Measure all tasks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, once")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    rounds = 1 if quick else 5
    measured("LeNet, n=8", lenet(8 if quick else 500), rounds)
    agents = 16 if quick else 1024
    measured(f"a9a/MLP, n={agents:,}", mlp(agents, batch=16), rounds)
    hidden = 1000 if quick else 160_000
    large = mlp(4, batch=64, hidden=hidden)
    measured(f"{large.problem.p:,} parameters, n=4", large, rounds=1)
    del large
    killed_and_resumed(rounds=1 if quick else 5)


if __name__ == "__main__":
    main()
