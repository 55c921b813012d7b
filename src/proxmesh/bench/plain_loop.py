"""HSM-ADMM as the field's scripts write it: agent by agent, tensor by tensor."""

from typing import final

import torch
from torch import Tensor, nn

from proxmesh.bench.tasks import L1_WEIGHT, Task
from proxmesh.data.shards import Samples

__all__ = ["PlainLoop"]


@final
class PlainLoop:
    """One model object per agent, a Python loop over agents, edges and parameters.

    Parameters
    ----------
    task
        What to go on with, from its state.
    flat
        A leaner loop: the updates run on one flat vector per agent.
    """

    def __init__(self, task: Task, *, flat: bool = False) -> None:
        self.flat = flat
        self.problem, self.algorithm = task.problem, task.algorithm
        self.neighbors = [
            list(task.graph.to_networkx().neighbors(i)) for i in range(task.graph.n)
        ]
        self.models = [task.problem.module(row) for row in task.state.x]
        state = task.state
        self.x, self.v, self.p, self.b = (
            [self._parts(row.clone()) for row in rows]
            for rows in (state.x, state.v, state.alpha_sum, state.beta)
        )
        self.k = int(state.k)

    def step(self) -> None:
        """Make one iteration."""
        self.k += 1
        k, agents, tensors = self.k, range(len(self.x)), range(len(self.x[0]))
        rho, a = float(self.algorithm.rho(k)), float(self.algorithm.a(k + 1))
        old = self.x
        new = [list(x) for x in old]
        for i in agents:
            eta = float(self.algorithm.eta(k)) * (len(self.neighbors[i]) + 1)
            for t in tensors:
                x, b = old[i][t], self.b[i][t]
                y = nn.functional.softshrink(x - b / rho, L1_WEIGHT / rho)
                pull = x - y
                for j in self.neighbors[i]:
                    pull = pull + x - old[j][t]
                step = self.v[i][t] - self.p[i][t] - b + rho * pull
                new[i][t] = x - step / eta
                self.b[i][t] = b - rho * (new[i][t] - y)
        batch = self.problem.sample(k)
        for i in agents:
            fresh = self._gradient(i, new[i], batch)
            stale = self._gradient(i, old[i], batch)
            for t in tensors:
                self.v[i][t] = fresh[t] + (1 - a) * (self.v[i][t] - stale[t])
                for j in self.neighbors[i]:
                    self.p[i][t] = self.p[i][t] - rho * (new[i][t] - new[j][t])
        self.x = new

    def rows(self) -> Tensor:
        """The models as stacked rows."""
        flat = [torch.cat([t.reshape(-1) for t in x]) for x in self.x]
        return torch.stack(flat)

    def _parts(self, row: Tensor) -> list[Tensor]:
        return [row] if self.flat else self._tensors(row)

    def _tensors(self, row: Tensor) -> list[Tensor]:
        return list(self.problem.layout.unflatten(row).values())

    def _gradient(self, agent: int, x: list[Tensor], batch: Samples) -> list[Tensor]:
        model = self.models[agent]
        with torch.no_grad():
            values = self._tensors(x[0]) if self.flat else x
            for weight, value in zip(model.parameters(), values, strict=True):
                weight.copy_(value)
        outputs = model(batch.inputs[0][agent])
        loss = nn.functional.cross_entropy(outputs, batch.targets[agent])
        found = torch.autograd.grad(loss, list(model.parameters()))
        return [torch.cat([g.reshape(-1) for g in found])] if self.flat else list(found)
