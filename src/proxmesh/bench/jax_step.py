"""The same HSM-ADMM step written in JAX: one `jit` of a `scan` over iterations."""

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from proxmesh.bench.tasks import L1_WEIGHT, Task

__all__ = ["jax_iterations", "jax_run"]

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
SCANNED = 100


def jax_run(task: Task) -> Callable[[int], dict[str, np.ndarray]]:
    """Return a function that makes so many iterations from the task's state.

    For the two-layer network of `tasks.mlp`. Batch indices are drawn beforehand, as
    ours are; the two gradients are taken one after the other, the fastest of the three
    ways that were tried in JAX (together in one vmap, as twice the rows).
    """
    os.environ.setdefault("XLA_FLAGS", ONE_THREAD)
    import jax
    import jax.numpy as jnp

    problem, algorithm, state = task.problem, task.algorithm, task.state
    sizes = np.cumsum(problem.layout.sizes)[:-1].tolist()
    shapes = [tuple(shape) for shape in problem.layout.shapes]
    all_rows = torch.arange(problem.num_samples)[None]
    samples = problem.local_shards.samples.take(all_rows)
    data = jnp.asarray(samples.inputs[0][0].numpy())
    labels = jnp.asarray(samples.targets[0].numpy())
    laplacian = jnp.asarray(task.world.laplacian.numpy())
    degree = jnp.asarray(task.world.degree.numpy())
    start = int(state.k)
    drawn = [
        problem.local_shards.sampler.indices(start + 1 + i, problem.batch_size)
        for i in range(SCANNED)
    ]
    indices = jnp.asarray(torch.stack(drawn).numpy().astype(np.int32))

    def loss(row: Any, x: Any, y: Any) -> Any:
        parts = jnp.split(row, sizes)
        w1, b1, w2, b2 = (
            part.reshape(s) for part, s in zip(parts, shapes, strict=True)
        )
        scores = jnp.tanh(x @ w1.T + b1) @ w2.T + b2
        chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], 1)
        return -chosen.mean()

    gradient = jax.vmap(jax.grad(loss))

    def step(s: Any, rows: Any) -> Any:
        k = s["k"] + 1
        root = k.astype(jnp.float32) ** (1 / 3)
        rho, eta = algorithm.c_rho * root, algorithm.c_eta * root * (degree + 1)
        a = jnp.minimum(1.0, algorithm.c_a * (k + 1.0) ** (-2 / 3))
        z = s["x"] - s["beta"] / rho
        y = jnp.sign(z) * jnp.maximum(jnp.abs(z) - L1_WEIGHT / rho, 0)
        pull = s["v"] - s["alpha_sum"] - s["beta"] + rho * (s["lx"] + s["x"] - y)
        x = s["x"] - pull / eta
        inputs, targets = data[rows], labels[rows]
        fresh, stale = gradient(x, inputs, targets), gradient(s["x"], inputs, targets)
        lx = laplacian @ (x - x[:1])
        following = {
            "k": k,
            "x": x,
            "y": y,
            "v": fresh + (1 - a) * (s["v"] - stale),
            "lx": lx,
            "alpha_sum": s["alpha_sum"] - rho * lx,
            "beta": s["beta"] - rho * (x - y),
        }
        return following, None

    names = ("x", "y", "v", "lx", "alpha_sum", "beta")
    first = {name: jnp.asarray(getattr(state, name).numpy()) for name in names}
    first["k"] = jnp.asarray(start, jnp.int32)
    scan = jax.jit(lambda s, rows: jax.lax.scan(step, s, rows)[0])

    def run(iterations: int) -> dict[str, np.ndarray]:
        found: Any = scan(first, indices[:iterations])
        return {name: np.asarray(value) for name, value in found.items()}

    return run


def jax_iterations(run: Callable[[int], Any]) -> Callable[[int], float]:
    """Return what `in_turns` calls: seconds of an iteration within whole scans."""

    def timed(repetitions: int) -> float:
        scans = max(1, repetitions // SCANNED)
        begin = time.perf_counter()
        for _ in range(scans):
            run(SCANNED)
        return (time.perf_counter() - begin) / (scans * SCANNED)

    return timed
