"""Models that people train: a transformer, a residual network, 20 million parameters.

    python benchmarks/models.py [--only NAMES] [--rounds 5] [--quick]

`transformer` and `resnet`: two gradients of all agents on one batch, together and in a
loop over the agents, in turns, medians. `large`: an MLP of 20 million parameters with 4
agents; a step and the search for constants against gradients, and the memory of both
beyond what the process held before, in rows of n x p numbers. Its times are of the
processor, not of the clock: page faults count, other processes do not.

One thread, eager. `--quick` takes small models and one round: does it work?
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import proxmesh as pm
from proxmesh.bench.memory import held_before, peak_bytes

PARTS = ("transformer", "resnet", "large")
CLASSES = 10


@dataclass(frozen=True)
class Goal:
    """A number with its limit."""

    name: str
    value: float
    at_most: float | None = None
    at_least: float | None = None

    def __str__(self) -> str:
        if self.at_most is not None:
            kept, limit = self.value <= self.at_most, f"at most {self.at_most:g}"
        elif self.at_least is not None:
            kept, limit = self.value >= self.at_least, f"at least {self.at_least:g}"
        else:
            return f"| {self.name} | {self.value:.3g} | |"
        return (
            f"| {self.name} | {self.value:.3g} | {limit}{'' if kept else ': missed'} |"
        )


class Encoder(nn.Module):
    """Like ViT: patches of an image, two encoder layers, the mean of the tokens."""

    def __init__(self, tokens: int = 16, d: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.patches = nn.Linear(48, d)
        self.position = nn.Parameter(0.02 * torch.randn(tokens, d))
        layer = nn.TransformerEncoderLayer(
            d, heads, 4 * d, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(d, CLASSES)

    def forward(self, images: Tensor) -> Any:
        """Scores of images that are cut into patches, ``[b, tokens, 48]``."""
        return self.head(self.layers(self.patches(images) + self.position).mean(1))


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, narrow: int, wide: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(narrow, wide, 3, stride, 1, bias=False)
        self.norm = nn.GroupNorm(4, wide)
        self.second = nn.Conv2d(wide, wide, 3, 1, 1, bias=False)
        self.norm_after = nn.GroupNorm(4, wide)
        self.around: nn.Module = nn.Identity()
        if stride > 1 or narrow != wide:
            self.around = nn.Conv2d(narrow, wide, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways."""
        inner = self.norm(self.first(x)).relu()
        both: Tensor = self.norm_after(self.second(inner)) + self.around(x)
        return both.relu()


def resnet(width: int) -> nn.Module:
    """ResNet-18 with GroupNorm: four stages of two blocks."""
    stages = [Block(width, width, 1), Block(width, width, 1)]
    for i in range(3):
        narrow, wide = width * 2**i, width * 2 ** (i + 1)
        stages += [Block(narrow, wide, 2), Block(wide, wide, 1)]
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 1, 1, bias=False),
        nn.GroupNorm(4, width),
        nn.ReLU(),
        *stages,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8 * width, CLASSES),
    )


def mlp(width: int) -> nn.Module:
    """Three hidden layers; 20 million parameters at width 2,960."""
    hidden = [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(
        nn.Linear(784, width),
        nn.ReLU(),
        *hidden,
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, CLASSES),
    )


def problem_of(
    model: nn.Module, shape: tuple[int, ...], agents: int, batch: int, **options: Any
) -> pm.LearningProblem:
    """The model on random samples: only their shapes matter here."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(2 * batch) % CLASSES
    shards = [
        (torch.randn(2 * batch, *shape, generator=draw), labels) for _ in range(agents)
    ]
    return pm.LearningProblem(
        model, nn.functional.cross_entropy, shards, batch_size=batch, **options
    )


def in_turns(work: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each, one after the other, again and again."""
    found: dict[str, list[float]] = {name: [] for name in work}
    for function in work.values():
        function()  # whatever happens once
    for _ in range(rounds):
        for name, function in work.items():
            begin = time.perf_counter()
            function()
            found[name].append(time.perf_counter() - begin)
    return {name: statistics.median(times) for name, times in found.items()}


def against_loop(
    name: str,
    model: nn.Module,
    shape: tuple[int, ...],
    sizes: tuple[int, int],
    rounds: int,
) -> tuple[dict[str, float], pm.LearningProblem]:
    """Two gradients of all agents at once, and agent by agent."""
    together = problem_of(model, shape, *sizes)
    alone = problem_of(model, shape, *sizes, vectorize=False)
    x, batch = together.x0(), together.sample(1)
    y = x + 1e-3
    times = in_turns(
        {
            "together": lambda: together.grad_pair(x, y, batch),
            "loop": lambda: alone.grad_pair(x, y, batch),
        },
        rounds,
    )
    print(f"{name}: {together.p:,} parameters, {sizes[0]} agents, batch {sizes[1]}")
    print(f"by {together.way}, paired {together.paired}: ", end="")
    print(", ".join(f"{n} {1e3 * t:.1f} ms" for n, t in times.items()), flush=True)
    return times, together


def transformer(rounds: int, quick: bool) -> list[Goal]:
    """ViT-like."""
    torch.manual_seed(0)
    sizes = (4, 8) if quick else (8, 32)
    times, _ = against_loop("transformer", Encoder(), (16, 48), sizes, rounds)
    return [
        Goal(
            "transformer: loop / together",
            times["loop"] / times["together"],
            at_least=1.5,
        )
    ]


def residual(rounds: int, quick: bool) -> list[Goal]:
    """ResNet-18-like; narrow, since 8 agents share one core."""
    torch.manual_seed(0)
    model = resnet(4 if quick else 16)
    sizes = (2, 4) if quick else (8, 16)
    times, _ = against_loop("resnet", model, (3, 32, 32), sizes, rounds)
    return [
        Goal("resnet: loop / together", times["loop"] / times["together"], at_least=1.0)
    ]


def large(rounds: int, quick: bool) -> list[Goal]:
    """20 million parameters and 4 agents."""
    torch.manual_seed(0)
    problem = problem_of(mlp(300 if quick else 2960), (784,), 4, 64)
    graph = pm.graphs.ring(4)
    x = problem.x0()
    row = x.numel() * x.element_size()
    pm.theory.smoothness.LARGE = min(x.numel() - 1, pm.theory.smoothness.LARGE)
    before = held_before()
    one = _measured(lambda: problem.grad(x, problem.sample(1)), rounds + 1)
    gradient_rows = (peak_bytes() - before) / row
    before = held_before()
    begin = time.process_time()
    run = pm.prepare(problem, pm.HSMADMM(), graph, steps=1, x0=x, compile=False)
    constants_rows = (peak_bytes() - before) / row
    prepared = time.process_time() - begin
    print(f"large: {problem.p:,} parameters; {run.settled}", flush=True)
    state = run._states.pop()
    pair, step = [], []
    for _ in range(rounds + 1):
        begin = time.process_time()
        found: Any = problem.grad_pair(state.x, state.y, problem.sample(1))
        pair.append(time.process_time() - begin)
        del found
        begin = time.process_time()
        state = run.algorithm.step(state, problem, run.world)
        step.append(time.process_time() - begin)
    peak = (peak_bytes() - before) / row
    two, whole = statistics.median(pair[1:]), statistics.median(step[1:])
    print(
        f"processor seconds: a gradient {one:.2f}, constants and the first state "
        f"{prepared:.2f}, two gradients {two:.2f}, a step {whole:.2f}"
    )
    return [
        Goal("large: constants and first state / gradient", prepared / one, at_most=15),
        Goal("large: rows of a gradient", gradient_rows),
        Goal("large: rows of constants beyond that", constants_rows - gradient_rows),
        Goal("large: step / its two gradients", whole / two, at_most=1.5),
        Goal("large: peak of a run / its state", peak / 6, at_most=3.5),
    ]


def _measured(function: Callable[[], object], rounds: int) -> float:
    """Median processor seconds, after a first call that records."""
    function()
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return statistics.median(times)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="small models, one round")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else arguments.rounds
    torch.set_num_threads(1)
    parts = {"transformer": transformer, "resnet": residual, "large": large}
    goals = []
    for name in arguments.only.split(","):
        goals += parts[name](rounds, arguments.quick)
    print("\n| | value | goal |\n|---|---|---|")
    print("\n".join(map(str, goals)))


if __name__ == "__main__":
    main()
