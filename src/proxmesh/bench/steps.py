"""An iteration against the work it cannot avoid, and against other ways to write it."""

from collections.abc import Callable
from importlib.util import find_spec

import torch

from proxmesh.bench.jax_step import jax_iterations, jax_run
from proxmesh.bench.plain_loop import PlainLoop
from proxmesh.bench.report import Measurement, Ratio
from proxmesh.bench.tasks import Task, lenet, mlp
from proxmesh.bench.timing import Effort, Times, in_turns, seconds_of

__all__ = ["convolutional_step", "dense_step"]


def dense_step(effort: Effort) -> Measurement:
    """a9a/MLP, 8 agents, batch 64: eager, compiled, loops, JAX, bare products."""
    agents, batch = (4, 16) if effort.quick else (8, 64)
    task = mlp(agents, batch)
    columns = _columns(task)
    columns["compiled"] = task.iterating(task.compiled())
    sparse = mlp(agents, batch, sparse="auto")
    columns["compiled, sparse"] = sparse.iterating(sparse.compiled())
    columns["products"] = seconds_of(_products(task))
    notes = []
    if find_spec("jax") is None:
        notes.append("JAX is left out: not installed (pip install 'proxmesh[bench]').")
    else:
        run = jax_run(task)
        ours = task.step(task.state)
        for name in ("x", "v", "beta"):  # it must do the same work
            torch.testing.assert_close(
                torch.from_numpy(run(1)[name].copy()),
                getattr(ours, name),
                rtol=1e-4,
                atol=1e-5,
            )
        columns["jax"] = jax_iterations(run)
    times = in_turns(columns, effort)
    ratios = [
        _ratio(times, "iteration", "gradients", at_most=1.3),
        _ratio(times, "loop", "compiled", at_least=12.0),
        _ratio(times, "flat loop", "compiled"),
        _ratio(times, "iteration", "compiled"),
        _ratio(times, "compiled", "products"),
    ]
    if "jax" in times:
        ratios.insert(1, _ratio(times, "compiled", "jax", at_most=1.15))
        ratios.insert(2, _ratio(times, "compiled, sparse", "jax", at_most=0.7))
    return Measurement(
        "step",
        f"a9a/MLP, {agents} agents on a ring, batch {batch}",
        measured=times,
        ratios=ratios,
        notes=notes,
    )


def convolutional_step(effort: Effort) -> Measurement:
    """LeNet, 8 agents, batch 32: the chosen way against a loop."""
    task = lenet(images=40 if effort.quick else 500)
    columns = _columns(task)
    for way in ("vmap", "channels"):
        for paired in (True, False):
            columns[f"{way}{', paired' if paired else ''}"] = seconds_of(
                _pair(task, way, paired)
            )
    times = in_turns(columns, effort)
    chosen = task.problem.way + (", paired" if task.problem.paired else "")
    return Measurement(
        "lenet",
        "LeNet, 8 agents on random_8, batch 32",
        measured=times,
        ratios=[
            _ratio(times, "iteration", "gradients"),
            _ratio(times, "loop", "iteration", at_least=2.0),
            _ratio(times, "flat loop", "iteration"),
        ],
        notes=[f"Chosen by calibration: {chosen}."],
    )


def _columns(task: Task) -> dict[str, Callable[[int], float]]:
    loop, flat = PlainLoop(task), PlainLoop(task, flat=True)
    following = task.step(task.state)
    for plain in (loop, flat):  # all must do the same work
        plain.step()
        torch.testing.assert_close(plain.rows(), following.x, rtol=1e-4, atol=1e-5)
    problem, x, batch = task.problem, task.state.x, task.problem.sample(7)
    return {
        "iteration": task.iterating(task.step),
        "gradients": seconds_of(
            lambda: (problem.grad(x, batch), problem.grad(x, batch))
        ),
        "loop": seconds_of(loop.step),
        "flat loop": seconds_of(flat.step),
    }


def _pair(task: Task, way: str, paired: bool) -> Callable[[], object]:
    gradients = task.problem.ways.by(way, paired)  # type: ignore[arg-type]
    x, batch = task.state.x, task.problem.sample(7)
    return lambda: gradients.grad_pair(x, x, batch)


def _products(task: Task) -> Callable[[], object]:
    """The products of both gradients and of the neighbor sum, on ready operands."""
    n, batch = task.graph.n, task.problem.batch_size
    (hidden, features), _, (classes, _), _ = task.problem.layout.shapes
    w1, w2 = torch.randn(n, hidden, features), torch.randn(n, classes, hidden)
    x, h = torch.randn(n, batch, features), torch.randn(n, batch, hidden)
    g = torch.randn(n, batch, classes)
    rows, laplacian = task.state.x, task.world.laplacian

    def multiply() -> None:
        for _ in range(2):
            torch.bmm(x, w1.mT)
            torch.bmm(h, w2.mT)
            torch.bmm(g.mT, h)
            torch.bmm(g, w2)
            torch.bmm(h.mT, x)
        torch.mm(laplacian, rows)

    return multiply


def _ratio(
    times: Times,
    above: str,
    below: str,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Ratio:
    value = times[above].median / times[below].median
    return Ratio(f"{above} / {below}", value, at_most, at_least)
