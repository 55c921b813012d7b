"""Peak memory of a run of many agents against the size of its state (Linux)."""

import ctypes
import gc
import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from proxmesh.bench.report import Measurement, Ratio
from proxmesh.bench.tasks import ROUND, lenet_problem, mlp_problem
from proxmesh.bench.timing import Effort, Spread
from proxmesh.graphs import ring
from proxmesh.problems import LearningProblem
from proxmesh.solver.solving import solve

__all__ = ["held_before", "memory", "peak_bytes"]

STATE_TENSORS = 6
MB = 2**20
PROBLEMS: dict[str, Callable[[int], LearningProblem]] = {
    "mlp": lambda agents: mlp_problem(agents, batch=16),
    "lenet": lambda agents: lenet_problem(agents, images=64),
}
AGENTS = {"mlp": 1024, "lenet": 256}
QUICK_AGENTS = {"mlp": 32}
FEW = 8  # agents whose state is nothing


def memory(effort: Effort) -> Measurement:
    """The peak of a whole run, over what the process holds before it.

    Subtracted from it: the activations of one chunk of agents, the peak of one gradient
    of a chunk; and for compiled runs the compiler's own, the peak of the same run with
    eight agents. The data was there before.
    """
    if sys.platform != "linux":
        return Measurement(
            "memory",
            "Peak memory",
            unit="MB",
            notes=["Left out: needs Linux."],
        )
    sizes: dict[str, float] = {}
    ratios = []
    for name, agents in (QUICK_AGENTS if effort.quick else AGENTS).items():
        state, chunk = _in_child(_parts, name, agents)
        compiler = _in_child(_run, name, FEW, True)[0]
        sizes[f"{name}, n={agents}: state"] = state / MB
        sizes[f"{name}, n={agents}: one chunk"] = chunk / MB
        sizes[f"{name}: compiler"] = compiler / MB
        for mode, compiled in (("eager", False), ("compiled", True)):
            peak = _in_child(_run, name, agents, compiled)[0]
            sizes[f"{name}, n={agents}: peak, {mode}"] = peak / MB
            beyond = peak - chunk - (compiler if compiled else 0)
            label = f"(peak - chunk{' - compiler' if compiled else ''}) / state"
            ratios.append(
                Ratio(f"{name}, n={agents}, {mode}: {label}", beyond / state, 3.0)
            )
    return Measurement(
        "memory",
        "Peak memory of six iterations and two evaluations",
        unit="MB",
        measured={name: Spread(size, size, size) for name, size in sizes.items()},
        ratios=ratios,
    )


def _parts(name: str, agents: int, report: Connection) -> None:
    """The size of the state, and the peak of one gradient of a chunk of agents."""
    torch.set_num_threads(1)
    problem = PROBLEMS[name](agents)
    state = STATE_TENSORS * agents * problem.p * 4
    rows = min(agents, max(1, problem.chunk_size // problem.batch_size))
    chunk, part = problem.x0()[:rows].clone(), problem.sample(0).at(slice(rows))
    problem.grad(chunk, part)  # recorded here, replayed below
    before = held_before()
    problem.grad(chunk, part)
    report.send((state, peak_bytes() - before))


def _run(name: str, agents: int, compiled: bool, report: Connection) -> None:
    torch.set_num_threads(1)
    problem, graph = PROBLEMS[name](agents), ring(agents)
    before = held_before()
    solve(problem, ROUND, graph, steps=6, eval_every=3, compile=compiled)
    report.send((peak_bytes() - before,))


def _in_child(work: Callable[..., None], *arguments: object) -> tuple[int, ...]:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    child = context.Process(target=work, args=(*arguments, theirs))
    child.start()
    child.join()
    if child.exitcode:
        raise RuntimeError(f"the measured process ended with code {child.exitcode}")
    found: tuple[int, ...] = mine.recv()
    return found


def held_before() -> int:
    """Give back what is free, start the peak anew and return the resident bytes."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int:
    """The most that was resident since `held_before`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) * 1024 for x in lines if x.startswith("VmHWM"))
