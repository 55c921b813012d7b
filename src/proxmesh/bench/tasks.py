"""The tasks that are measured; data of the right shape stands in for MNIST."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from proxmesh import graphs
from proxmesh.algorithms import HSMADMM
from proxmesh.bench.timing import seconds_of
from proxmesh.data import datasets
from proxmesh.network import connect
from proxmesh.problems import L1, LearningProblem, models
from proxmesh.problems.gradient_ways import AskedSparse
from proxmesh.solver.compile_step import CompiledStep

__all__ = ["L1_WEIGHT", "Task", "lenet", "logistic", "mlp"]

L1_WEIGHT = 1e-4
FEATURES = 123  # of a9a
WARM_UP = 5
ROUND = HSMADMM(c_rho=0.25, c_eta=0.5, c_a=1.0)  # the same work at every size


@final
@dataclass(frozen=True)
class Task:
    """A problem, a method and a network, some iterations on their way."""

    problem: LearningProblem
    graph: graphs.Graph
    algorithm: Any
    world: Any
    state: Any

    @staticmethod
    def of(
        problem: LearningProblem, graph: graphs.Graph, algorithm: Any = None
    ) -> "Task":
        """Join the network and make a few iterations."""
        algorithm = algorithm or ROUND
        world: Any = connect(graph, "simulated", dtype=problem.dtype)
        state = algorithm.init(problem.x0(), problem, world)
        for _ in range(WARM_UP):
            state = algorithm.step(state, problem, world)
        return Task(problem, graph, algorithm, world, state)

    def step(self, state: Any) -> Any:
        """Make one iteration."""
        return self.algorithm.step(state, self.problem, self.world)

    def iterating(self, step: Callable[[Any], Any]) -> Callable[[int], float]:
        """What `in_turns` calls to time the iterations that a step makes."""
        state = [self.state]

        def iterate() -> None:
            state[0] = step(state[0])

        return seconds_of(iterate)

    def compiled(self) -> CompiledStep:
        """The compiled step; it is checked against the plain one when made."""
        return CompiledStep(self.algorithm, self.problem, self.world, self.state)


def mlp(
    agents: int = 8, batch: int = 64, hidden: int = 64, sparse: AskedSparse = "dense"
) -> Task:
    """The papers' network on a9a."""
    problem = mlp_problem(agents, batch, hidden, sparse)
    return Task.of(problem, graphs.ring(agents))


def mlp_problem(
    agents: int, batch: int, hidden: int = 64, sparse: AskedSparse = "dense"
) -> LearningProblem:
    """Its problem alone."""
    torch.manual_seed(0)
    return LearningProblem(
        models.mlp(FEATURES, 2, hidden=hidden),
        nn.functional.cross_entropy,
        datasets.a9a().split(agents),
        regularizer=L1(L1_WEIGHT),
        batch_size=batch,
        sparse=sparse,
    )


def lenet(images: int = 500) -> Task:
    """LeNet on random pixels, so many images per agent."""
    return Task.of(lenet_problem(8, images), graphs.random_8())


def lenet_problem(agents: int, images: int) -> LearningProblem:
    """Its problem alone."""
    torch.manual_seed(0)
    shard = (torch.randn(images, 1, 28, 28), torch.arange(images) % 10)
    return LearningProblem(
        models.lenet(),
        nn.functional.cross_entropy,
        [shard] * agents,
        regularizer=L1(L1_WEIGHT),
        batch_size=32,
    )


class OneLogit(nn.Module):
    """Binary logistic regression without a bias, as decent-bench has it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, 1, bias=False)

    def forward(self, x: Tensor) -> Any:
        """The logit of each sample."""
        return self.linear(x)[:, 0]


def logistic(
    agents: int, batch: int = 64, rows: int = 200, algorithm: Any = None
) -> Task:
    """Binary logistic regression on zeros and ones as frequent as in a9a."""
    torch.manual_seed(0)
    shards = [
        ((torch.rand(rows, FEATURES) < 0.11).float(), (torch.rand(rows) < 0.24).float())
        for _ in range(agents)
    ]
    problem = LearningProblem(
        OneLogit(),
        nn.functional.binary_cross_entropy_with_logits,
        shards,
        batch_size=batch,
    )
    return Task.of(problem, graphs.ring(agents), algorithm)
