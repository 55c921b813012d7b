"""Sparse samples: how fast in which way, and what very wide models take.

    python benchmarks/sparse.py [--quick] [--only gradients|iteration|memory]

`gradients`: the two gradients of an iteration on a9a/MLP (8 agents, batch 64, 14 of 123
features not 0), dense and in the three sparse ways, in turn. `iteration`: logistic
regression on 20,000 rows of 47,236 features, 75 of them not 0, 8 agents, HSM-ADMM: an
iteration against reading and writing its state once, which is six rows for each agent.
`memory`: the peak of whole processes, libraries and data included, for that and for 1.3
million features. One thread.
"""

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import nn

import proxmesh as pm
from proxmesh.bench.memory import peak_bytes
from proxmesh.bench.tasks import ROUND
from proxmesh.solver.state import tensors_of

AGENTS, ROWS, ENTRIES = 8, 20_000, 75
WIDE, WIDEST = 47_236, 1_300_000
LIMITS = {WIDE: 1.0, WIDEST: 4.0}  # GB


def wide(features: int, rows: int) -> pm.LearningProblem:
    """Logistic regression on rows of 75 numbers that are not 0."""
    draw = np.random.default_rng(0)
    count = rows // AGENTS
    shards = []
    for _ in range(AGENTS):
        columns = draw.integers(0, features, (count, ENTRIES), dtype=np.int32)
        values = draw.random((count, ENTRIES), dtype=np.float32)
        offsets = np.arange(0, count * ENTRIES + 1, ENTRIES)
        x = csr_array((values.ravel(), columns.ravel(), offsets), (count, features))
        shards.append((x, torch.from_numpy(draw.integers(0, 2, count))))
    torch.manual_seed(0)
    return pm.LearningProblem(
        pm.models.logistic(features, 2),
        nn.functional.cross_entropy,
        shards,
        regularizer=pm.L1(1e-4),
        batch_size=64,
    )


def gradients(quick: bool) -> None:
    """Both gradients of one iteration of a9a/MLP."""
    shards = pm.datasets.a9a().split(AGENTS)
    names: tuple[Any, ...] = ("dense", "kernel", "gather")
    model = pm.models.mlp(123, 2)
    plain = nn.Sequential(nn.Linear(123, 64), nn.Tanh(), nn.Linear(64, 2))
    problems = {"dense samples": plain, **dict.fromkeys(names, model)}
    ways: dict[str, Callable[[], Any]] = {}
    for name, made in problems.items():
        way: Any = name if name in names[1:] else "dense"
        problem = pm.LearningProblem(
            made,
            nn.functional.cross_entropy,
            shards if name in {"dense samples", *names[1:]} else as_csr(shards),
            batch_size=64,
            sparse=way,
            paired=True,
            vectorize="vmap",
        )
        ways[name] = pair(problem)
    found = in_turn(ways, 3 if quick else 200)
    first = found["dense samples"]
    print("two gradients, a9a/MLP, 8 agents, batch 64: microseconds, / dense samples")
    for name, ms in found.items():
        print(f"  {name:15} {ms * 1e3:8.0f} {ms / first:6.2f}")


def as_csr(shards: list[Any]) -> list[Any]:
    """Shards as sparse matrices."""
    return [(csr_array(x.numpy()), y) for x, y in shards]


def pair(problem: pm.LearningProblem) -> Callable[[], Any]:
    """What takes both gradients."""
    x, batch = problem.x0(), problem.sample(1)
    return lambda: problem.grad_pair(x, x, batch)


def iteration(quick: bool) -> None:
    """An iteration of a wide model against reading and writing its state once."""
    problem = wide(WIDE, 800 if quick else ROWS)
    graph = pm.graphs.ring(AGENTS)
    ways: dict[str, Callable[[], Any]] = {}
    size = 0
    for name, compiled in (("eager", False), ("compiled", True)):
        if quick and compiled:
            continue
        run = pm.prepare(problem, ROUND, graph, 10**6, compile=compiled)
        step = stepper(run, compiled)
        ways[name] = step
        rows = [t for t in tensors_of(run.state).values() if t.ndim == 2]
        rows = [t for t in rows if t.shape == (AGENTS, problem.p)]
        size = sum(t.numel() * t.element_size() for t in rows)
    here, there = ([torch.ones_like(t) for t in rows] for _ in range(2))

    def copied() -> None:
        for a, b in zip(here, there, strict=True):
            b.copy_(a)

    ways["read and write the state once"] = copied
    found = in_turn(ways, 3 if quick else 60)
    once = found["read and write the state once"]
    print(
        f"logistic, {WIDE:,} features, {AGENTS} agents: {len(rows)} tensors of state, "
        f"{size / 1e6:.0f} MB, {2 * size / once / 1e6:.1f} GB/s; in the way "
        f"`{problem.sparse}`"
    )
    for name, ms in found.items():
        print(f"  {name:30} {ms:8.2f} ms {ms / once:6.2f}")


def stepper(run: Any, compiled: bool) -> Callable[[], Any]:
    """Makes one iteration after another."""
    from proxmesh.solver.compile_step import CompiledStep

    states = [run.state]
    advance = None
    if compiled:
        advance = CompiledStep(run.algorithm, run.problem, run.world, run.state)

    def go() -> None:
        if advance is not None:
            states[0] = advance(states[0])
        else:
            states[0] = run.algorithm.step(states[0], run.problem, run.world)

    return go


def in_turn(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each, measured in turn."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for _ in range(rounds):
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            times[name].append((time.perf_counter() - begin) * 1e3)
    return {name: statistics.median(found) for name, found in times.items()}


def memory(quick: bool) -> None:
    """Peak of processes that train wide models."""
    for features in (WIDE, WIDEST):
        for compiled in (False,) if quick else (False, True):
            wanted = 10_000 if quick else features
            context = multiprocessing.get_context("spawn")
            mine, theirs = context.Pipe()
            child = context.Process(target=train, args=(wanted, compiled, theirs))
            child.start()
            child.join()
            peak, how = mine.recv()[0] / 1e9, "compiled" if compiled else "eager"
            print(
                f"{wanted:,} features, {AGENTS} agents, {how}: peak of the process "
                f"{peak:.2f} GB, limit {LIMITS[features]:g} GB"
            )


def train(features: int, compiled: bool, report: Any) -> None:
    """A short run with two evaluations."""
    torch.set_num_threads(1)
    problem = wide(features, ROWS)
    graph = pm.graphs.ring(AGENTS)
    pm.solve(problem, ROUND, graph, steps=6, eval_every=3, compile=compiled)
    report.send((peak_bytes(),))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="does it work?")
    parser.add_argument("--only", choices=["gradients", "iteration", "memory"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    parts = {"gradients": gradients, "iteration": iteration, "memory": memory}
    for name, part in parts.items():
        if given.only in {None, name}:
            part(given.quick)


if __name__ == "__main__":
    main()
