"""Asynchronous HSM-ADMM, agent by agent and message by message: slow and literal."""

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np

Vector = Any


def soft(z: Vector, t: float) -> Vector:
    return np.sign(z) * np.maximum(abs(z) - t, 0)


class Agent:
    """One agent: its variables, all that it ever was, and what it has heard."""

    def __init__(self, x: Vector, grad: Callable[[Vector], Vector]) -> None:
        self.clock, self.steps = 0, 0
        self.x, self.y, self.beta = x, x, 0 * x
        self.grad, self.v = grad, grad(x)
        self.z_at = {0: 0 * x}  # Z and x at every tick, also those it stood still at
        self.x_at = {0: x}
        self.heard: dict[int, tuple[int, Vector]] = {}

    def stand_still(self, clock: int, gain: float, rho: Any) -> None:
        for t in range(max(self.x_at) + 1, clock + 1):
            self.x_at[t] = self.x_at[t - 1]
            self.z_at[t] = self.z_at[t - 1] + gain * rho(t) * self.x_at[t]


def reference(
    neighbors: list[list[int]],
    x0: list[Vector],
    grads: list[Callable[[Vector], Vector]],
    *,
    l1: float,
    rho: Callable[[int], float],
    eta: Callable[[int, int], float],
    gain: float,
    periods: list[int],
    delay: Callable[[int, int, int], int],
    most_behind: int,
    end: int,
) -> tuple[list[Vector], list[int], float]:
    """All x, every agent's own steps, and the time that it took."""
    agents = [Agent(x, grad) for x, grad in zip(x0, grads, strict=True)]
    for i, near in enumerate(neighbors):
        agents[i].heard = {j: (0, rho(1) * agents[j].x) for j in near}
    events: list[Any] = []
    number = now = 0
    waiting: set[int] = set()

    def add(time: float, kind: int, i: int, what: Any = None) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (time, kind, i, number, what))

    for i in range(len(agents)):
        add(periods[i], 1, i)
    while min(agent.clock for agent in agents) < end:
        now, kind, i, _, what = heapq.heappop(events)
        me = agents[i]
        if kind == 0:
            j, t, u = what
            if t > me.heard[j][0]:
                me.heard[j] = t, u
        oldest = min(t for t, _ in me.heard.values())
        late = me.clock + 1 - oldest > most_behind
        if kind == 0:
            if i in waiting and not late:
                waiting.discard(i)
                add(now, 1, i)
            continue
        if late:
            waiting.add(i)
            continue
        k = max(me.clock + 1, *(t for t, _ in me.heard.values()))
        me.stand_still(k, gain, rho)
        force = 0 * me.x
        for t, u in me.heard.values():
            own = me.z_at[t] + rho(t + 1) * me.x_at[t]
            force = force + own - u + rho(k) * (me.x - me.x_at[t])
        me.y = soft(me.x - me.beta / rho(k), l1 / rho(k))
        pull = me.v + force - me.beta + rho(k) * (me.x - me.y)
        me.x = me.x - pull / eta(k, len(neighbors[i]))
        me.beta = me.beta - rho(k) * (me.x - me.y)
        me.v, me.clock, me.steps = me.grad(me.x), k, me.steps + 1
        me.x_at[k] = me.x
        me.z_at[k] = me.z_at[k - 1] + gain * rho(k) * me.x
        for j in neighbors[i]:
            told = i, k, me.z_at[k] + rho(k + 1) * me.x
            add(now + delay(i, j, k), 0, j, told)
        if k < end:
            add(now + periods[i], 1, i)
    return [a.x for a in agents], [a.steps for a in agents], now
