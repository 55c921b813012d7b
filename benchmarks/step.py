"""Time of an HSM-ADMM iteration against the work it cannot avoid.

    python benchmarks/step.py [--rounds 15]

One thread, one process, all columns measured in turns so that a busy machine slows all
of them alike; medians. For a9a/MLP (8 agents, batch 64) and MNIST/LeNet (8 agents,
batch 32; random pixels of the same shape):

- iteration: one call of `HSMADMM.step`, sampling and gathering included
- gradients: its two bare gradient evaluations, one after the other, on a ready batch
- compiled: the same call under `torch.compile`
- loop: the same iteration as a plain Python loop over agents and their tensors
- flat loop: a leaner one, whose updates run on one flat vector an agent

The ratio iteration / gradients must be at most 1.3. How many times slower the loop is
than ours is printed for both ways to run us.
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import proxmesh as pm
from proxmesh.algorithms.hsm_admm import HSMADMMState
from proxmesh.problems.shards import Samples

AGENTS = 8


def problems() -> dict[str, tuple[pm.LearningProblem, nn.Module, pm.Graph]]:
    a9a = pm.datasets.a9a()
    pixels = torch.randn(AGENTS * 500, 1, 28, 28)
    labels = torch.arange(AGENTS * 500) % 10
    images = [(pixels[i::AGENTS], labels[i::AGENTS]) for i in range(AGENTS)]
    made = {}
    for name, model, shards, batch, graph in (
        ("a9a/mlp", pm.models.mlp(123, 2), a9a.split(AGENTS), 64, pm.graphs.ring(8)),
        ("mnist/lenet", pm.models.lenet(), images, 32, pm.graphs.random_8()),
    ):
        problem = pm.LearningProblem(
            model,
            nn.functional.cross_entropy,
            shards,
            regularizer=pm.L1(1e-4),
            batch_size=batch,
        )
        made[name] = (problem, model, graph)
    return made


class PlainLoop:
    """HSM-ADMM as the field's scripts write it: agent by agent, tensor by tensor."""

    def __init__(
        self, state: HSMADMMState, problem: pm.LearningProblem, model: nn.Module,
        graph: pm.Graph, algorithm: pm.HSMADMM, *, flat: bool = False,
    ) -> None:  # fmt: skip
        self.flat = flat  # one vector an agent in the updates, a leaner loop
        self.problem, self.algorithm = problem, algorithm
        self.neighbors = [
            list(graph.to_networkx().neighbors(i)) for i in range(graph.n)
        ]
        self.models = [copy.deepcopy(model) for _ in range(graph.n)]
        self.x, self.v, self.p, self.b = (
            [self._parts(row.clone()) for row in rows]
            for rows in (state.x, state.v, state.alpha_sum, state.beta)
        )
        self.k = int(state.k)

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
                y = nn.functional.softshrink(x - b / rho, 1e-4 / rho)
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


def timed(function: Callable[[], object], repeats: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        function()
    return (time.perf_counter() - begin) / repeats * 1e3


def measure(name: str, rounds: int) -> None:
    problem, model, graph = problems()[name]
    algorithm, world = pm.HSMADMM(), pm.connect(graph)
    state = algorithm.init(problem.x0(), problem, world)
    for _ in range(5):
        state = algorithm.step(state, problem, world)
    batch, x_old = problem.sample(7), state.x + 1e-3
    loop = PlainLoop(state, problem, model, graph, algorithm)
    flat = PlainLoop(state, problem, model, graph, algorithm, flat=True)

    following = algorithm.step(state, problem, world)
    for plain in (loop, flat):  # all must do the same work
        plain.step()
        torch.testing.assert_close(plain.rows(), following.x, rtol=1e-4, atol=1e-5)

    compiled = torch.compile(
        lambda state: algorithm.step(state, problem, world),
        fullgraph=True,
        dynamic=False,
    )
    torch.testing.assert_close(compiled(state).x, following.x, rtol=1e-4, atol=1e-5)
    columns: dict[str, Callable[[], object]] = {
        "iteration": lambda: algorithm.step(state, problem, world),
        "gradients": lambda: (problem.grad(state.x, batch), problem.grad(x_old, batch)),
        "compiled": lambda: compiled(state),
        "loop": loop.step,
        "flat loop": flat.step,
    }
    repeats = max(1, round(150 / timed(columns["gradients"], 3)))
    times: dict[str, list[float]] = {column: [] for column in columns}
    for _ in range(rounds):
        for column, function in columns.items():
            times[column].append(timed(function, repeats))
    typical = {column: statistics.median(found) for column, found in times.items()}
    shown = "  ".join(f"{column} {ms:6.2f} ms" for column, ms in typical.items())
    print(f"{name:12} {shown}")
    for label, above, below in (
        ("iteration / gradients", "iteration", "gradients"),
        ("loop / iteration", "loop", "iteration"),
        ("loop / compiled", "loop", "compiled"),
        ("flat loop / iteration", "flat loop", "iteration"),
        ("flat loop / compiled", "flat loop", "compiled"),
    ):
        print(f"{'':12} {label:22} {typical[above] / typical[below]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    for name in ("a9a/mlp", "mnist/lenet"):
        measure(name, rounds)


if __name__ == "__main__":
    main()
