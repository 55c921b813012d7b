"""Check that `HSMADMM()` trains a9a on every topology, untouched.

    python benchmarks/graphs.py [--agents 8] [--steps 1500] [--quick]

HSM-ADMM with automatic constants, the MLP, batch 64, one thread, seed 0. Prints a
Markdown table; a graph that cannot have this many agents is left out. `--quick`
makes 20 steps on each: does it work?
"""

import argparse

import torch
from torch import nn

import proxmesh as pm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--quick", action="store_true", help="20 steps on each graph")
    options = parser.parse_args()
    steps = 20 if options.quick else options.steps
    torch.set_num_threads(1)
    data = pm.datasets.a9a()
    torch.manual_seed(0)
    problem = pm.LearningProblem(
        pm.models.mlp(123, 2),
        nn.functional.cross_entropy,
        data.split(options.agents),
        test=data.test,
        regularizer=pm.L1(1e-4),
        batch_size=64,
    )
    print("| graph | outcome | stationarity | consensus | test accuracy |")
    print("|---|---|---|---|---|")
    for name in sorted(pm.graphs.CONSTRUCTORS):
        try:
            graph = pm.graphs.make(name, options.agents)
        except pm.InputError:
            continue
        result = pm.solve(problem, pm.HSMADMM(), graph, steps, eval_every=steps)
        last = result.final
        print(
            f"| {name} | {result.outcome} | {last['stationarity']:.1e} "
            f"| {last['consensus']:.1e} | {last['test_accuracy']:.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
