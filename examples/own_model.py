"""Train your own module on your own data, over your own graph, with your own penalty.

    python examples/own_model.py

Seven hospitals hold measurements that may not leave them. They train one network with a
group lasso, which switches whole hidden units off, over the links that exist.
"""

import networkx as nx
import torch
from torch import Tensor, nn

import proxmesh as pm


class Residual(nn.Module):
    """A small residual network."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Linear(30, 30)
        self.out = nn.Linear(30, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of two classes."""
        return self.out(x + torch.relu(self.inside(x)))  # type: ignore[no-any-return]


def main() -> pm.Result:
    """Train and report."""
    data = pm.datasets.breast_cancer()
    hospitals = data.split(7, "dirichlet", alpha=3.0)  # unequal and skewed
    torch.manual_seed(0)
    problem = pm.LearningProblem(
        model=Residual(),
        loss=nn.functional.cross_entropy,
        shards=hospitals,
        test=data.test,
        regularizer=pm.Only(pm.GroupLasso(5e-3), "inside.*"),
        batch_size=4,
    )
    links = nx.barbell_graph(3, 1)
    result = pm.solve(problem, pm.HSMADMM(), links, steps=1500)
    model = result.sparse_model
    assert isinstance(model, Residual)
    alive = int((model.inside.weight.abs().sum(1) > 1e-6).sum())
    print(f"{result.outcome}: {result.message}")
    print(
        f"test accuracy {result.final['test_accuracy']:.3f}, {alive} of 30 units left"
    )
    return result


if __name__ == "__main__":
    main()
