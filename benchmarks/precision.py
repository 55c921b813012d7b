"""Time of minibatch gradients in bfloat16 against float32, both in one run.

    python benchmarks/precision.py [--rounds 9] [--quick]

4 agents, batch 64, one thread, the two gradients of a STORM step, in turns, medians.
Below 1 means that `precision="bfloat16"` pays on this machine.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import proxmesh as pm

AGENTS, BATCH = 4, 64


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(1024, 10))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp, 784-1024-10": (lambda: pm.models.mlp(784, 10, 1024), (784,)),
    "lenet": (pm.models.lenet, (1, 28, 28)),
    "encoder, 16 tokens of 64": (encoder, (16, 64)),
}


def problem_of(name: str, precision: Any) -> pm.LearningProblem:
    build, shape = MODELS[name]
    torch.manual_seed(0)
    shards = [
        (torch.randn(BATCH, *shape), torch.arange(BATCH) % 10) for _ in range(AGENTS)
    ]
    return pm.LearningProblem(
        build(),
        nn.functional.cross_entropy,
        shards,
        batch_size=BATCH,
        vectorize="vmap",
        paired=False,
        precision=precision,
    )


def seconds(problem: pm.LearningProblem, k: int) -> float:
    x, batch = problem.x0(), problem.sample(k)
    begin = time.perf_counter()
    problem.grad_pair(x, x, batch)
    return time.perf_counter() - begin


def main() -> None:
    """Print one line per model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="measure once")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in MODELS:
        full, half = (problem_of(name, each) for each in ("full", "bfloat16"))
        ratios = []
        for k in range(2 if given.quick else given.rounds + 1):
            times = seconds(half, k), seconds(full, k)
            if k:  # the first records
                ratios.append(times[0] / times[1])
        ratio = statistics.median(ratios)
        print(f"{name}: bfloat16 takes {ratio:.2f} x the time of float32")


if __name__ == "__main__":
    main()
