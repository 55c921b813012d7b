"""Twenty-five sensors map a field together, though some of them are very noisy.

    python examples/sensors.py    # draws sensors.png; not with --quick
    mpiexec -n 5 --map-by :OVERSUBSCRIBE python examples/sensors.py --quick

Each sensor measures around its own place and talks to those in reach. It knows how
noisy it is itself, and divides its measurements by that: nobody else has to know. The
field is a sum of up to 100 bumps, and the l1 norm says that they are few: here, five.
"""

import sys
from functools import partial

import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from torch import Tensor, nn, tensor

import proxmesh as pm

DRAW = np.random.default_rng(0)
GRID = np.stack(np.meshgrid(*2 * [np.linspace(0.1, 0.9, 5)]), -1).reshape(-1, 2)
PLACES = GRID + DRAW.uniform(-0.07, 0.07, (25, 2))
NOISE = DRAW.choice([0.05, 2.0], 25)  # half of them are good for little
IN_REACH = nx.random_geometric_graph(25, 0.3, pos=dict(enumerate(PLACES)))
CENTERS = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, 10)]), -1).reshape(-1, 2)
PIXELS = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, 80)]), -1).reshape(-1, 2)
TRUTH = np.bincount([22, 37, 54, 71, 88], [1.0, 0.6, 1.4, 0.8, 1.0], 100)


def bumps(places: np.ndarray) -> np.ndarray:
    """How much each bump adds at each place."""
    return np.asarray(np.exp(-((places[:, None] - CENTERS) ** 2).sum(2) / 0.02))


def measured(sensor: int, weighted: bool) -> tuple[Tensor, Tensor]:
    """What one sensor sees around its place; divided by its own noise, if weighted."""
    draw = np.random.default_rng(sensor)
    rows = bumps(PLACES[sensor] + draw.normal(0, 0.12, (80, 2)))
    values = rows @ TRUTH + draw.normal(0, NOISE[sensor], 80)
    scale = NOISE[sensor] if weighted else 1.0
    inputs, targets = tensor(rows / scale), tensor(values / scale)
    return inputs.float(), targets.float()[:, None]


def draw(fields: dict[str, np.ndarray]) -> None:
    """Draw each field, and over it who talks to whom; noisy sensors are hollow."""
    figure = Figure(figsize=(3.4 * len(fields), 3.7), layout="constrained")
    for axis, (title, of) in zip(figure.subplots(1, 3), fields.items(), strict=True):
        values = (bumps(PIXELS) @ of).reshape(80, 80)
        axis.imshow(values, extent=(0, 1, 0, 1), origin="lower", vmin=0, vmax=1.5)
        axis.plot(*PLACES[np.array(IN_REACH.edges)].T, color="gray", lw=1, zorder=1)
        axis.scatter(*PLACES.T, s=30, c="none", edgecolors="white")
        axis.scatter(*PLACES[NOISE < 1].T, s=30, c="white")
        axis.set(title=title, xticks=[], yticks=[])
    figure.savefig("sensors.png", dpi=110)


def main(quick: bool = False) -> pm.Result:
    """Map the field twice: every sensor counts the same, or by what it is worth."""
    fields, loss, steps = {"the field": TRUTH}, nn.MSELoss(), 400 if quick else 3000
    for weighted, how in ((False, "all count the same"), (True, "weighted by noise")):
        model, h = nn.Linear(100, 1, bias=False), pm.L1(0.03 if weighted else 0.01)
        nn.init.zeros_(model.weight)
        shards = partial(measured, weighted=weighted)  # called for a process's own
        problem = pm.LearningProblem(model, loss, shards, regularizer=h, batch_size=20)
        result = pm.solve(problem, pm.HSMADMM(), IN_REACH, steps, eval_every=steps)
        fields[how] = result.sparse_model.weight.detach().numpy()[0]  # type: ignore[union-attr,operator]
        off = bumps(PIXELS) @ (fields[how] - TRUTH)
        error = np.linalg.norm(off) / np.linalg.norm(bumps(PIXELS) @ TRUTH)
        if 0 in result.problem.agents:
            print(f"{how}: the map is off by {error:.0%}")
    if not quick:
        draw(fields)
    return result


if __name__ == "__main__":
    main("--quick" in sys.argv)
