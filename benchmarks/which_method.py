"""Which method for which task: the numbers of docs/relatives.md.

    python benchmarks/which_method.py [--gradients 600] [--quick]

a9a with the MLP, batch 64, seed 0, as many minibatch gradients for each agent for every
method: half as many iterations where an iteration takes two. Two tasks: a ring of 8
with even data, and the same ring with data sorted by label. Each method runs with the
few settings listed here; the best final stationarity counts. `--quick` makes a few
iterations: does it work?
"""

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

import proxmesh as pm
from proxmesh.compressors import Bits

SETTINGS: dict[str, list[Any]] = {
    "hsm-admm": [pm.HSMADMM(), pm.HSMADMM(0.25, 0.5, 1.0)],
    "hsm-admm-direct": [
        pm.HSMADMM(split=False),
        pm.HSMADMM(0.25, 0.5, 1.0, split=False),
    ],
    "dpga": [pm.DPGA(0.25, 2.0), pm.DPGA(1.0, 4.0), pm.DPGA(1.0, 16.0)],
    "sdpga": [pm.DPGA(0.25, 2.0, 1.0), pm.DPGA(1.0, 2.0, 1.0), pm.DPGA(4.0, 2.0, 1.0)],
    "linearized-admm": [
        pm.LinearizedADMM(0.25, 1.0),
        pm.LinearizedADMM(1.0, 2.0, 2.0),
        pm.LinearizedADMM(1.0, 4.0, 4.0),
    ],
    "prox-ed": [pm.ProxED(pm.schedules.power(a, -0.5)) for a in (0.5, 1.5, 4.0)],
    "pg-extra": [pm.PGEXTRA(pm.schedules.power(a, -0.5)) for a in (0.5, 1.5, 4.0)],
    "deepstorm-v2": [pm.DEEPSTORM(), pm.DEEPSTORM(alpha=2.5), pm.DEEPSTORM(alpha=0.6)],
    "depositum": [
        pm.DEPOSITUM(pm.schedules.power(1.0, -0.5)),
        pm.DEPOSITUM(pm.schedules.power(3.0, -0.5)),
        pm.DEPOSITUM(pm.schedules.power(1.0, -0.5), period=4),
    ],
    "cdprox-sgt": [
        pm.CDProxSGT(pm.schedules.power(1.0, -0.5), 0.8, 0.8, Bits(4)),
        pm.CDProxSGT(pm.schedules.power(3.0, -0.5), 0.5, 0.5, Bits(4)),
    ],
    "perturbed-admm": [pm.PerturbedADMM(), pm.PerturbedADMM(1.0, 0.1, 4.0)],
    "penalty-admm": [pm.PenaltyADMM(), pm.PenaltyADMM(30.0, 1.0, 4.0)],
    "sm-admm": [pm.SMADMM()],
}
TASKS: dict[str, tuple[pm.Graph, str]] = {
    "ring of 8": (pm.graphs.ring(8), "contiguous"),
    "ring of 8, by label": (pm.graphs.ring(8), "by-label"),
}


def problem_of(graph: pm.Graph, split: str) -> pm.LearningProblem:
    data = pm.datasets.a9a()
    torch.manual_seed(0)
    return pm.LearningProblem(
        pm.models.mlp(123, 2),
        nn.functional.cross_entropy,
        data.split(graph.n, split),
        test=data.test,
        regularizer=pm.L1(1e-4),
        batch_size=64,
    )


def runs(name: str, task: str, gradients: int) -> Iterator[pm.Result]:
    """Every setting of a method on one task, within the budget."""
    graph, split = TASKS[task]
    for algorithm in SETTINGS[name]:
        steps = max(1, gradients // algorithm.cost(1).gradients)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pm.Notice)
            yield pm.solve(
                problem_of(graph, split),
                algorithm,
                graph,
                steps,
                eval_every=steps,
                compile=False,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gradients", type=int, default=600)
    parser.add_argument("--quick", action="store_true", help="a few iterations")
    arguments = parser.parse_args()
    gradients = 4 if arguments.quick else arguments.gradients
    torch.set_num_threads(1)
    print("| task | method | stationarity | density | accuracy | MB sent | constants |")
    print("|---|---|---|---|---|---|---|")
    for task in list(TASKS)[:1] if arguments.quick else TASKS:
        for name in SETTINGS:
            found = [r for r in runs(name, task, gradients) if r.outcome == "finished"]
            if not found:
                print(f"| {task} | `{name}` | diverged | | | | |", flush=True)
                continue
            best = min(found, key=lambda r: float(r.final["stationarity"]))
            last = best.final
            cells = [
                task,
                f"`{name}`",
                f"{last['stationarity']:.1e}",
                f"{last['density_y']:.2f}",
                f"{last['test_accuracy']:.4f}",
                f"{last['bytes_sent'] / 1e6:.0f}",
                f"`{best.algorithm}`",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
