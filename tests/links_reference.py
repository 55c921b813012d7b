"""HSM-ADMM on imperfect links, agent by agent and edge by edge: slow and literal."""

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

MASK = 0xFFFFFFFF
Vector = Any


def scrambled(h: int) -> int:
    h ^= h >> 16
    h = (h * 0x21F0AAAD) & MASK
    h ^= h >> 15
    h = (h * 0x735A2D97) & MASK
    return h ^ (h >> 15)


def key_of(seed: int, kind: str, index: int, ids: tuple[int, ...]) -> int:
    """What is drawn from for these ids."""
    words = [zlib.crc32(b"links"), zlib.crc32(kind.encode()), index]
    start = np.random.SeedSequence([seed, len(words), *words]).generate_state(1)[0]
    key = scrambled(int(start))
    for one in ids:
        key = scrambled((scrambled(key ^ one) + one * 0x85EBCA6B) & MASK)
    return key


def drawn(key: int, place: int) -> int:
    return scrambled((scrambled(key ^ place) + scrambled(key + 1)) & MASK)


def bits(seed: int, kind: str, index: int, ids: tuple[int, ...], k: int, s: int) -> int:
    """The 32 bits that are drawn for these ids in iteration k, exchange s."""
    return drawn(scrambled(key_of(seed, kind, index, ids) ^ k), s)


def is_drawn(chance: float, *what: Any) -> bool:
    return bits(*what) < round(chance * (MASK + 1))


class Skip:
    """Both ends leave an edge out; `up(i, j, k)` tells when it is there."""

    def __init__(self, up: Callable[[int, int, int], bool]) -> None:
        self.up = up

    def pair(self, i: int, j: int, k: int, x: list[list[Vector]]) -> Any:
        return (x[k][i], x[k][j]) if k == 0 or self.up(i, j, k) else None


class Late:
    """Both ends use the pair of `tau(i, j)` iterations ago."""

    def __init__(self, tau: Callable[[int, int], int]) -> None:
        self.tau = tau

    def pair(self, i: int, j: int, k: int, x: list[list[Vector]]) -> Any:
        then = max(0, k - self.tau(i, j))
        return x[then][i], x[then][j]


class Talks(Late):
    """Both ends use the pair of the last talk."""

    def __init__(self, every: int) -> None:
        self.every = every

    def pair(self, i: int, j: int, k: int, x: list[list[Vector]]) -> Any:
        then = k - k % self.every
        return x[then][i], x[then][j]


class References:
    """Each edge has a reference of both ends, moved by compressed differences."""

    def __init__(
        self, compress: Callable[[Vector], Vector], up: Callable[[int, int, int], bool]
    ) -> None:
        self.compress, self.up = compress, up
        self.known: dict[tuple[int, int], Vector] = {}
        self.at: dict[tuple[int, int], int] = {}

    def pair(self, i: int, j: int, k: int, x: list[list[Vector]]) -> Any:
        for a, b in ((i, j), (j, i)):
            if k == 0:
                self.known[a, b] = x[0][a].copy()
            elif self.at[a, b] < k and self.up(i, j, k):
                self.known[a, b] = self.known[a, b] + self.compress(
                    x[k][a] - self.known[a, b]
                )
            self.at[a, b] = k
        if k and not self.up(i, j, k):
            return None
        return self.known[i, j], self.known[j, i]


def hsm_admm(
    edges: list[tuple[int, int]],
    x0: list[Vector],
    grad: Callable[[int, Vector], Vector],
    prox: Callable[[Vector, float], Vector],
    link: Any,
    *,
    c_rho: float,
    c_eta: float,
    gain: float,
    fresh: bool,
    awake: Callable[[int, int], bool] = lambda _i, _k: True,
) -> Iterator[list[Vector]]:
    """Exact gradients; a multiplier for each end of each edge."""
    n = len(x0)
    near: list[list[int]] = [[] for _ in range(n)]
    for i, j in edges:
        near[i].append(j)
        near[j].append(i)
    past = [[row.copy() for row in x0]]
    alpha = {(i, j): np.zeros_like(x0[i]) for i in range(n) for j in near[i]}
    beta = [np.zeros_like(row) for row in x0]
    force = _forces(near, link, 0, past, fresh)[1]
    k = 0
    while True:
        k += 1
        rho = c_rho * k ** (1 / 3)
        old, new, ys = past[-1], [], []
        for i in range(n):
            eta = c_eta * (len(near[i]) + 1) * k ** (1 / 3)
            y = prox(old[i] - beta[i] / rho, 1 / rho)
            dual = sum(alpha[i, j] for j in near[i])
            pushed = rho * (force[i] + old[i] - y)
            step = (grad(i, old[i]) - dual - beta[i] + pushed) / eta
            new.append(old[i] - step if awake(i, k) else old[i])
            ys.append(y)
        past.append(new)
        deltas, pulled = _forces(near, link, k, past, fresh)
        for i in range(n):
            if not awake(i, k):
                continue
            force[i] = pulled[i]
            beta[i] = beta[i] - rho * (new[i] - ys[i])
            for j in near[i]:
                alpha[i, j] = alpha[i, j] - gain * rho * deltas[i, j]
        yield new


def _forces(near: Any, link: Any, k: int, past: Any, fresh: bool) -> Any:
    deltas, pulled = {}, []
    for i in range(len(near)):
        total = np.zeros_like(past[k][i])
        for j in near[i]:
            pair = link.pair(i, j, k, past)
            deltas[i, j] = total * 0 if pair is None else pair[0] - pair[1]
            total = total + deltas[i, j]
            if pair is not None and fresh:
                total = total + past[k][i] - pair[0]
        pulled.append(total)
    return deltas, pulled
