"""How few weights does a network need? A sparse MLP on a9a, over a ring of eight.

    python examples/sparse_mlp.py            # three penalties, a minute
    python examples/sparse_mlp.py --quick    # one penalty, a few seconds
    mpiexec -n 8 --map-by :OVERSUBSCRIBE python examples/sparse_mlp.py --quick
    torchrun --standalone --nproc-per-node 8 examples/sparse_mlp.py --quick

Who earns above 50,000? Eight offices have 4,070 people each, with 123 features. The l1
norm sets weights to exactly zero; the heavier it is, the fewer are left. With the
heaviest of the three, 231 of 8,066 remain, and the accuracy is still .85.
"""

import sys

import torch
from torch import nn

import proxmesh as pm

GRAPH = pm.graphs.ring(8)


def sparse_network(weight: float, steps: int) -> pm.Result:
    """Train with this weight of the l1 norm."""
    data = pm.datasets.a9a()
    torch.manual_seed(0)  # all agents start from the same network
    problem = pm.LearningProblem(
        model=nn.Sequential(nn.Linear(123, 64), nn.Tanh(), nn.Linear(64, 2)),
        loss=nn.functional.cross_entropy,
        shards=data.split(8),
        test=data.test,
        regularizer=pm.L1(weight),
        batch_size=64,
    )
    return pm.solve(problem, pm.HSMADMM(), GRAPH, steps=steps, eval_every=steps)


def row(weight: float, result: pm.Result) -> str:
    """What is left: weights, features that are read, hidden units that do anything."""
    model = result.sparse_model  # the average out of the prox: its zeros are exact
    assert model is not None
    first, bias, last, biases = (w.detach().ne(0) for w in model.parameters())
    left = sum(int(w.sum()) for w in (first, bias, last, biases))
    units = first.any(1) & last.any(0)
    features = first[units].any(0)
    accuracy = result.final["test_accuracy"]
    return f"{weight:8.0e} {accuracy:9.3f} {left:8,} {features.sum():9} {units.sum():6}"


def main(quick: bool = False) -> pm.Result:
    """Print a table, a row for each penalty."""
    speaks = pm.connect(GRAPH).is_root  # one process of eight prints
    if speaks:
        print(" penalty  accuracy  weights  features  units   (at most 8,066, 123, 64)")
    for weight in (1e-3,) if quick else (1e-4, 3e-4, 1e-3):
        result = sparse_network(weight, steps=500 if quick else 2000)
        if speaks:
            print(row(weight, result))
    return result


if __name__ == "__main__":
    main("--quick" in sys.argv)
