"""What checkpoints cost a run, and how soon one goes on after a kill.

    python benchmarks/checkpoints.py [--quick]

Two tasks: LeNet on 8 agents, and the a9a/MLP on 1,024. Steps are made, one thread for
them, first with nothing beside them, then while a checkpoint is written. What the
second takes longer is the price of a checkpoint; divided by the interval at which a run
makes them (a minute, or a hundred times what one takes), it is the share of the run.
Limit: 1 %. `--quick` makes small ones: does it work?
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from proxmesh.bench.tasks import Task, lenet, mlp
from proxmesh.solver.checkpoint import Manifest, described_by
from proxmesh.solver.journal import Journal
from proxmesh.solver.saving import DEFAULT_SECONDS, SHARE_OF_TIME, Interval, Saver
from proxmesh.solver.state import size_in_bytes

LIMIT = 0.01


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


def main() -> None:
    """Measure both tasks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, once")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    rounds = 1 if quick else 5
    measured("LeNet, n=8", lenet(8 if quick else 500), rounds)
    agents = 16 if quick else 1024
    measured(f"a9a/MLP, n={agents:,}", mlp(agents, batch=16), rounds)


if __name__ == "__main__":
    main()
