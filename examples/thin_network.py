"""Eight agents whose links are slow, and lose three messages in ten.

    python examples/thin_network.py [--quick]
    torchrun --nproc-per-node 2 examples/thin_network.py --quick

HSM-ADMM trains a small network on a9a four times: over perfect links, with messages of
4 bits per entry, with messages that get lost, and with both. Nothing else is set: how
careful the multipliers have to be follows from the links. All four are timed as if an
edge carried 2 Mbit per second and a message took 20 ms: where links are slow, who sends
little is fast, whatever a processor says.
"""

import sys

import torch
from torch import nn

import proxmesh as pm

SLOW: list[pm.links.Link] = [pm.links.Bandwidth("2Mbit"), pm.links.Latency("20ms")]
LINKS: dict[str, list[pm.links.Link]] = {
    "perfect": [],
    "4 bits": [pm.links.Compressed(pm.links.Bits(4))],
    "3 in 10 lost": [pm.links.Loss(0.3)],
    "both": [pm.links.Loss(0.3), pm.links.Compressed(pm.links.Bits(4))],
}


def main(quick: bool = False) -> pm.Result:
    """Train over each kind of links, and print what it took."""
    steps = 100 if quick else 400
    data = pm.datasets.a9a()
    torch.manual_seed(0)
    problem = pm.LearningProblem(
        pm.models.mlp(123, 2, hidden=16),
        nn.functional.cross_entropy,
        data.split(8),
        test=data.test,
        regularizer=pm.L1(1e-4),
    )
    heads = ("links", "stationarity", "accuracy", "MB sent", "seconds on such links")
    rows = ["  ".join(f"{head:>12}" for head in heads)]
    for name, models in LINKS.items():
        result = pm.solve(
            problem,
            pm.HSMADMM(),
            pm.graphs.ring(8),
            steps,
            links=[*models, *SLOW],
            eval_every=steps,
        )
        end = result.final
        values = (
            f"{end['stationarity']:.1e}",
            f"{end['test_accuracy']:.3f}",
            f"{end['bytes_sent'] / 1e6:.1f}",
            f"{end['simulated_seconds']:.1f}",
        )
        rows.append("  ".join(f"{value:>12}" for value in (name, *values)))
    if result.problem.agents[0] == 0:  # on many processes: only once
        print("\n".join(rows))
    return result


if __name__ == "__main__":
    main("--quick" in sys.argv)
