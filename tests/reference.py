"""Slow, literal versions of the algorithms: the oracle, never imported by `src`.

Written agent by agent and edge by edge from the papers, in numpy, with no Laplacian, no
stacking and no shared code with the package.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Gradient = Callable[[int, Vector, int], Vector]
"""gradient(agent, x, k): of f_agent at x on the agent's minibatch of iteration k."""
Prox = Callable[[Vector, float], Vector]
"""prox(z, step): of step * h."""


def hsm_admm(
    edges: list[tuple[int, int]],
    x0: list[Vector],
    gradient: Gradient,
    prox: Prox,
    *,
    c_rho: float,
    c_eta: float,
    c_a: float,
    k0: int = 0,
    uniform: bool = False,
) -> Iterator[list[Vector]]:
    """Algorithm 1 of arXiv:2603.07682 with every alpha_ij, counter from 1.

    Yields x^1, x^2, ... (`state.x` at k = 1, 2, ...).
    """
    n = len(x0)
    neighbors: list[list[int]] = [[] for _ in range(n)]
    for i, j in edges:
        neighbors[i].append(j)
        neighbors[j].append(i)
    largest = max(len(around) for around in neighbors)
    x = [row.copy() for row in x0]
    alpha = {(i, j): np.zeros_like(x0[0]) for i in range(n) for j in neighbors[i]}
    beta = [np.zeros_like(row) for row in x0]
    v = [gradient(i, x[i], 0) for i in range(n)]
    k = 0
    while True:
        k += 1
        rho = c_rho * (k + k0) ** (1 / 3)
        a = min(1.0, c_a * (k + 1 + k0) ** (-2 / 3))
        y, x_new = [], []
        for i in range(n):
            degree = largest if uniform else len(neighbors[i])
            eta = c_eta * (degree + 1) * (k + k0) ** (1 / 3)
            y.append(prox(x[i] - beta[i] / rho, 1 / rho))
            direction = v[i] - beta[i] + rho * (x[i] - y[i])
            for j in neighbors[i]:
                direction = direction - alpha[i, j] + rho * (x[i] - x[j])
            x_new.append(x[i] - direction / eta)
        for i in range(n):
            for j in neighbors[i]:
                alpha[i, j] = alpha[i, j] - rho * (x_new[i] - x_new[j])
            beta[i] = beta[i] - rho * (x_new[i] - y[i])
            v[i] = gradient(i, x_new[i], k) + (1 - a) * (v[i] - gradient(i, x[i], k))
        x = x_new
        yield [row.copy() for row in x]
