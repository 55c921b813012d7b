"""LeNet reads handwritten digits; eight agents, each with an eighth of the images.

    python examples/lenet.py            # MNIST, some minutes; small digits without it
    python examples/lenet.py --quick    # small digits, a few seconds
    mpiexec -n 8 --map-by :OVERSUBSCRIBE python examples/lenet.py --quick
    torchrun --standalone --nproc-per-node 8 examples/lenet.py --quick

This is the network and the graph of the paper's second experiment. The agents never
see each other's images, and every one ends with a model that reads all ten digits.
"""

import sys
from dataclasses import replace

import torch
from torch import Tensor, nn

import proxmesh as pm

GRAPH = pm.graphs.random_8()


def images(quick: bool) -> pm.datasets.Dataset:
    """MNIST; where it cannot be had, 600 of scikit-learn's digits, enlarged."""
    if not quick:
        try:
            return pm.datasets.mnist()  # `proxmesh data fetch mnist` gets it
        except pm.InputError as error:
            print(f"small digits in place of MNIST: {error}")

    def enlarged(x: Tensor) -> Tensor:
        return nn.functional.interpolate(x.view(-1, 1, 8, 8), (28, 28), mode="bilinear")

    small = pm.datasets.digits()
    assert small.test is not None
    (x, y), (x_test, y_test) = (small.inputs, small.targets), small.test
    test = enlarged(x_test[:200]), y_test[:200]
    return replace(small, inputs=enlarged(x[:400]), targets=y[:400], test=test)


def main(quick: bool = False) -> pm.Result:
    """Train, and tell how the accuracy grew."""
    data = images(quick)
    torch.manual_seed(0)
    problem = pm.LearningProblem(
        model=pm.models.lenet(),
        loss=nn.functional.cross_entropy,
        shards=data.split(8),
        test=data.test,
        regularizer=pm.L1(1e-4),
        batch_size=8 if quick else 32,
    )
    steps, every = (60, 60) if quick else (1000, 200)
    result = pm.solve(problem, pm.HSMADMM(), GRAPH, steps=steps, eval_every=every)
    if 0 in result.problem.agents:  # one process of eight prints
        print(f"{data.name}: {problem.layout.p:,} weights in each of 8 agents")
        for _, row in result.history.iterrows():
            print(
                f"iteration {row['iteration']:5.0f}: accuracy on new images "
                f"{row['test_accuracy']:.3f}, {row['bytes_sent'] / 1e6:6.1f} MB sent"
            )
    return result


if __name__ == "__main__":
    main("--quick" in sys.argv)
