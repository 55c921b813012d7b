"""Minimize anything: an object with `sample`, `grad` and `prox` is a problem.

    python examples/own_problem.py

Sixteen sensors estimate one nonnegative signal from noisy linear measurements, with a
robust loss that is not convex.
"""

import torch
from torch import Tensor

import proxmesh as pm

AGENTS, ROWS, P = 16, 40, 10


class RobustSensing:
    """f_i(x) = mean of log(1 + r^2 / 2) over the residuals r = A_i x - b_i; x >= 0."""

    batch_size = 5

    def __init__(self) -> None:
        g = torch.Generator().manual_seed(0)
        self.truth = torch.randn(P, generator=g).clamp(min=0)
        self.a = torch.randn(AGENTS, ROWS, P, generator=g)
        outliers = 10 * (torch.rand(AGENTS, ROWS, generator=g) < 0.1)
        self.b = self.a @ self.truth + outliers

    def sample(self, k: Tensor, size: int | None = None, stream: int = 0) -> Tensor:
        """Rows of iteration k: a pure function of k, so that runs repeat."""
        g = torch.Generator().manual_seed(2 * int(k) + stream)
        return torch.randint(ROWS, (AGENTS, size or self.batch_size), generator=g)

    def grad(self, x: Tensor, batch: Tensor) -> Tensor:
        """Row i: gradient of f_i at x_i on its sampled rows."""
        a = self.a.gather(1, batch[..., None].expand(-1, -1, P))
        residual = torch.einsum("nbp,np->nb", a, x) - self.b.gather(1, batch)
        weight = residual / (1 + residual.square() / 2)
        return torch.einsum("nbp,nb->np", a, weight) / batch.shape[1]

    def full_grad(self, x: Tensor) -> Tensor:
        """Optional: gives the history its stationarity."""
        return self.grad(x, torch.arange(ROWS).expand(AGENTS, ROWS))

    def prox(self, z: Tensor, step: Tensor | float) -> Tensor:
        """Projection onto x >= 0."""
        return pm.NonNegative().prox(z, step)


def main() -> pm.Result:
    """Solve and compare with the truth."""
    problem = RobustSensing()
    graph = pm.graphs.watts_strogatz(AGENTS)
    x0 = torch.zeros(AGENTS, P)
    result = pm.solve(problem, pm.HSMADMM(0.3, 0.6), graph, steps=3000, x0=x0)
    error = (result.state.y.mean(0) - problem.truth).abs().max().item()
    print(f"{result.outcome}: largest error {error:.3f}")
    return result


if __name__ == "__main__":
    main()
