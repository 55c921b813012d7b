"""Small problems with known answers, for tests of algorithms and of the solver."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS, HSMADMM
from proxmesh.problems.regularizers import L1

ROUND = HSMADMM(c_rho=0.25, c_eta=0.5, c_a=1.0)
"""Constants that train every small problem here, with the paper's step."""


def method(name: str, **options: Any) -> Any:
    """A method by its command-line name; HSM-ADMM with the constants above."""
    chosen = ALGORITHMS[name]
    if chosen.kind is HSMADMM:
        options = {"c_rho": 0.25, "c_eta": 0.5, "c_a": 1.0, **options}
    return chosen.kind(**{**chosen.fixed, **options})


@dataclass
class Quadratics:
    """f_i(x) = |A_i x - b_i|^2 / 2 (mean over rows), h = l1 |x|_1, optional noise.

    The noise of agent i at iteration k is a pure function of (i, k, stream) and depends
    on x, so that a recursive estimator with a wrong weight or batch is seen.
    """

    a: Tensor  # [n, m, p]
    b: Tensor  # [n, m]
    l1: float
    noise: float = 0.0
    batch_size: int = 1
    calls: list[int] = field(default_factory=list)
    regularizer: Any = None  # another h in place of l1 |x|_1

    @staticmethod
    def random(n: int, p: int, l1: float, seed: int, **options: Any) -> "Quadratics":
        """A full-rank lasso whose solution has zeros."""
        g = torch.Generator().manual_seed(seed)
        a = torch.randn(n, p + 3, p, generator=g)
        truth = torch.randn(p, generator=g) * (torch.arange(p) % 2 == 0)
        b = a @ truth + 0.1 * torch.randn(n, p + 3, generator=g)
        return Quadratics(a, b, l1, **options)

    def sample(self, k: Any, size: int | None = None, stream: int = 0) -> Tensor:
        """Per-agent diagonal perturbations of the Hessian and shifts."""
        del size
        n, _, p = self.a.shape
        g = torch.Generator().manual_seed(1000 * int(k) + stream)
        return self.noise * torch.randn(n, 2, p, generator=g)

    def grad(self, x: Tensor, batch: Tensor) -> Tensor:
        self.calls.append(len(x))
        return self.full_grad(x) + batch[:, 0] * x + batch[:, 1]

    def full_grad(self, x: Tensor) -> Tensor:
        residual = torch.einsum("nmp,np->nm", self.a, x) - self.b
        return torch.einsum("nmp,nm->np", self.a, residual) / self.a.shape[1]

    def value(self, x: Tensor) -> Tensor:
        residual = torch.einsum("nmp,np->nm", self.a, x) - self.b
        return residual.square().sum(1) / (2 * self.a.shape[1])

    def prox(self, z: Tensor, step: Any) -> Tensor:
        found: Tensor = (self.regularizer or L1(self.l1)).prox(z, step)
        return found

    def subgrad(self, x: Tensor) -> Tensor:
        return L1(self.l1).subgrad(x)

    def penalty(self, x: Tensor) -> Tensor:
        return L1(self.l1).value(x)

    def distance(self, u: Tensor, y: Tensor) -> Tensor:
        return L1(self.l1).distance(u, y)

    def solution(self, iterations: int = 20_000) -> Tensor:
        """Minimize mean_i f_i + h by plain proximal gradient, centralized."""
        n, m, p = self.a.shape
        hessian = torch.einsum("nmp,nmq->pq", self.a, self.a) / (n * m)
        linear = torch.einsum("nmp,nm->p", self.a, self.b) / (n * m)
        step = 1 / torch.linalg.eigvalsh(hessian)[-1]
        x = torch.zeros(p)
        for _ in range(iterations):
            x = self.prox((x - step * (hessian @ x - linear))[None], step)[0]
        return x


@dataclass
class GoldenQuadratics:
    """The toy of ALGORITHMS.md, section 12: four scalar quadratics on a star."""

    a: Tensor = field(
        default_factory=lambda: torch.tensor([[1.0], [2.0], [0.5], [1.5]])
    )
    t: Tensor = field(
        default_factory=lambda: torch.tensor([[3.0], [-1.0], [4.0], [2.0]])
    )
    x0: Tensor = field(
        default_factory=lambda: torch.tensor([[1.0], [-2.0], [0.5], [0.0]])
    )

    def sample(self, k: Any, size: int | None = None, stream: int = 0) -> None:
        del k, size, stream

    def grad(self, x: Tensor, batch: None) -> Tensor:
        del batch
        return self.a * (x - self.t)

    def prox(self, z: Tensor, step: Any) -> Tensor:
        return L1(0.5).prox(z, step)


class GoldenWithOptions(GoldenQuadratics):
    """The same with the optional methods that DSGT and ProxGT-SR-E need."""

    def full_grad(self, x: Tensor) -> Tensor:
        return self.grad(x, None)

    def subgrad(self, x: Tensor) -> Tensor:
        return L1(0.5).subgrad(x)


def classifier(seed: int = 0, **options: Any) -> pm.LearningProblem:
    """A small network on breast cancer, split over four agents."""
    data = pm.datasets.breast_cancer()
    torch.manual_seed(0)
    return pm.LearningProblem(
        pm.models.mlp(30, 2, hidden=4),
        nn.functional.cross_entropy,
        data.split(4),
        test=data.test,
        regularizer=pm.L1(1e-3),
        batch_size=8,
        seed=seed,
        **options,
    )
