"""Peak memory of a run with 256 agents against the size of its state.

    python benchmarks/memory.py [--agents 256]

LeNet (p = 25,010), batch 32, random pixels, one thread. Each run has a process of its
own. The peak is taken between the first and the last evaluation, so that the compiler's
own memory is left out, and counts from the resident size without any state. From it the
activations of one chunk of agents are subtracted: the peak of one gradient of that
chunk. The state has six tensors of n x p. The ratio to it must be at most 4 eager and 3
compiled. Reads the counters of Linux.
"""

import argparse
import gc
import multiprocessing
import resource
import sys
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import nn

import proxmesh as pm
from proxmesh.experiment.allocator import reuse_large_blocks

BATCH = 32
PARAMETERS = 25_010
STATE_TENSORS = 6
MB = 2**20


def problem_of(agents: int) -> pm.LearningProblem:
    shard = (torch.randn(2 * BATCH, 1, 28, 28), torch.arange(2 * BATCH) % 10)
    return pm.LearningProblem(
        pm.models.lenet(),
        nn.functional.cross_entropy,
        [shard] * agents,
        regularizer=pm.L1(1e-4),
        batch_size=BATCH,
    )


def state_bytes(agents: int) -> int:
    return STATE_TENSORS * agents * PARAMETERS * 4


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) * 1024 for x in lines if x.startswith("VmHWM"))


class FromTheFirstRow:
    """Resets the peak once the run is set up and compiled."""

    def __init__(self, agents: int) -> None:
        self.baseline = 0
        self._state = state_bytes(agents)

    def on_compile(self, seconds: float) -> None:
        """Watch nothing."""

    def on_step(self, k: int, seconds: float) -> None:
        """Watch nothing."""

    def on_row(self, row: Mapping[str, float]) -> None:
        """Start counting at the first row, where one state is alive."""
        if row["iteration"] == 0:
            gc.collect()
            self.baseline = resident() - self._state
            reset_peak()


def chunk_peak(agents: int, report: Connection) -> None:
    torch.set_num_threads(1)
    problem = problem_of(agents)
    rows = min(agents, problem.chunk_size // BATCH)
    chunk, part = problem.x0()[:rows], problem.sample(0).at(slice(rows))
    reuse_large_blocks(problem.x0())  # as a run does
    problem.grad(chunk, part)  # recorded here, replayed below
    gc.collect()
    before = resident()
    reset_peak()
    problem.grad(chunk, part)
    report.send(peak() - before)


def run_peak(agents: int, compiled: bool, report: Connection) -> None:
    torch.set_num_threads(1)
    watch = FromTheFirstRow(agents)
    graph, problem = pm.graphs.ring(agents), problem_of(agents)
    pm.solve(
        problem,
        pm.HSMADMM(),
        graph,
        steps=6,
        eval_every=3,
        observer=watch,
        compile=compiled,
    )
    report.send(peak() - watch.baseline)


def in_child(work: Callable[..., None], *arguments: object) -> int:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    child = context.Process(target=work, args=(*arguments, theirs))
    child.start()
    child.join()
    if child.exitcode:
        sys.exit(f"the measured process failed with code {child.exitcode}")
    found: int = mine.recv()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=256)
    agents = parser.parse_args().agents
    state = state_bytes(agents)
    activations = in_child(chunk_peak, agents)
    for mode, compiled in (("eager", False), ("compiled", True)):
        found = in_child(run_peak, agents, compiled)
        ratio = (found - activations) / state
        print(
            f"{mode:8}  state {state / MB:.0f} MB  peak {found / MB:.0f} MB"
            f"  one chunk {activations / MB:.0f} MB  (peak - chunk) / state {ratio:.2f}"
        )


if __name__ == "__main__":
    main()
