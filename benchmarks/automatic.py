"""Hold the automatic constants against the best of a tuned grid, task by task.

    python benchmarks/automatic.py [--only lenet,128] [--no-grid] [--quick]
    python benchmarks/automatic.py --rules [--quick]

`HSMADMM(follow=False)`, and the paper's rule over a grid: c_rho such that c_rho (mean
degree + 1) is one of seven values, c_eta = 1.6 c_rho, two values of c_a. Every graph
at 8 agents, three at 2, 32 and 128, logistic regression and the MLP on a9a, shards as
they come and sorted by label; LeNet on MNIST with 8 agents on three graphs. One thread,
seed 0. A number is the median stationarity of the last three of ten evaluations (LeNet:
the last). Finished tasks are kept in benchmarks/results/automatic.json (or in the file
that `--out` names), and the table is printed from there.

`--rules` compares two steps with the same certificate, stable from k = 1 on: the one
with L in it, and the paper's, with the least c_eta that is stable for the same c_rho.

`--quick` takes a few steps on one task of each model: does it work? It keeps nothing
unless `--out` is given, and LeNet is left out unless PROXMESH_DATA names a folder.
"""

import argparse
import dataclasses
import json
import os
import statistics
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

import proxmesh as pm

RESULTS = Path(__file__).parent / "results" / "automatic.json"
SIZES = (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)  # c_rho (mean degree + 1)
MOMENTA = (0.5, 2.0)
THREE = ("ring", "star", "barabasi-albert")
STEPS = {2: 1000, 8: 1000, 32: 600, 128: 400}
LENET_STEPS = 300
QUICK_STEPS = {"logistic": 20, "mlp": 20, "lenet": 2}


@dataclasses.dataclass(frozen=True)
class Task:
    """One line of the table."""

    model: str
    split: str
    graph: str
    agents: int
    quick: bool = False

    def __str__(self) -> str:
        return f"{self.model} {self.split} {self.graph} {self.agents}"

    @property
    def steps(self) -> int:
        """Iterations of a run."""
        if self.quick:
            return QUICK_STEPS[self.model]
        return LENET_STEPS if self.model == "lenet" else STEPS[self.agents]


def tasks() -> Iterator[Task]:
    """Every combination; two agents have one graph only, under three names."""
    for split in ("contiguous", "by-label"):
        for model in ("logistic", "mlp"):
            yield Task(model, split, "path", 2)
            for graph in sorted(pm.graphs.CONSTRUCTORS):
                yield Task(model, split, graph, 8)
            for agents in (32, 128):
                for graph in THREE:
                    yield Task(model, split, graph, agents)
    for graph in ("ring", "star", "random-8"):
        yield Task("lenet", "contiguous", graph, 8)


def quick_tasks() -> Iterator[Task]:
    """One task of each model whose data are at hand."""
    yield Task("logistic", "contiguous", "ring", 8, quick=True)
    yield Task("mlp", "by-label", "star", 8, quick=True)
    if os.environ.get("PROXMESH_DATA"):
        yield Task("lenet", "contiguous", "ring", 8, quick=True)
    else:
        print("LeNet is left out: PROXMESH_DATA names no folder with MNIST.")


def problem_of(task: Task) -> pm.LearningProblem:
    torch.manual_seed(0)
    if task.model == "lenet":
        data, model = pm.datasets.mnist(), pm.models.lenet(784, 10)
        data = data.shaped(1, 28, 28)
    else:
        data = pm.datasets.a9a()
        model = getattr(pm.models, task.model)(123, 2)
    return pm.LearningProblem(
        model,
        nn.functional.cross_entropy,
        data.split(task.agents, task.split),
        regularizer=pm.L1(1e-4),
        batch_size=32 if task.model == "lenet" else 64,
    )


def reached(problem: Any, algorithm: pm.HSMADMM, graph: pm.Graph, task: Task) -> Any:
    """What a run comes to, and the algorithm with its constants."""
    looks = 1 if task.model == "lenet" else 10
    result = pm.solve(
        problem,
        algorithm,
        graph,
        task.steps,
        eval_every=task.steps // looks,
        kkt=False,
        compile=False,
    )
    if result.outcome == "diverged":
        return float("inf"), result.algorithm
    last = result.history["stationarity"].iloc[-min(3, looks) :]
    return statistics.median(last), result.algorithm


def measured(task: Task, with_grid: bool) -> dict[str, Any]:
    problem, graph = problem_of(task), pm.graphs.make(task.graph, task.agents)
    own, found = reached(problem, pm.HSMADMM(follow=False), graph, task)
    row: dict[str, Any] = {"automatic": own, "found": dataclasses.asdict(found)}
    if with_grid:
        width = float(graph.degrees.mean()) + 1
        grid = {}
        for size in SIZES[:1] if task.quick else SIZES:
            for c_a in MOMENTA[:1] if task.model == "lenet" else MOMENTA:
                c_rho = float(f"{size / width:.3g}")
                point = pm.HSMADMM(c_rho, 1.6 * c_rho, c_a)
                grid[f"{c_rho:g}, {c_a:g}"] = reached(problem, point, graph, task)[0]
        row["grid"] = grid
    return row


def table(kept: dict[str, Any]) -> str:
    lines = [
        "| task | c_rho | L_f | c_a | automatic | best of grid | c_rho, c_a | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in map(str, tasks()):
        if name not in kept:
            continue
        row, own = kept[name], kept[name]["found"]
        cells = [name, *(f"{own[c]:.3g}" for c in ("c_rho", "smoothness", "c_a"))]
        cells.append(f"{row['automatic']:.1e}")
        if "grid" in row:
            where, best = min(row["grid"].items(), key=lambda item: item[1])
            cells += [f"{best:.1e}", where, f"{row['automatic'] / best:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def rules(chosen: Iterable[Task]) -> str:
    """Both steps, certified from the first iteration on."""
    lines = [
        "| task | c_eta with L_f | c_eta, paper's | with L_f | paper's | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for task in chosen:
        problem, graph = problem_of(task), pm.graphs.make(task.graph, task.agents)
        ours, found = reached(problem, pm.HSMADMM(follow=False), graph, task)
        bare = dataclasses.replace(found, smoothness=0.0)
        needed = pm.theory.certify(bare, graph, found.smoothness).stable_c_eta
        papers = dataclasses.replace(bare, c_eta=1.001 * needed)
        theirs, _ = reached(problem, papers, graph, task)
        lines.append(
            f"| {task} | {found.c_eta:.3g} | {papers.c_eta:.3g} "
            f"| {ours:.1e} | {theirs:.1e} | {theirs / ours:.1f} |"
        )
    return "\n".join(lines)


def tasks_of_rules() -> Iterator[Task]:
    """What both steps are compared on."""
    for split in ("contiguous", "by-label"):
        for model in ("logistic", "mlp"):
            for graph in ("ring", "star", "complete"):
                yield Task(model, split, graph, 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="words that a task must all have")
    parser.add_argument("--no-grid", action="store_true")
    parser.add_argument("--rules", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a few steps, few tasks")
    parser.add_argument("--out", type=Path, help="file of the finished tasks")
    options = parser.parse_args()
    out = options.out or (None if options.quick else RESULTS)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", pm.Notice)
    if options.rules:
        print(rules(quick_tasks() if options.quick else tasks_of_rules()))
        return
    kept = json.loads(out.read_text()) if out and out.exists() else {}
    words = set(filter(None, options.only.split(",")))
    for task in quick_tasks() if options.quick else tasks():
        if words <= set(str(task).split()) and str(task) not in kept:
            row = measured(task, not options.no_grid)
            kept[str(task)] = row
            if out:
                out.write_text(json.dumps(kept, indent=1) + "\n")
            print(f"{task}: {row['automatic']:.2e}", flush=True)
    print(table(kept))


if __name__ == "__main__":
    main()
