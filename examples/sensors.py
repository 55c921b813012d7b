"""Twenty-five sensors map a field together, though some of them are very noisy.

    python examples/sensors.py            # draws sensors.png
    python examples/sensors.py --quick    # no picture
    mpiexec -n 5 --map-by :OVERSUBSCRIBE python examples/sensors.py --quick

Each sensor measures around its own place and talks to those in reach. It knows how
noisy it is itself, and divides its measurements by that: nobody else has to know. The
field is a sum of up to 100 bumps, and the l1 norm says that they are few: here, five.
"""

import sys

import networkx as nx
import numpy as np
import torch
from torch import Tensor, nn

import proxmesh as pm

SENSORS, MEASUREMENTS = 25, 80
Array = np.ndarray


def square(low: float, high: float, n: int) -> Array:
    """Points of an n x n grid."""
    return np.stack(np.meshgrid(*2 * [np.linspace(low, high, n)]), -1).reshape(-1, 2)


DRAW = np.random.default_rng(0)
PLACES = square(0.1, 0.9, 5) + DRAW.uniform(-0.07, 0.07, (SENSORS, 2))
NOISE = DRAW.choice([0.05, 2.0], SENSORS)  # half of them are good for little
CENTERS, PIXELS = square(0, 1, 10), square(0, 1, 80)
IN_REACH = nx.random_geometric_graph(SENSORS, 0.3, pos=dict(enumerate(PLACES)))
TRUTH = np.zeros(len(CENTERS))
TRUTH[[22, 37, 54, 71, 88]] = [1.0, 0.6, 1.4, 0.8, 1.0]


def bumps(places: Array) -> Array:
    """How much each bump adds at each place."""
    distance = ((places[:, None] - CENTERS) ** 2).sum(2)
    heights: Array = np.exp(-distance / (2 * 0.1**2))
    return heights


def measured(sensor: int, weighted: bool) -> tuple[Tensor, Tensor]:
    """What one sensor sees around its place; divided by its own noise, if weighted."""
    draw = np.random.default_rng(sensor)
    rows = bumps(PLACES[sensor] + draw.normal(0, 0.12, (MEASUREMENTS, 2)))
    values = rows @ TRUTH + draw.normal(0, NOISE[sensor], MEASUREMENTS)
    scale = NOISE[sensor] if weighted else 1.0
    tensors = (torch.tensor(a / scale, dtype=torch.float32) for a in (rows, values))
    return next(tensors), next(tensors)[:, None]


def solved(weighted: bool, steps: int) -> tuple[pm.Result, Array]:
    """The result, and the strengths of all bumps."""
    model = nn.Linear(len(CENTERS), 1, bias=False)
    nn.init.zeros_(model.weight)
    loss, h = nn.functional.mse_loss, pm.L1(0.03 if weighted else 0.01)  # best of four
    problem = pm.LearningProblem(
        model, loss, lambda i: measured(i, weighted), regularizer=h, batch_size=20
    )
    result = pm.solve(problem, pm.HSMADMM(), IN_REACH, steps=steps, eval_every=steps)
    assert isinstance(result.sparse_model, nn.Linear)
    return result, result.sparse_model.weight.detach().numpy()[0]


def draw(fields: dict[str, Array]) -> None:
    """Draw each field, and over it who talks to whom; noisy sensors are hollow."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * len(fields), 3.7), layout="constrained")
    axes = figure.subplots(1, len(fields))
    for axis, (title, strengths) in zip(axes, fields.items(), strict=True):
        values = (bumps(PIXELS) @ strengths).reshape(80, 80)
        axis.imshow(values, extent=(0, 1, 0, 1), origin="lower", vmin=0, vmax=1.5)
        axis.plot(*PLACES[np.array(IN_REACH.edges)].T, color="gray", lw=1, zorder=1)
        axis.scatter(*PLACES.T, s=30, c="none", edgecolors="white")
        axis.scatter(*PLACES[NOISE < 1].T, s=30, c="white")
        axis.set_axis_off()
        axis.set_title(title, fontsize=10)
    figure.savefig("sensors.png", dpi=110)


def main(quick: bool = False) -> pm.Result:
    """Map the field twice: every sensor counts the same, or by what it is worth."""
    fields = {"the field": TRUTH}
    for weighted, how in ((False, "all count the same"), (True, "weighted by noise")):
        result, fields[how] = solved(weighted, steps=400 if quick else 3000)
        off = np.linalg.norm(bumps(PIXELS) @ (fields[how] - TRUTH))
        error = off / np.linalg.norm(bumps(PIXELS) @ TRUTH)
        if 0 in result.problem.agents:
            print(f"{how}: the map is off by {error:.0%}")
    if not quick:
        draw(fields)
    return result


if __name__ == "__main__":
    main("--quick" in sys.argv)
