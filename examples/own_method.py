"""Write your own method: a frozen dataclass with `init`, `step` and `cost`.

    python examples/own_method.py
    python examples/own_method.py --quick    # a third of the iterations

Decentralized SGD that mixes after the step, in thirty lines, against five methods that
are here already, on labels sorted by agent. All of them see the same minibatches.
"""

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

import proxmesh as pm


@dataclass(frozen=True)
class State:
    """k counts finished iterations, x holds one row per agent."""

    k: Tensor
    x: Tensor


@dataclass(frozen=True)
class AdaptThenCombine:
    """x_i <- sum_j w_ij (x_j - alpha grad f_j(x_j)), w the Metropolis weights."""

    alpha: float = 0.2

    space: ClassVar = {"alpha": {"low": 0.02, "high": 1.0}}  # for `proxmesh tune`

    def init(self, x0: Tensor, problem: Any, network: Any) -> State:
        """Start at k = 0; a first gradient would be drawn with `problem.sample(0)`."""
        del problem, network
        return State(k=torch.tensor(0), x=x0)

    def step(self, state: State, problem: Any, network: Any) -> State:
        """Make iterate k from iterate k - 1 with the minibatch of iteration k."""
        k = state.k + 1
        adapted = state.x - self.alpha * problem.grad(state.x, problem.sample(k))
        return State(k=k, x=network.exchange(adapted).mix())

    def cost(self, k: int) -> pm.Cost:
        """What iteration k sends and computes; k = 0 is `init`."""
        return pm.Cost(vectors=1, rounds=1, gradients=1) if k else pm.Cost(0, 0, 0)


def main(quick: bool = False) -> pm.Result:
    """Compare it with the others on the same problem; return the result of HSM-ADMM."""
    data = pm.datasets.digits()
    torch.manual_seed(0)
    problem = pm.LearningProblem(
        pm.models.logistic(64, 10),
        nn.functional.cross_entropy,
        data.split(10, "by-label"),
        test=data.test,
        batch_size=16,
    )
    methods = {
        "adapt-then-combine": AdaptThenCombine(),
        "hsm-admm": pm.HSMADMM(),
        "d-psgd": pm.DPSGD(alpha=0.2),
        "dsgt": pm.DSGT(alpha=0.2),
        "prox-dasa": pm.ProxDASA(),
        "deepstorm-v2": pm.DEEPSTORM(),
    }
    graph, steps = pm.graphs.ring(10), 200 if quick else 600
    found = pm.compare(methods, problem, graph, steps, seeds=1, eval_every=100)
    print(found)
    return found.results["hsm-admm"][0]


if __name__ == "__main__":
    main("--quick" in sys.argv)
