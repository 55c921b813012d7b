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
    smoothness: float = 0.0,
    k0: int = 0,
    uniform: bool = False,
    assumed: int | None = None,
    split: bool = True,
) -> Iterator[list[Vector]]:
    """Algorithm 1 of arXiv:2603.07682 with every alpha_ij, counter from 1.

    Without `split`, the prox is on x itself, in place of y and beta.
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
            degree = degree if assumed is None else assumed
            eta = c_eta * (degree + 1) * (k + k0) ** (1 / 3) + smoothness
            direction = v[i]
            if split:
                y.append(prox(x[i] - beta[i] / rho, 1 / rho))
                direction = direction - beta[i] + rho * (x[i] - y[i])
            for j in neighbors[i]:
                direction = direction - alpha[i, j] + rho * (x[i] - x[j])
            moved = x[i] - direction / eta
            x_new.append(moved if split else prox(moved, 1 / eta))
        for i in range(n):
            for j in neighbors[i]:
                alpha[i, j] = alpha[i, j] - rho * (x_new[i] - x_new[j])
            if split:
                beta[i] = beta[i] - rho * (x_new[i] - y[i])
            v[i] = gradient(i, x_new[i], k) + (1 - a) * (v[i] - gradient(i, x[i], k))
        x = x_new
        yield [row.copy() for row in x]


Weights = dict[tuple[int, int], float]
"""w_ij of the mixing matrix, self weights included; missing pairs are 0."""
Noisy = Callable[[int, Vector, int, int], Vector]
"""gradient(agent, x, k, stream): stream 1 is an independent batch."""


def metropolis(n: int, edges: list[tuple[int, int]]) -> Weights:
    degree = [sum(i in edge for edge in edges) for i in range(n)]
    weights: Weights = {}
    for i, j in edges:
        weights[i, j] = weights[j, i] = 1 / (1 + max(degree[i], degree[j]))
    for i in range(n):
        weights[i, i] = 1 - sum(w for (a, b), w in weights.items() if a == i and b != i)
    return weights


def mix(weights: Weights, x: list[Vector], rounds: int = 1) -> list[Vector]:
    for _ in range(rounds):
        new = [np.zeros_like(row) for row in x]
        for (i, j), w in weights.items():
            new[i] = new[i] + w * x[j]
        x = new
    return x


def dpsgd(
    weights: Weights, x0: list[Vector], gradient: Noisy, prox: Prox, *, alpha: float
) -> Iterator[list[Vector]]:
    """Section 2 with the composite add-on, alpha / sqrt(k + 1) for k = 0, 1, ..."""
    x, k = x0, 0
    while True:
        step = alpha / (k + 1) ** 0.5
        g = [gradient(i, x[i], k + 1, 0) for i in range(len(x))]
        mixed = mix(weights, x)
        x = [prox(m - step * d, step) for m, d in zip(mixed, g, strict=True)]
        k += 1
        yield x


def dsgt(
    weights: Weights, x0: list[Vector], gradient: Noisy, l1: float, *, alpha: float
) -> Iterator[list[Vector]]:
    """Section 3 with the subgradient l1 sign(x)."""
    n, x, k = len(x0), x0, 0
    y = [np.zeros_like(row) for row in x0]
    g_old = [np.zeros_like(row) for row in x0]
    while True:
        g = [gradient(i, x[i], k + 1, 0) + l1 * np.sign(x[i]) for i in range(n)]
        y = mix(weights, [y[i] + g[i] - g_old[i] for i in range(n)])
        x = mix(weights, [x[i] - alpha * y[i] for i in range(n)])
        g_old, k = g, k + 1
        yield x


def sppdm(
    edges: list[tuple[int, int]],
    x0: list[Vector],
    gradient: Noisy,
    prox: Prox,
    *,
    alpha: float,
    c: float,
    kappa: float,
    gamma: float,
    beta: float,
    momentum: float | None = None,
) -> Iterator[list[Vector]]:
    """Section 4: the init step first, then k = 1, 2, ...; momentum None is Nesterov."""
    n = len(x0)
    neighbors = [[j for e in edges if i in e for j in e if j != i] for i in range(n)]
    phi = [gamma + 2 * c * len(neighbors[i]) + kappa for i in range(n)]
    z, p, theta = list(x0), [np.zeros_like(row) for row in x0], 1.0
    old, x = list(x0), []
    for i in range(n):
        around = sum((x0[j] for j in neighbors[i]), np.zeros_like(x0[i]))
        own = (gamma + c * len(neighbors[i]) + kappa) * x0[i]
        g = gradient(i, x0[i], 1, 0)
        x.append(prox((own + c * around - g) / phi[i], 1 / phi[i]))
    yield x
    k = 1
    while True:
        theta_new = (1 + (1 + 4 * theta**2) ** 0.5) / 2
        eta = (theta - 1) / theta_new if momentum is None else momentum
        theta = theta_new
        new = []
        for i in range(n):
            for j in neighbors[i]:
                p[i] = p[i] + alpha * (x[i] - x[j])
            s = x[i] + eta * (x[i] - old[i])
            around = sum((x[j] for j in neighbors[i]), len(neighbors[i]) * x[i])
            g = gradient(i, s, k + 1, 0)
            top = gamma * s + c * around + kappa * z[i] - g - p[i]
            new.append(prox(top / phi[i], 1 / phi[i]))
        z = [z[i] + beta * (new[i] - z[i]) for i in range(n)]
        old, x, k = x, new, k + 1
        yield x


def prox_gt(
    weights: Weights,
    x0: list[Vector],
    gradient: Noisy,
    prox: Prox,
    *,
    alpha: float,
    period: int | None,
    rounds: int = 1,
    exact: Callable[[int, Vector], Vector] | None = None,
) -> Iterator[list[Vector]]:
    """Section 5: SA if period is None, else SR; `exact` is SR-E's whole-shard gradient.

    SR-O's large batch is stream 0's of that iteration.
    """
    n, x, t = len(x0), x0, 0
    x_old = x0
    y = [np.zeros_like(row) for row in x0]
    v_old = [np.zeros_like(row) for row in x0]
    while True:
        t += 1
        if period is None or (t - 1) % period == 0:
            if exact is None:
                v = [gradient(i, x[i], t, 0) for i in range(n)]
            else:
                v = [exact(i, x[i]) for i in range(n)]
        else:
            v = [
                v_old[i] + gradient(i, x[i], t, 0) - gradient(i, x_old[i], t, 0)
                for i in range(n)
            ]
        y = mix(weights, [y[i] + v[i] - v_old[i] for i in range(n)], rounds)
        z = [prox(x[i] - alpha * y[i], alpha) for i in range(n)]
        x_old, x, v_old = x, mix(weights, z, rounds), v
        yield x


def deepstorm(
    weights: Weights,
    x0: list[Vector],
    gradient: Noisy,
    prox: Prox,
    *,
    version: int,
    alpha: float,
    k0: int,
    beta: float,
    rounds: int = 1,
) -> Iterator[list[Vector]]:
    """Section 6 with plain rounds."""
    n, x, k = len(x0), x0, 0
    s = [gradient(i, x[i], 0, 0) for i in range(n)]
    y = mix(weights, s, rounds)
    while True:
        a, a_next = alpha / (k + k0) ** (1 / 3), alpha / (k + 1 + k0) ** (1 / 3)
        b = min(1.0, 1 - a_next / a + beta * a_next**2)
        mixed = mix(weights, x, rounds)
        new = [prox(mixed[i] - a * y[i], a) for i in range(n)]
        s_new = []
        for i in range(n):
            fresh, stale = gradient(i, new[i], k + 1, 0), gradient(i, x[i], k + 1, 0)
            if version == 2:
                s_new.append(fresh + (1 - b) * (s[i] - stale))
            else:
                other = gradient(i, new[i], k + 1, 1)
                s_new.append((1 - b) * (s[i] + fresh - stale) + b * other)
        y = mix(weights, [y[i] + s_new[i] - s[i] for i in range(n)], rounds)
        x, s, k = new, s_new, k + 1
        yield x


def prox_dasa(
    weights: Weights,
    x0: list[Vector],
    gradient: Noisy,
    prox: Prox,
    *,
    gamma: float,
    alpha: float,
    tracking: bool,
    rounds: int = 1,
) -> Iterator[list[Vector]]:
    """Section 7."""
    n, x, k = len(x0), x0, 0
    z, u, v_old = ([np.zeros_like(row) for row in x0] for _ in range(3))
    while True:
        a = min(1.0, alpha * (n / (k + 1)) ** 0.5)
        y = [prox(x[i] - gamma * z[i], gamma) for i in range(n)]
        v = [gradient(i, x[i], k + 1, 0) for i in range(n)]
        used = [u[i] + v[i] - v_old[i] for i in range(n)] if tracking else v
        z = mix(weights, [(1 - a) * z[i] + a * used[i] for i in range(n)], rounds)
        x = mix(weights, [(1 - a) * x[i] + a * y[i] for i in range(n)], rounds)
        if tracking:
            u = mix(weights, used, rounds)
        v_old, k = v, k + 1
        yield x


def mean(rows: list[Vector]) -> Vector:
    found: Vector = np.mean(rows, axis=0)
    return found


def prox_sgd(
    x0: list[Vector], gradient: Noisy, prox: Prox, *, alpha: float
) -> Iterator[list[Vector]]:
    """One model, the agents' gradients averaged, alpha / sqrt(k) for k = 1, 2, ..."""
    n, x, k = len(x0), mean(x0), 0
    while True:
        k += 1
        step = alpha / k**0.5
        x = prox(x - step * mean([gradient(i, x, k, 0) for i in range(n)]), step)
        yield [x] * n


def prox_storm(
    x0: list[Vector],
    gradient: Noisy,
    prox: Prox,
    *,
    alpha: float,
    k0: int,
    beta: float,
) -> Iterator[list[Vector]]:
    """One model and one STORM estimator of the average of the f_i."""
    n, x, k = len(x0), mean(x0), 0
    v = mean([gradient(i, x, 0, 0) for i in range(n)])
    while True:
        a, a_next = alpha / (k + k0) ** (1 / 3), alpha / (k + 1 + k0) ** (1 / 3)
        b = min(1.0, 1 - a_next / a + beta * a_next**2)
        new = prox(x - a * v, a)
        fresh = mean([gradient(i, new, k + 1, 0) for i in range(n)])
        stale = mean([gradient(i, x, k + 1, 0) for i in range(n)])
        x, v, k = new, fresh + (1 - b) * (v - stale), k + 1
        yield [x] * n


# -- relatives: RELATIVES.md, section 13 ----------------------------------------------


def around(n: int, edges: list[tuple[int, int]]) -> list[list[int]]:
    """The neighbors of every agent."""
    return [[j for e in edges if i in e for j in e if j != i] for i in range(n)]


def pulled(x: list[Vector], neighbors: list[list[int]]) -> list[Vector]:
    """Row i: sum over neighbors of x_i - x_j."""
    zero = np.zeros_like(x[0])
    return [
        sum((x[i] - x[j] for j in neighbors[i]), zero.copy()) for i in range(len(x))
    ]


def dpga(
    edges: list[tuple[int, int]],
    x0: list[Vector],
    gradient: Noisy,
    prox: Prox,
    *,
    rho: float,
    smoothness: float,
    growth: float = 0.0,
    l1: float | None = None,
) -> Iterator[list[Vector]]:
    """Section 13.1; with `l1`, DLM: its subgradient in place of the prox."""
    n, x, k = len(x0), list(x0), 0
    neighbors = around(n, edges)
    p = [np.zeros_like(row) for row in x0]
    lx = pulled(x, neighbors)
    while True:
        new = []
        for i in range(n):
            eta = smoothness + 2 * rho * len(neighbors[i]) + growth * k**0.5
            g = gradient(i, x[i], k + 1, 0)
            if l1 is not None:
                g = g + l1 * np.sign(x[i])
            moved = x[i] - (g - p[i] + rho * lx[i]) / eta
            new.append(prox(moved, 1 / eta) if l1 is None else moved)
        x, k = new, k + 1
        lx = pulled(x, neighbors)
        p = [p[i] - rho * lx[i] for i in range(n)]
        yield x


def prox_ed(
    weights: Weights, x0: list[Vector], gradient: Noisy, prox: Prox, *, alpha: float
) -> Iterator[list[Vector]]:
    """Section 13.6 (a) with alpha / sqrt(k + 1), k = 0, 1, ..."""
    n, x, k = len(x0), x0, 0
    c = [np.zeros_like(row) for row in x0]
    while True:
        step = alpha / (k + 1) ** 0.5
        phi = [x[i] - step * (gradient(i, x[i], k + 1, 0) + c[i]) for i in range(n)]
        mixed = mix(weights, phi)
        z = [(phi[i] + mixed[i]) / 2 for i in range(n)]
        c = [c[i] + (phi[i] - z[i]) / step for i in range(n)]
        x, k = [prox(z[i], step) for i in range(n)], k + 1
        yield x


def linearized_admm(
    edges: list[tuple[int, int]],
    x0: list[Vector],
    gradient: Noisy,
    prox: Prox,
    *,
    rho: float,
    c_eta: float,
    smoothness: float,
) -> Iterator[list[Vector]]:
    """Section 13.2."""
    n, x, k = len(x0), list(x0), 0
    neighbors = around(n, edges)
    p, b = ([np.zeros_like(row) for row in x0] for _ in range(2))
    while True:
        k += 1
        lx, new = pulled(x, neighbors), []
        y = [prox(x[i] - b[i] / rho, 1 / rho) for i in range(n)]
        for i in range(n):
            eta = c_eta * (len(neighbors[i]) + 1) + smoothness
            direction = gradient(i, x[i], k, 0) - p[i] - b[i]
            direction = direction + rho * (lx[i] + x[i] - y[i])
            new.append(x[i] - direction / eta)
        x, lx = new, pulled(new, neighbors)
        b = [b[i] - rho * (x[i] - y[i]) for i in range(n)]
        p = [p[i] - rho * lx[i] for i in range(n)]
        yield x


def cdprox_sgt(
    weights: Weights,
    x0: list[Vector],
    gradient: Noisy,
    prox: Prox,
    *,
    alpha: float,
    gain_x: float,
    gain_y: float,
    compress: Callable[[Vector, int], Vector],
) -> Iterator[list[Vector]]:
    """Section 13.6 (c); every agent keeps what its neighbors know of it."""
    n, x, k = len(x0), list(x0), 0
    y, g_old, x_hat, y_hat = ([np.zeros_like(row) for row in x0] for _ in range(4))
    while True:
        k += 1
        g = [gradient(i, x[i], k, 0) for i in range(n)]
        y = [y[i] + g[i] - g_old[i] for i in range(n)]
        y_hat = [y_hat[i] + compress(y[i] - y_hat[i], k) for i in range(n)]
        mixed = mix(weights, y_hat)
        y = [y[i] + gain_y * (mixed[i] - y_hat[i]) for i in range(n)]
        x = [prox(x[i] - alpha * y[i], alpha) for i in range(n)]
        x_hat = [x_hat[i] + compress(x[i] - x_hat[i], k) for i in range(n)]
        mixed = mix(weights, x_hat)
        x = [x[i] + gain_x * (mixed[i] - x_hat[i]) for i in range(n)]
        g_old = g
        yield x


def sm_admm(
    x0: list[Vector],
    gradient: Noisy,
    prox: Prox,
    *,
    c_rho: float,
    c_eta: float,
    c_a: float,
) -> Iterator[list[Vector]]:
    """Section 13.5: one model, the agents' gradients averaged, k from 1."""
    n, x, k = len(x0), mean(x0), 0
    v = mean([gradient(i, x, 0, 0) for i in range(n)])
    b = np.zeros_like(x)
    while True:
        k += 1
        rho, eta = c_rho * k ** (1 / 3), c_eta * k ** (1 / 3)
        a = min(1.0, c_a * (k + 1) ** (-2 / 3))
        y = prox(x - b / rho, 1 / rho)
        new = x - (v - b + rho * (x - y)) / eta
        fresh = mean([gradient(i, new, k, 0) for i in range(n)])
        stale = mean([gradient(i, x, k, 0) for i in range(n)])
        x, v = new, fresh + (1 - a) * (v - stale)
        b = b - rho * (x - y)
        yield [x] * n


def depositum(
    weights: Weights,
    x0: list[Vector],
    gradient: Noisy,
    prox: Prox,
    *,
    alpha: float,
    momentum: float,
    period: int,
) -> Iterator[list[Vector]]:
    """Section 13.6 (b), t = 0, 1, ..."""
    n, x, t = len(x0), list(x0), 0
    g = [gradient(i, x[i], 0, 0) for i in range(n)]
    y, m = list(g), [np.zeros_like(row) for row in x0]
    while True:
        rounds = 1 if (t + 1) % period == 0 else 0
        m = [momentum * m[i] + (1 - momentum) * y[i] for i in range(n)]
        z = [prox(x[i] - alpha * m[i], alpha) for i in range(n)]
        x = mix(weights, z, rounds)
        new = [gradient(i, x[i], t + 1, 0) for i in range(n)]
        y = mix(weights, [y[i] + new[i] - g[i] for i in range(n)], rounds)
        g, t = new, t + 1
        yield x


def pg_extra(
    weights: Weights, x0: list[Vector], gradient: Noisy, prox: Prox, *, alpha: float
) -> Iterator[list[Vector]]:
    """Section 13.1, the published recursion over two iterates and two gradients."""
    n, old = len(x0), list(x0)
    g_old = [gradient(i, old[i], 1, 0) for i in range(n)]
    mixed_old = mix(weights, old)
    half = [mixed_old[i] - alpha * g_old[i] for i in range(n)]
    x, k = [prox(half[i], alpha) for i in range(n)], 1
    yield x
    while True:
        k += 1
        g, mixed = [gradient(i, x[i], k, 0) for i in range(n)], mix(weights, x)
        half = [
            mixed[i] + half[i] - (old[i] + mixed_old[i]) / 2 - alpha * (g[i] - g_old[i])
            for i in range(n)
        ]
        old, mixed_old, g_old = x, mixed, g
        x = [prox(half[i], alpha) for i in range(n)]
        yield x


def perturbed_admm(
    edges: list[tuple[int, int]],
    x0: list[Vector],
    gradient: Noisy,
    prox: Prox,
    *,
    rho: float,
    beta: float,
    smoothness: float,
    decay: bool,
) -> Iterator[list[Vector]]:
    """Section 13.4, edge by edge: a multiplier for each direction of each edge."""
    n, x, k = len(x0), list(x0), 0
    neighbors = around(n, edges)
    y, b = list(x0), [np.zeros_like(row) for row in x0]
    edge = {(i, j): np.zeros_like(x0[0]) for i in range(n) for j in neighbors[i]}
    while True:
        k += 1
        kappa = 1 - rho * (beta / k if decay else beta)
        new = []
        for i in range(n):
            eta = 1.5 * rho * (len(neighbors[i]) + 1) + smoothness / 2
            direction = gradient(i, x[i], k, 0) - kappa * b[i] + rho * (x[i] - y[i])
            for j in neighbors[i]:
                direction = direction - kappa * edge[i, j] + rho * (x[i] - x[j])
            new.append(x[i] - direction / eta)
        x = new
        y = [prox(x[i] - kappa * b[i] / rho, 1 / rho) for i in range(n)]
        edge = {
            (i, j): kappa * price - rho * (x[i] - x[j])
            for (i, j), price in edge.items()
        }
        b = [kappa * b[i] - rho * (x[i] - y[i]) for i in range(n)]
        yield x


def penalty_admm(
    edges: list[tuple[int, int]],
    x0: list[Vector],
    gradient: Noisy,
    prox: Prox,
    *,
    tau: float,
    rho: float,
    smoothness: float,
) -> Iterator[list[Vector]]:
    """Section 13.3."""
    n, x, k = len(x0), list(x0), 0
    neighbors = around(n, edges)
    b = [np.zeros_like(row) for row in x0]
    while True:
        k += 1
        y = [prox(x[i] - b[i] / rho, 1 / rho) for i in range(n)]
        lx, new = pulled(x, neighbors), []
        for i in range(n):
            eta = smoothness + tau * len(neighbors[i]) + rho
            direction = gradient(i, x[i], k, 0) + tau * lx[i]
            direction = direction - b[i] + rho * (x[i] - y[i])
            new.append(x[i] - direction / eta)
        x = new
        b = [b[i] - rho * (x[i] - y[i]) for i in range(n)]
        yield x
