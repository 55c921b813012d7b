"""Time to the same stationarity when one rank is slow: waiting for it, or not.

    python benchmarks/asynchronous.py [--quick] [--only PART] [--out FILE.json]

- `ranks`: four ranks of mpiexec, one of them stopped for a part of every 40 ms, so that
  it is 2, 4 or 8 times as slow; a9a with an MLP of 64 hidden units, batch 512. The
  synchronous `HSMADMM()`, the same with constants found once, and asynchronous.
  Limits: 0.6 of the synchronous time at 4, 1.3 where nobody is slowed.
- `waiting`: the CPU of a rank that waits for a neighbor. Limit: 5 %.
- `memory`: of two ranks, over 50,000 messages. Limit: 1 MB more at the end.
- `simulated`: the same four with a core each, and 32 and 128 agents whose steps take a
  time drawn from a heavy tail (Pareto, exponent 1.5, at most 20). A synchronous
  iteration takes as long as that of its slowest agent.
- `figure`: draws docs/images/asynchronous.png from the numbers in benchmarks/results.

`--quick` makes a few steps, once, and tells nothing about speed.
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import proxmesh as pm

PARTS = ("ranks", "waiting", "memory", "simulated")
RESULTS = Path(__file__).parent / "results" / "asynchronous.json"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "asynchronous.png"
CYCLE = 0.04  # seconds
SLOWED = 3  # the rank
TARGET = 5e-4
MPIEXEC = Path(sys.executable).with_name("mpiexec")
FLAGS = ["--map-by", ":OVERSUBSCRIBE", "--mca", "mpi_yield_when_idle", "1"]


# -- what a rank does ------------------------------------------------------------------


def task() -> pm.LearningProblem:
    torch.manual_seed(0)
    data = pm.datasets.a9a()
    return pm.LearningProblem(
        pm.models.mlp(123, 2, hidden=64),
        nn.functional.cross_entropy,
        data.split(4),
        regularizer=pm.L1(1e-4),
        batch_size=512,
    )


class Sleepy:
    """One quadratic for each agent, whose gradient takes its time."""

    def __init__(self, p: int, seconds: tuple[float, ...], agents: Any = (0, 1)):
        self.p, self.seconds, self.agents = p, seconds, tuple(agents)

    def local(self, agents: Any) -> "Sleepy":
        """Of these agents."""
        return Sleepy(self.p, self.seconds, agents)

    def x0(self, init: str) -> torch.Tensor:
        """Zeros."""
        del init
        return torch.zeros(len(self.agents), self.p)

    def sample(self, k: Any, size: int | None = None, stream: int = 0) -> None:
        """Nothing: there is no noise."""
        del k, size, stream

    def grad(self, x: torch.Tensor, batch: None) -> torch.Tensor:
        """After a while."""
        del batch
        time.sleep(self.seconds[self.agents[0]])
        return x - torch.tensor([[float(a)] for a in self.agents])

    def prox(self, z: torch.Tensor, step: Any) -> torch.Tensor:
        """Nothing."""
        del step
        return z


GIVEN = pm.HSMADMM(c_rho=0.3, c_eta=0.6, c_a=1.0, smoothness=1.0)


def rank_main(what: str, folder: Path, steps: int) -> None:
    """What each process of mpiexec does; the root writes what it has found."""
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    options: dict[str, Any] = {"progress": False, "compile": False, "steps": steps}
    if what == "memory":
        resident: list[int] = []

        def note(row: Any, state: Any) -> None:
            del row, state
            resident.append(int(Path("/proc/self/statm").read_text().split()[1]))

        options |= {"eval_every": max(1, steps // 10), "callbacks": [note]}
        pm.solve(
            Sleepy(1000, (0, 0)), GIVEN, pm.graphs.path(2), asynchronous=True, **options
        )
        page = resource.getpagesize() / 2**20
        found = {"megabytes": [pages * page for pages in resident]}
    elif what == "waiting":
        options |= {"eval_every": steps, "max_staleness": 1, "asynchronous": True}
        run = pm.prepare(Sleepy(1000, (0, 0.25)), GIVEN, pm.graphs.path(2), **options)
        wall, cpu = time.perf_counter(), time.process_time()
        run.go()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        found = {"seconds": wall, "share of a core": cpu / wall}
    else:
        (folder / f"{rank}.pid").write_text(str(os.getpid()))
        follow = None if what != "found once" else False
        result = pm.solve(
            task(),
            pm.HSMADMM(follow=follow),
            pm.graphs.ring(4),
            eval_every=10,
            kkt=False,
            target={"stationarity": TARGET},
            asynchronous=what == "asynchronous",
            **options,
        )
        found = {**result.final, "outcome": str(result.outcome)}
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))


# -- starting ranks, and slowing one ---------------------------------------------------


@contextlib.contextmanager
def slowed(folder: Path, factor: float) -> Iterator[None]:
    """Stop a rank for a part of every cycle, once it has told its number."""
    over = threading.Event()

    def stop_and_go() -> None:
        file = folder / f"{SLOWED}.pid"
        while not (file.exists() and file.read_text()) and not over.is_set():
            time.sleep(0.05)
        while not over.is_set():
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                process = int(file.read_text())
                os.kill(process, signal.SIGSTOP)
                time.sleep(CYCLE * (1 - 1 / factor))
                os.kill(process, signal.SIGCONT)
            time.sleep(CYCLE / factor)

    thread = threading.Thread(target=stop_and_go)
    if factor > 1:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if factor > 1:
            thread.join()


def on_ranks(ranks: int, what: str, steps: int, factor: float = 1) -> dict[str, Any]:
    """What the root of so many ranks has found."""
    with tempfile.TemporaryDirectory() as place:
        words = [sys.executable, __file__, "--rank", what, place, str(steps)]
        as_root = {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMP_NUM_THREADS": "1",
        }
        with slowed(Path(place), factor):
            subprocess.run(
                [MPIEXEC, *FLAGS, "-n", str(ranks), *words],
                env={**os.environ, **as_root},
                check=True,
                timeout=1200,
            )
        found: dict[str, Any] = json.loads((Path(place) / "found.json").read_text())
        return found


# -- the parts -------------------------------------------------------------------------


def ranks(quick: bool, factors: list[float]) -> list[dict[str, Any]]:
    rows = []
    for factor in [4.0] if quick else factors:
        kinds = ("synchronous", "found once", "asynchronous")
        for what in kinds[-1:] if quick else kinds:
            found = on_ranks(4, what, 10 if quick else 20_000, factor)
            row = {
                "slowed": factor,
                "run": what,
                **{
                    name: found.get(name)
                    for name in (
                        "outcome",
                        "seconds",
                        "iteration",
                        "fewest_steps",
                        "most_steps",
                        "stationarity",
                    )
                },
            }
            rows.append(row)
            print(f"ranks      {row}", flush=True)
    return rows


def waiting(quick: bool) -> dict[str, Any]:
    found = on_ranks(2, "waiting", 3 if quick else 30)
    share = found["share of a core"]
    verdict = "holds" if share < 0.05 else "missed"
    print(f"waiting    {100 * share:.1f} % of a core, limit 5 %: {verdict}")
    return found


def memory(quick: bool) -> dict[str, Any]:
    found = on_ranks(2, "memory", 100 if quick else 50_000)
    first, last = found["megabytes"][1], found["megabytes"][-1]
    verdict = "holds" if last - first <= 1 else "missed"
    print(f"memory     {first:.1f} MB, at the end {last:.1f} MB: {verdict}")
    return found


def heavy_tail(n: int) -> tuple[Any, Any, list[int]]:
    """Many agents with a logistic regression, whose steps take very different times."""
    draw = np.random.default_rng(n)
    periods = np.minimum(20, np.ceil(draw.pareto(1.5, n) + 1e-9)).astype(int)
    torch.manual_seed(0)
    problem = pm.LearningProblem(
        pm.models.logistic(123, 2),
        nn.functional.cross_entropy,
        pm.datasets.a9a().split(n),
        regularizer=pm.L1(1e-4),
        batch_size=64,
    )
    return problem, pm.graphs.random_regular(n, 4, seed=0), periods.tolist()


def simulated(quick: bool) -> list[dict[str, Any]]:
    slow_one = [(task(), pm.graphs.ring(4), [1, 1, 1, slow]) for slow in (1, 4, 8)]
    many = [heavy_tail(n) for n in (32, 128)]
    rows = []
    for problem, graph, periods in [heavy_tail(8)] if quick else [*slow_one, *many]:
        given: dict[str, Any] = {
            "steps": 20 if quick else 2000,
            "eval_every": 20,
            "kkt": False,
            "target": {"stationarity": TARGET},
            "progress": False,
        }
        waits = pm.solve(problem, pm.HSMADMM(), graph, **given).final
        links = [pm.links.Speeds(periods)]
        goes = pm.solve(
            problem, pm.HSMADMM(), graph, links=links, asynchronous=True, **given
        ).final
        row = {
            "agents": graph.n,
            "slowest": max(periods),
            "mean": sum(periods) / graph.n,
            "synchronous": waits["iteration"] * max(periods),
            "asynchronous": goes["simulated_time"],
            "stationarity": [waits["stationarity"], goes["stationarity"]],
        }
        rows.append(row)
        print(f"simulated  {row}", flush=True)
    return rows


def figure(found: dict[str, Any], out: Path) -> None:
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(7.2, 3.0), layout="constrained")
    left, right = drawn.subplots(1, 2, width_ratios=(3, 2))
    colors = {
        "synchronous": "#5c6bc0",
        "found once": "#9fa8da",
        "asynchronous": "#ef6c00",
    }
    for name, color in colors.items():
        rows = [row for row in found["ranks"] if row["run"] == name]
        x, y = [r["slowed"] for r in rows], [r["seconds"] for r in rows]
        left.plot(x, y, "o-", color=color, label=name)
    left.set(
        xscale="log",
        xlabel="one of four ranks is slower by",
        ylabel="seconds to target",
    )
    left.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    left.set_ylim(bottom=0)
    left.legend(frameon=False)
    many = [row for row in found["simulated"] if row["agents"] > 4]
    places = np.arange(len(many))
    for shift, name in ((-0.2, "synchronous"), (0.2, "asynchronous")):
        heights = [row[name] for row in many]
        right.bar(places + shift, heights, 0.38, color=colors[name], label=name)
    right.set_xticks(places, [f"{row['agents']} agents" for row in many])
    right.set_ylabel("simulated time to target")
    drawn.savefig(out, dpi=130)
    print(out)


def main() -> None:
    if sys.argv[1:2] == ["--rank"]:
        rank_main(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="does it work?")
    parser.add_argument("--only", choices=[*PARTS, "figure"], action="append")
    parser.add_argument(
        "--slowed", type=float, action="append", help="factors [1 2 4 8]"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    out, quick = arguments.out, arguments.quick
    found = json.loads(out.read_text()) if out.exists() else {}
    for part in arguments.only or PARTS:
        if part == "ranks":
            factors = arguments.slowed or [1.0, 2.0, 4.0, 8.0]
            new = ranks(quick, factors)
            kept = [r for r in found.get("ranks", []) if r["slowed"] not in factors]
            found["ranks"] = sorted([*kept, *new], key=lambda r: r["slowed"])
        elif part == "figure":
            figure(found, PICTURE)
        else:
            found[part] = {
                "waiting": waiting,
                "memory": memory,
                "simulated": simulated,
            }[part](quick)
    if not quick:
        out.parent.mkdir(exist_ok=True)
        out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
