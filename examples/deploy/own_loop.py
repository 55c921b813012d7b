"""HSM-ADMM in your own training loop: torchrun --nproc-per-node 4 own_loop.py."""

import torch
from torch import nn

import proxmesh as pm

GRAPH = pm.graphs.ring(4)  # one agent a process
STEPS = 400


def main() -> None:
    """Train on this process's quarter of the data."""
    torch.manual_seed(0)  # all agents start from the same weights
    model = nn.Linear(30, 2)
    opt = pm.optim.HSMADMM(model.parameters(), GRAPH, regularizer=pm.L1(1e-3))

    data = pm.datasets.breast_cancer()
    inputs, targets = data.split(4)[opt.agent]
    torch.manual_seed(opt.agent)
    for _ in range(STEPS):
        rows = torch.randint(len(targets), (16,))

        def closure(rows: torch.Tensor = rows) -> torch.Tensor:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs[rows]), targets[rows])
            loss.backward()
            return loss

        opt.step(closure)

    opt.average_()
    assert data.test is not None
    hits = (model(data.test[0]).argmax(1) == data.test[1]).float().mean()
    if opt.agent == 0:
        print(f"test accuracy of the mean model: {hits:.3f}")


if __name__ == "__main__":
    main()
