"""`HSMADMM()` with nothing given against rivals tuned on each of twelve tasks.

    python benchmarks/champion.py [--only star] [--rivals deepstorm-v2,...] [--quick]
    python benchmarks/champion.py --stress [--quick]

Each rival is tuned on each task (24 trials of 1,000 iterations; LeNet 8 of 300; one
search seed, a run seed that is not compared on), then runs with the best values for
3,000 iterations (LeNet 1,500) on seeds 0 to 4 (LeNet 0 to 2). HSM-ADMM runs as it
comes. A number is the final stationarity, its geometric mean over seeds; a run that
diverged counts as infinite. The last line is the geometric mean over tasks.

`--stress` runs HSM-ADMM alone at batch 8, 16 and 256 and with l1 0, 1e-5 and 1e-3 on
the a9a, digits and breast-cancer tasks: does anything blow up?

Finished parts are kept in benchmarks/results/champion.json (or in the file that `--out`
names) and not made again, trials in the folder that `--trials-in` names. `--again`
makes the runs of HSM-ADMM anew, `--trials` and `--seeds` take fewer of them, and
`--table` makes none and prints what there is. Some eight hours on one core. `--quick`
takes a few steps of two tasks and keeps nothing.
"""

import argparse
import dataclasses
import json
import math
import os
import statistics
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS
from proxmesh.solver.method_as_text import as_written, from_written

RESULTS = Path(__file__).parent / "results" / "champion.json"
OURS = "hsm-admm"
RIVALS = ("deepstorm-v2", "prox-ed", "dpga", "prox-gt-sa", "sppdm", "prox-dasa")
FIRST_RIVAL = RIVALS[0]
TUNING_SEED = 1000
STRESS = [("batch", 8), ("batch", 16), ("batch", 256)] + [
    ("l1", value) for value in (0.0, 1e-5, 1e-3)
]


@dataclasses.dataclass(frozen=True)
class Task:
    """One row of the table."""

    name: str
    model: str
    graph: str
    agents: int
    data: str = "a9a"
    split: str = "contiguous"
    options: tuple[tuple[str, float], ...] = ()  # of the split
    batch: int = 64
    l1: float = 1e-4
    steps: int = 3000
    seeds: int = 5
    trials: int = 24
    trial_steps: int = 1000

    def problem(self, seed: int) -> pm.LearningProblem:
        """Its problem with the draws of a seed."""
        if self.data == "regression":
            return regression(self.agents, self.batch, seed)
        data = pm.datasets.load(self.data)
        if self.model == "lenet":
            data = data.shaped(1, 28, 28)
        features = data.inputs.flatten(1).shape[1]
        return pm.LearningProblem(
            getattr(pm.models, self.model)(features, data.num_classes),
            nn.functional.cross_entropy,
            data.split(self.agents, self.split, **dict(self.options)),
            regularizer=pm.L1(self.l1),
            batch_size=self.batch,
            seed=seed,
        )

    def network(self) -> pm.Graph:
        """Its graph; a random one is drawn with seed 0."""
        return pm.graphs.make(self.graph, self.agents)

    def shortened(self) -> "Task":
        """For `--quick`."""
        return dataclasses.replace(self, steps=20, seeds=1, trials=2, trial_steps=10)


def tasks() -> Iterator[Task]:
    yield Task("a9a/MLP ring 8", "mlp", "ring", 8)
    yield Task("a9a/MLP star 32", "mlp", "star", 32)
    yield Task("a9a/MLP barabasi-albert 24", "mlp", "barabasi-albert", 24)
    yield Task("a9a/MLP path 8", "mlp", "path", 8)
    yield Task("a9a/MLP ring 8, by label", "mlp", "ring", 8, split="by-label")
    yield Task(
        "a9a/MLP ring 8, Dirichlet .1",
        "mlp",
        "ring",
        8,
        split="dirichlet",
        options=(("alpha", 0.1),),
    )
    yield Task("a9a/logistic ring 8", "logistic", "ring", 8)
    yield Task("a9a/logistic star 16", "logistic", "star", 16)
    yield Task("digits/MLP random-8", "mlp", "random-8", 8, data="digits")
    yield Task(
        "breast-cancer/logistic path 6", "logistic", "path", 6, data="breast-cancer"
    )
    yield Task(
        "MNIST/LeNet random-8",
        "lenet",
        "random-8",
        8,
        data="mnist",
        batch=32,
        steps=1500,
        seeds=3,
        trials=8,
        trial_steps=300,
    )
    yield Task("squared/group lasso ring 8", "linear", "ring", 8, data="regression")


def regression(agents: int, batch: int, seed: int) -> pm.LearningProblem:
    """Five responses to the same 8 of 40 features; agents differ in scale."""
    draw = torch.Generator().manual_seed(0)
    truth = torch.randn(40, 5, generator=draw) * (torch.arange(40) < 8)[:, None]
    shards: list[tuple[Tensor, Tensor]] = []
    for scale in torch.linspace(0.5, 1.5, agents):
        inputs = scale * torch.randn(300, 40, generator=draw)
        noise = 0.5 * torch.randn(300, 5, generator=draw)
        shards.append((inputs, inputs @ truth + noise))
    return pm.LearningProblem(
        nn.Linear(40, 5, bias=False),
        nn.functional.mse_loss,
        shards,
        regularizer=pm.GroupLasso(0.02, torch.arange(200) % 40),
        batch_size=batch,
        seed=seed,
    )


def reached(task: Task, algorithm: Any, seed: int) -> tuple[float, int]:
    """Final stationarity of a run, and its sample gradients per agent."""
    result = pm.solve(
        _seeded(task, seed),
        algorithm,
        task.network(),
        task.steps,
        eval_every=task.steps,
        kkt=False,
        progress=False,
    )
    if result.outcome == "diverged":
        return math.inf, 0
    final = result.final
    return float(final["stationarity"]), int(final["gradients"])


def _seeded(task: Task, seed: int) -> pm.LearningProblem:
    from proxmesh.front.seeds import problem_of

    return problem_of(task.problem, seed)  # type: ignore[return-value]


def tuned(task: Task, rival: str, folder: Path) -> tuple[Any, float]:
    """The best values of a rival on a task, and what they reached."""
    method = ALGORITHMS[rival]
    algorithm = method.kind(**method.fixed)
    per_step = algorithm.cost(1).gradients
    found = pm.tune(
        algorithm,
        task.problem,
        task.network(),
        trials=task.trials,
        gradients=task.trial_steps * per_step * task.batch,
        seed=TUNING_SEED,
        out=folder / task.name.replace("/", " ").replace(",", ""),
        progress=False,
    )
    return found.best, found.value


class Kept:
    """What was measured, by task and method, written after every part."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.tree: dict[str, Any] = {}
        if file is not None and file.exists():
            self.tree = json.loads(file.read_text())

    def entry(self, task: Task, method: str) -> dict[str, Any]:
        """What is known of a method on a task, to be filled in."""
        found: dict[str, Any] = self.tree.setdefault(task.name, {}).setdefault(
            method, {}
        )
        return found

    def write(self) -> None:
        """Keep everything so far."""
        if self.file is not None:
            self.file.write_text(json.dumps(self.tree, indent=1) + "\n")


def measure(task: Task, method: str, kept: Kept, folder: Path) -> None:
    """Tune if it is a rival, then run every seed that is still missing."""
    entry = kept.entry(task, method)
    if method == OURS:
        algorithm: Any = pm.HSMADMM()
    elif entry.get("trials", 0) >= task.trials:
        algorithm = from_written(entry["algorithm"])
    else:
        algorithm, value = tuned(task, method, folder)
        found = {"algorithm": as_written(algorithm), "tuned": value}
        if entry.get("algorithm") != found["algorithm"]:
            entry.pop("final", None)
        entry.update(found, trials=task.trials)
        kept.write()
    final = entry.setdefault("final", {})
    for seed in map(str, range(task.seeds)):
        if seed not in final:
            final[seed], entry["gradients"] = reached(task, algorithm, int(seed))
            kept.write()
    print(f"{task.name}: {method} {mean_of(final):.2e}", flush=True)


def mean_of(final: Mapping[str, float]) -> float:
    """Geometric mean over seeds."""
    return statistics.geometric_mean(max(value, 1e-300) for value in final.values())


def table(kept: Kept) -> str:
    methods = (OURS, *RIVALS)
    lines = [
        f"| task | {' | '.join(methods)} | over {FIRST_RIVAL} | over the best |",
        "|---" * (len(methods) + 3) + "|",
    ]
    ratios: dict[str, list[float]] = {FIRST_RIVAL: [], "best": []}
    for task in tasks():
        row = kept.tree.get(task.name, {})
        found = {
            m: mean_of(row[m]["final"]) for m in methods if row.get(m, {}).get("final")
        }
        if not found:
            continue
        best = min(found.values())
        cells = [
            ""
            if m not in found
            else f"**{v:.2e}**"
            if (v := found[m]) == best
            else f"{v:.2e}"
            for m in methods
        ]
        rivals = {m: v for m, v in found.items() if m != OURS}
        for name, against_it in ratios.items():
            against = (
                min(rivals.values(), default=None)
                if name == "best"
                else rivals.get(name)
            )
            if against is None or OURS not in found:
                cells.append("")
                continue
            against_it.append(found[OURS] / against)
            cells.append(f"{against_it[-1]:.2f}")
        lines.append(f"| {task.name} | {' | '.join(cells)} |")
    overall = [
        f"{statistics.geometric_mean(r):.2f}" if r else "" for r in ratios.values()
    ]
    lines.append(f"| geometric mean |{' |' * len(methods)} {' | '.join(overall)} |")
    rows = [entry for row in kept.tree.values() for entry in row.values()]
    trials = [entry["trials"] for entry in rows if "trials" in entry]
    seeds = [len(entry.get("final", ())) for entry in rows if "trials" in entry]
    if trials:
        lines.append(
            f"\nRivals: at most {max(trials)} trials and {max(seeds)} seeds each."
        )
    return "\n".join(lines)


def stress(kept: Kept, quick: bool) -> str:
    """HSM-ADMM at other batches and weights; the worst task of each."""
    lines = [
        "| | runs | diverged | largest, over the task's own |",
        "|---|---|---|---|",
    ]
    small = [
        task for task in tasks() if task.data in {"a9a", "digits", "breast-cancer"}
    ]
    for name, value in STRESS[:1] if quick else STRESS:
        worst, diverged, count = 0.0, [], 0
        for task in small[-1:] if quick else small:
            entry = kept.entry(task, f"{OURS} {name} {value:g}")
            other: Any = {name: value}
            changed = dataclasses.replace(task.shortened() if quick else task, **other)
            if "final" not in entry:
                entry["final"] = {"0": reached(changed, pm.HSMADMM(), 0)[0]}
                kept.write()
            reference = kept.entry(task, OURS).get("final", {}).get("0", math.inf)
            found = entry["final"]["0"]
            count += 1
            worst = max(worst, found / reference)
            if math.isinf(found):
                diverged.append(task.name)
        told = ", ".join(diverged) or "none"
        lines.append(f"| {name} {value:g} | {count} | {told} | {worst:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of a task's name")
    parser.add_argument("--rivals", default=",".join(RIVALS))
    parser.add_argument("--stress", action="store_true", help="other batches and l1")
    parser.add_argument("--table", action="store_true", help="print what there is")
    parser.add_argument("--trials", type=int, help="at most that many per rival")
    parser.add_argument("--seeds", type=int, help="at most that many")
    parser.add_argument("--again", action="store_true", help="HSM-ADMM's runs anew")
    parser.add_argument("--quick", action="store_true", help="a few steps, two tasks")
    parser.add_argument("--out", type=Path, help="file of the finished parts")
    parser.add_argument("--trials-in", type=Path, help="folder of the trials")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", pm.Notice)
    kept = Kept(options.out or (None if options.quick else RESULTS))
    if options.stress:
        print(stress(kept, options.quick))
    if options.stress or options.table:
        print(table(kept))
        return
    chosen = [
        dataclasses.replace(
            task,
            trials=min(task.trials, options.trials or task.trials),
            seeds=min(task.seeds, options.seeds or task.seeds),
        )
        for task in tasks()
        if options.only in task.name
    ]
    if not os.environ.get("PROXMESH_DATA"):
        chosen = [task for task in chosen if task.data != "mnist"]
        print("MNIST is left out: PROXMESH_DATA names no folder with it.")
    rivals = options.rivals.split(",")
    if options.quick:
        chosen = [task.shortened() for task in chosen if task.data != "a9a"][:2]
        rivals = rivals[:2]
    with tempfile.TemporaryDirectory() as nowhere:
        folder = options.trials_in or Path(nowhere)
        for method in (OURS, *filter(None, rivals)):
            for task in chosen:
                if method == OURS and options.again:
                    kept.entry(task, OURS).clear()
                measure(task, method, kept, folder)
    print(table(kept))


if __name__ == "__main__":
    main()
