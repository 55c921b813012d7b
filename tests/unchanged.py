"""Did a change of structure change a number? Hash the histories of runs and compare.

    python tests/unchanged.py record before.json     # on the old code
    python tests/unchanged.py compare before.json    # on the new: code 1 if they differ

Runs of every method over graphs, engines, splits and modes, through the public
interface alone, so that the same file works on both sides. The hash takes every column
of the history but the times, and every key of config.toml but folders. Bits depend on
the processor and on the version of torch: record and compare on one machine.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).parents[1]
MNIST = ROOT.parent / "shared/data/mnist"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
CONSTANTS = "--set algorithm.c_rho=0.2 --set algorithm.c_eta=0.4 --set algorithm.c_a=1"
OFF = "--compile off --steps 60 --threads 1"

RUNS = {  # words after `proxmesh run`
    "default": OFF,
    "compiled": "--compile on --steps 60 --threads 1",
    "given constants": f"{OFF} {CONSTANTS} --graph star --split by-label",
    "uniform": f"{OFF} --algorithm hsm-admm-uniform --graph barabasi-albert --agents 9",
    "blind": f"{OFF} --algorithm hsm-admm-blind --seed 3",
    "deepstorm-v2": f"{OFF} --algorithm deepstorm-v2 --split dirichlet",
    "deepstorm-v2 compiled": "--compile on --steps 60 --threads 1 "
    "--algorithm deepstorm-v2 --graph grid --agents 6",
    "deepstorm-v1": f"{OFF} --algorithm deepstorm-v1 --split shuffled",
    "prox-gt-sa": f"{OFF} --algorithm prox-gt-sa --graph torus --agents 9",
    "prox-gt-sr-o": f"{OFF} --algorithm prox-gt-sr-o --graph random-8",
    "prox-gt-sr-e": f"{OFF} --algorithm prox-gt-sr-e --dataset breast-cancer",
    "prox-gt-sr-o compiled": "--compile on --steps 60 --threads 1 "
    "--algorithm prox-gt-sr-o --dataset digits --model logistic",
    "sppdm": f"{OFF} --algorithm sppdm --graph star --agents 5",
    "prox-dasa": f"{OFF} --algorithm prox-dasa --graph ladder",
    "prox-dasa-gt": f"{OFF} --algorithm prox-dasa-gt --graph watts-strogatz",
    "dsgt": f"{OFF} --algorithm dsgt --dataset digits --agents 4",
    "d-psgd": f"{OFF} --algorithm d-psgd --dataset synthetic --split shuffled "
    "--regularizer none",
    "prox-sgd": f"{OFF} --algorithm prox-sgd --dataset breast-cancer --agents 3",
    "prox-storm": f"{OFF} --algorithm prox-storm --dtype float64 --agents 3",
    "group lasso": f"{OFF} --regularizer group-lasso --set regularizer.weight=0.01 "
    "--dtype float64 --dataset digits",
    "different": f"{OFF} --init different --target stationarity=0.05 --eval-every 5",
    "theory": f"{OFF} --monitor theory --dataset breast-cancer --eval-every 20",
    "lenet": f"--compile off --steps 6 --eval-every 3 --dataset mnist --batch 8 "
    f"--set run.vectorize=channels --set run.paired=true --data-dir {MNIST}",
    "no kkt": f"{OFF} --set run.kkt=false --eval-every 7",
}
DISTRIBUTED = {  # launcher, ranks, words
    "mpi": ("mpi", 2, OFF),
    "mpi sppdm": ("mpi", 3, f"{OFF} --algorithm sppdm --init different --agents 5"),
    "torch": ("torch", 3, f"{OFF} --graph star"),
    "torch compiled": ("torch", 2, "--compile on --steps 40 --threads 1"),
    "torch local": ("torch", 2, f"{OFF} --eval local --dataset digits --agents 4"),
}


def hashed(folder: Path) -> dict[str, str]:
    """A hash of every history below a folder, and one of every config."""
    found = {}
    for file in sorted([*folder.rglob("history.csv"), *folder.rglob("agents/*.csv")]):
        table = pd.read_csv(file, dtype=str).drop(columns="seconds")
        found[str(file.relative_to(folder))] = digest(table.to_csv(index=False))
    for file in sorted(folder.rglob("config.toml")):
        tree = tomllib.loads(file.read_text())
        tree["data"].pop("dir", None)
        text = json.dumps(tree, sort_keys=True, default=str)
        found[str(file.relative_to(folder))] = digest(text)
    return found


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def carried_out(command: list[str]) -> None:
    done = subprocess.run(
        command,
        check=False,
        env={**os.environ, **AS_ROOT},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-800:]}{done.stderr[-1500:]}")


def proxmesh(*words: str) -> list[str]:
    return [sys.executable, "-m", "proxmesh", *words]


def launched(engine: str, ranks: int, words: list[str]) -> list[str]:
    if engine == "mpi":
        start = [str(MPIEXEC), "-n", str(ranks), "--map-by", ":OVERSUBSCRIBE"]
        return [*start, *proxmesh(*words)]
    start = ["-m", "torch.distributed.run", "--standalone"]
    count = ["--nproc-per-node", str(ranks), "-m", "proxmesh"]
    return [sys.executable, *start, *count, *words]


def in_python(folder: Path) -> None:
    """Going on from a result, from a state, and from rows; own metrics and graphs."""
    import networkx as nx
    import torch

    import proxmesh as pm

    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = pm.datasets.breast_cancer()
    problem = pm.LearningProblem(
        torch.nn.Sequential(torch.nn.Linear(30, 4), torch.nn.Tanh(),
                            torch.nn.Linear(4, 2)),
        torch.nn.functional.cross_entropy,
        data.split(5),
        test=data.test,
        regularizer=pm.L1(1e-3),
        vectorize="vmap",
        paired=True,
    )  # fmt: skip
    graph = pm.graphs.star(5)
    common: dict[str, Any] = {"eval_every": 10, "compile": False}
    first = pm.solve(problem, pm.HSMADMM(), graph, 30, **common)
    first.save(folder / "first")
    on = pm.solve(problem, pm.HSMADMM(), graph, 30, state=first, **common)
    on.save(folder / "on")
    stored = pm.solve(
        problem, first.algorithm, graph, 20, state=first.state, **common
    )  # fmt: skip
    stored.save(folder / "bare")
    rows = problem.x0("different")
    sized: Callable[[Any, Any], float] = lambda state, _: float(state.x.norm())  # noqa: E731
    own = pm.solve(
        problem, pm.DEEPSTORM(), nx.path_graph(5), 30, x0=rows,
        metrics={"size": sized}, out=folder / "own", **common,
    )  # fmt: skip
    del own
    fast = pm.solve(problem, pm.HSMADMM(), graph, 30, compile=True, out=folder / "fast")
    pm.solve(problem, pm.HSMADMM(), graph, 30, state=fast, out=folder / "faster")


def made(only: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Every run, its name and its hashes."""
    with tempfile.TemporaryDirectory() as temporary:
        top = Path(temporary)
        for name, words in RUNS.items():
            if only in name and (name != "lenet" or MNIST.is_dir()):
                out = str(top / name)
                carried_out(proxmesh("run", *words.split(), "--out", out))
                yield name, hashed(top / name)
        for name, (engine, ranks, words) in DISTRIBUTED.items():
            if only in name:
                run = ["run", *words.split(), "--out", str(top / name)]
                carried_out(launched(engine, ranks, run))
                yield name, hashed(top / name)
        if only in "compare":
            words = (
                "compare --algorithms hsm-admm,dsgt --seeds 2 --jobs 1 --steps 40 "
                f"--compile off --dataset digits --out {top / 'compare'}"
            )
            carried_out(proxmesh(*words.split()))
            yield "compare", hashed(top / "compare")
        if only in "tune":
            words = (
                "tune --algorithms hsm-admm,sppdm --trials 3 --jobs 1 --steps 40 "
                f"--compile off --dataset digits --out {top / 'tune'}"
            )
            carried_out(proxmesh(*words.split()))
            yield "tune", hashed(top / "tune")
        if only in "python":
            in_python(top / "python")
            yield "python", hashed(top / "python")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="Runs with this in their name.")
    asked = parser.parse_args()
    if asked.action == "record":
        found = dict(made(asked.only))
        asked.file.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{len(found)} runs recorded in {asked.file}")
        return 0
    known = json.loads(asked.file.read_text())
    same = True
    for name, hashes in made(asked.only):
        differ = sorted(
            key
            for key in {*hashes, *known[name]}
            if hashes.get(key) != known[name].get(key)
        )
        same = same and not differ
        print(f"{name}: {'same' if not differ else 'DIFFERS: ' + ', '.join(differ)}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
