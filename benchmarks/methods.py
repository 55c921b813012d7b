"""Time of every method's iteration against its own bare gradient evaluations.

    python benchmarks/methods.py [--rounds 15] [--only a,b,c] [--pairs] [--quick]

a9a/MLP, 8 agents on a ring, batch 64, one thread, eager on both sides, both measured in
turns, medians. The bare side draws and gathers the same batches and evaluates the same
number of gradients, one after the other. Steps that refresh an estimator over a large
batch are timed as part of a whole period.

`--pairs` holds the methods to a harder measure: where a step takes two gradients in one
pass over the batch, so does the bare side. `--quick` measures once: does it work?

Limits: 1.3 for methods with two gradients per iteration or more, 1.6 for one, 1.8 for
one with three vectors.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS

AGENTS = 8
LIMITS = {1: 1.6, 2: 1.3, 3: 1.3}  # by gradients per iteration
THREE_VECTORS = 1.8


class Recorder:
    """A problem that notes which draws and gradients a step asks for."""

    def __init__(self, problem: pm.LearningProblem) -> None:
        self._problem = problem
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._problem, name)
        if name not in {"sample", "grad", "grad_pair", "full_grad"}:
            return found

        def noted(*arguments: Any, **options: Any) -> Any:
            self.calls.append((name, arguments, options))
            return found(*arguments, **options)

        return noted


def replayed(recorder: Recorder, problem: pm.LearningProblem, pairs: bool) -> None:
    """Draw and evaluate again what was noted, and nothing else."""
    batch: Any = None
    for name, arguments, options in recorder.calls:
        if name == "sample":
            batch = problem.sample(*arguments, **options)
        elif name == "grad":
            problem.grad(arguments[0], batch)
        elif name == "full_grad":
            problem.full_grad(*arguments)
        elif pairs:
            problem.grad_pair(arguments[0], arguments[1], batch)
        else:
            problem.grad(arguments[0], batch)
            problem.grad(arguments[1], batch)


def problem_of() -> pm.LearningProblem:
    torch.manual_seed(0)
    return pm.LearningProblem(
        pm.models.mlp(123, 2),
        nn.functional.cross_entropy,
        pm.datasets.a9a().split(AGENTS),
        regularizer=pm.L1(1e-4),
        batch_size=64,
    )


def timed(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def measure(name: str, rounds: int, pairs: bool) -> tuple[float, float, pm.Cost]:
    """Milliseconds of an iteration, of its gradients, and what an iteration costs."""
    graph = pm.graphs.ring(AGENTS)
    problem, world = problem_of(), pm.connect(graph)
    method, x0 = ALGORITHMS[name], problem.x0()
    algorithm: Any = method.kind(**method.fixed)
    algorithm = pm.theory.settled(algorithm, problem, world, graph, x0).algorithm
    state = algorithm.init(x0, problem, world)
    period = getattr(algorithm, "period", 32) if "sr" in name else 32
    recorder: Any = Recorder(problem)
    noted = state
    for _ in range(period):
        noted = algorithm.step(noted, recorder, world)

    def iterate() -> Tensor:
        current = state
        for _ in range(period):
            current = algorithm.step(current, problem, world)
        x: Tensor = current.x
        return x

    iterate()
    replayed(recorder, problem, pairs)
    ours, bare = [], []
    for _ in range(rounds):
        ours.append(timed(iterate))
        bare.append(timed(lambda: replayed(recorder, problem, pairs)))
    scale = 1e3 / period
    cost = algorithm.cost(2)
    return statistics.median(ours) * scale, statistics.median(bare) * scale, cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", help="a,b,c: some methods by name [all]")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one round of each")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else arguments.rounds
    torch.set_num_threads(1)
    print("| method | gradients | iteration, ms | bare gradients, ms | ratio | limit |")
    print("|---|---|---|---|---|---|")
    for name in arguments.only.split(",") if arguments.only else ALGORITHMS:
        ours, bare, cost = measure(name, rounds, arguments.pairs)
        gradients = cost.gradients
        limit = THREE_VECTORS if cost.vectors == 3 else LIMITS[gradients]
        ratio = ours / bare
        shown = f"{ratio:.2f}" if ratio <= limit else f"**{ratio:.2f}**"
        cells = [name, gradients, f"{ours:.2f}", f"{bare:.2f}", shown, limit]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
