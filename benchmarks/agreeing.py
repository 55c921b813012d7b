"""The animated picture of the README: eight agents come to agree on one model.

    python benchmarks/agreeing.py            # writes docs/images/agreeing.gif

Every agent sees one eighth of a ring around a disk, for which a straight line would do;
together they find the circle. This is one real run of `HSMADMM()`,
with each agent's own model as it stands at that iteration.
"""

import argparse
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor, nn

import proxmesh as pm

AGENTS = 8
STEPS = 600
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "agreeing.gif"
INSIDE, OUTSIDE = "#3949ab", "#ef6c00"
EDGE = 1.7  # of the square that is drawn around the data
PIXELS = 60  # of a thumbnail's side, before it is smoothed


def sector(agent: int) -> tuple[Tensor, Tensor]:
    """The points that one agent has: its part of a disk and of the ring around it."""
    draw = np.random.default_rng(agent)
    radius = np.concatenate([draw.uniform(0.2, 0.7, 30), draw.uniform(1.0, 1.4, 30)])
    angle = 2 * np.pi * (agent + draw.uniform(0.05, 0.95, 60) - 0.5) / AGENTS
    points = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    labels = torch.arange(60) >= 30
    return torch.tensor(points, dtype=torch.float32), labels.long()


def run(steps: int) -> tuple[pm.LearningProblem, dict[int, Tensor], Any]:
    """Train, and keep every agent's model at the iterations that are drawn."""
    torch.manual_seed(3)
    problem = pm.LearningProblem(
        nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)),
        nn.functional.cross_entropy,
        [sector(agent) for agent in range(AGENTS)],
        regularizer=pm.L1(1e-4),
        batch_size=16,
    )
    wanted = {int(k) for k in np.geomspace(1, steps + 1, 44)}
    kept = {0: problem.x0("different")}

    def keep(row: Mapping[str, float], state: Any) -> None:
        if int(row["iteration"]) + 1 in wanted:
            kept[int(row["iteration"])] = state.x.clone()

    graph = pm.graphs.ring(AGENTS)
    result = pm.solve(
        problem,
        pm.HSMADMM(),
        graph,
        steps=steps,
        eval_every=1,
        init="different",
        callbacks=[keep],
        progress=False,
    )
    return problem, kept, result.history.set_index("iteration")["consensus"]


def thumbnail(
    axes: Axes, module: nn.Module, shards: list[tuple[Tensor, Tensor]]
) -> None:
    """A model's two regions, and the points that its agent has."""
    side = torch.linspace(-EDGE, EDGE, PIXELS)
    grid = torch.cartesian_prod(side, side)
    with torch.no_grad():
        share = module(grid).softmax(1)[:, 1].reshape(PIXELS, PIXELS).T.numpy()
    colors = mpl.colors.ListedColormap(["#c5cae9", "#ffe0b2"])
    axes.contourf(side, side, share, levels=[0, 0.5, 1], cmap=colors)
    axes.contour(side, side, share, levels=[0.5], colors="#444444", linewidths=1.2)
    for points, labels in shards:
        paint = np.where(labels.numpy() == 1, OUTSIDE, INSIDE)
        axes.scatter(points[:, 0], points[:, 1], s=2.5, c=list(paint), linewidths=0)
    axes.set(xlim=(-EDGE, EDGE), ylim=(-EDGE, EDGE), xticks=[], yticks=[])
    axes.set_aspect("equal")


def frame(problem: pm.LearningProblem, k: int, x: Tensor, apart: float) -> Image.Image:
    """The ring of agents at iteration k, with the average model in the middle."""
    figure = Figure(figsize=(6.4, 6.4), dpi=100)
    turns = 2 * np.pi * np.arange(AGENTS) / AGENTS
    x_of, y_of = 0.5 + 0.385 * np.cos(turns), 0.475 + 0.37 * np.sin(turns)
    links = figure.add_axes((0, 0, 1, 1))
    links.plot([*x_of, x_of[0]], [*y_of, y_of[0]], color="#9fa8da", linewidth=2)
    links.set(xlim=(0, 1), ylim=(0, 1))
    links.axis("off")
    shards = [sector(agent) for agent in range(AGENTS)]
    for agent in range(AGENTS):
        place = (x_of[agent] - 0.09, y_of[agent] - 0.09, 0.18, 0.18)
        thumbnail(figure.add_axes(place), problem.module(x[agent]), [shards[agent]])
    thumbnail(
        figure.add_axes((0.36, 0.325, 0.28, 0.28)), problem.module(x.mean(0)), shards
    )
    links.text(0.5, 0.62, "their average, all data", ha="center", fontsize=9)
    links.text(0.02, 0.965, f"iteration {k}", fontsize=13, weight="bold")
    links.text(0.98, 0.965, f"disagreement {apart:.0e}", ha="right", fontsize=13)
    with io.BytesIO() as file:
        figure.savefig(file, format="png")
        return Image.open(file).convert("RGB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PICTURE)
    parser.add_argument("--quick", action="store_true", help="three frames, not kept")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    problem, kept, consensus = run(3 if arguments.quick else STEPS)
    frames = [frame(problem, k, x, consensus[k]) for k, x in kept.items()]
    palette = frames[-1].quantize(64, method=Image.Quantize.MAXCOVERAGE)
    drawn = [
        image.quantize(palette=palette, dither=Image.Dither.NONE) for image in frames
    ]
    if arguments.quick:
        print(f"{len(drawn)} frames")
        return
    waits = [600, *[160] * (len(drawn) - 2), 3000]  # milliseconds
    drawn[0].save(
        arguments.out, save_all=True, append_images=drawn[1:], duration=waits, loop=0
    )
    print(
        f"{arguments.out}: {len(drawn)} frames, {arguments.out.stat().st_size:,} bytes"
    )


if __name__ == "__main__":
    main()
