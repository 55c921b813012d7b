"""What ranks gain, what hides behind gradients, and what is on the wire.

    python benchmarks/distributed.py [--only ranks,overlap,bytes,exchange] [--rounds 9]
    python benchmarks/distributed.py --quick

Each part starts two ranks under `mpiexec`, and under `torch.distributed` where that
makes sense, one thread each, and measures both sides of every ratio in turns in the
same processes. Results go to benchmarks/results/distributed.json, or
to the file that `--out` names. `--quick` measures once and writes only to `--out`: does
it work? What this machine cannot do is left out.

- ranks: an iteration of 8 agents on two ranks against the simulated engine. At least
  1.6 x faster for LeNet on two cores.
- overlap: every message is delayed by the time that an iteration computes. HSM-ADMM
  takes at most 1.15 x the longer of the two, DEEPSTORM v2 at least 1.8 x.
- bytes: counters of network interfaces (namespaces) against 4 p x rows that cross.
- exchange: against a bare neighbor collective of MPI of the same size. At most 1.2 x
  from 4 MB on, at most 150 microseconds more at 100 kB.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from delayed import DelayedLink
from hosts import Hosts, why_not
from torch import Tensor

import proxmesh as pm
from proxmesh.bench.tasks import lenet_problem, mlp_problem
from proxmesh.bench.timing import Effort
from proxmesh.solver.compile_gradients import CompiledGradients
from proxmesh.solver.compile_step import CompiledStep
from proxmesh.solver.malloc import reuse_large_blocks

RESULTS = Path(__file__).parent / "results" / "distributed.json"
PYTHON = Path(sys.executable)
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
TASKS: dict[str, tuple[Callable[[], Any], int]] = {  # and iterations of a turn
    "lenet": (lambda: lenet_problem(8, 500), 6),
    "mlp": (lambda: mlp_problem(8, 64), 80),
}
METHODS: dict[str, Any] = {
    "hsm-admm": pm.HSMADMM(0.25, 0.5, 1.0),
    "deepstorm-v2": pm.DEEPSTORM(),
}
SIZES = {"100 kB": 25_000, "1 MB": 250_000, "4 MB": 1_000_000, "16 MB": 4_000_000}


# -- what the ranks do -----------------------------------------------------------------


class Stepping:
    """A method on a problem and a world, some iterations on its way."""

    def __init__(self, problem: Any, world: Any, method: Any = None) -> None:
        self.method = method or pm.HSMADMM(0.25, 0.5, 1.0)
        self.problem, self.world = problem, world
        self.state = self.method.init(problem.x0(), problem, world)
        self.advance: Callable[[Any], Any] = self.plain
        self.run(5)

    def plain(self, state: Any) -> Any:
        """One iteration."""
        return self.method.step(state, self.problem, self.world)

    def compiled(self) -> "Stepping":
        """From now on with the compiled step."""
        self.advance = CompiledStep(self.method, self.problem, self.world, self.state)
        self.run(5)
        return self

    def with_gradients(self) -> "Stepping":
        """From now on with compiled gradients."""
        self.problem = CompiledGradients(
            self.method, self.problem, self.world, self.state
        )
        self.run(5)
        return self

    def run(self, iterations: int) -> float:
        """Milliseconds of an iteration."""
        begin = time.perf_counter()
        for _ in range(iterations):
            self.state = self.advance(self.state)
        return (time.perf_counter() - begin) / iterations * 1e3


def together(world: Any) -> None:
    world.reduce(torch.zeros(len(world.agents)), "sum")


def ranks(effort: Effort) -> dict[str, Any]:
    """Two ranks of 4 agents against one process of 8."""
    found: dict[str, Any] = {}
    for name, (build, per_turn) in TASKS.items():
        problem, iterations = build(), 1 if effort.quick else per_turn
        graph = pm.graphs.ring(8)
        world = pm.connect(graph)
        alone = {}
        if world.is_root:
            here = pm.connect(graph, "simulated")
            alone["simulated"] = Stepping(problem, here)
            if name == "mlp":
                alone["simulated, compiled"] = Stepping(problem, here).compiled()
        split = {"two ranks": Stepping(problem.local(world.agents), world)}
        if name == "mlp":
            fast = Stepping(problem.local(world.agents), world).with_gradients()
            split["two ranks, compiled gradients"] = fast
        times: dict[str, list[float]] = {key: [] for key in (*alone, *split)}
        for _ in range(effort.rounds):
            for key, stepping in alone.items():
                times[key].append(stepping.run(iterations))
            for key, stepping in split.items():
                together(world)
                times[key].append(stepping.run(iterations))
            together(world)
        found[name] = medians(times)
    return found


def overlap(effort: Effort) -> dict[str, Any]:
    """Every message late by what an iteration computes."""
    problem = TASKS["lenet"][0]()
    found: dict[str, Any] = {}
    for name, method in METHODS.items():
        world: Any = pm.connect(pm.graphs.ring(8))
        stepping = Stepping(problem.local(world.agents), world, method)
        quick = world.link
        times: dict[str, list[float]] = {"without delay": [], "delayed": []}
        compute = statistics.median(stepping.run(4) for _ in range(5)) / 1e3
        compute = world.reduce(torch.full((4,), compute), "mean").item()
        for _ in range(effort.rounds):
            world.link = quick
            together(world)
            times["without delay"].append(stepping.run(5))
            world.link = DelayedLink(quick, compute)
            together(world)
            times["delayed"].append(stepping.run(5))
        sent = method.cost(1).vectors * 4 * problem.p * world.placement.crossing_rows
        found[name] = {
            "delay": compute * 1e3,
            **medians(times),
            "MB per iteration": sent / 1e6,
        }
    return found


def wire(effort: Effort) -> dict[str, Any]:
    """Bytes that an interface really sends, against those that are counted."""
    counter = Path("/sys/class/net/eth0/statistics/tx_bytes")
    problem = TASKS["lenet"][0]()
    found: dict[str, Any] = {}
    for name, method in METHODS.items():
        world: Any = pm.connect(pm.graphs.ring(8))
        stepping = Stepping(problem.local(world.agents), world, method)
        together(world)
        before, iterations = int(counter.read_text()), 5 if effort.quick else 50
        stepping.run(iterations)
        time.sleep(0.5)  # acknowledgments
        mine = (int(counter.read_text()) - before) / iterations
        rows = torch.full((4,), mine / 4, dtype=torch.float64)
        counted = method.cost(1).vectors * 4 * problem.p * world.placement.crossing_rows
        found[name] = {
            "measured": world.reduce(rows, "sum").item(),
            "counted": counted,
        }
    return found


def exchange(effort: Effort) -> dict[str, Any]:
    """An exchange against a bare collective on the same neighborhood."""
    from mpi4py import MPI

    world: Any = pm.connect(pm.graphs.path(2))
    other = 1 - MPI.COMM_WORLD.rank
    neighborhood = MPI.COMM_WORLD.Create_dist_graph_adjacent([other], [other])
    found: dict[str, Any] = {}
    reuse_large_blocks(torch.empty(1, max(SIZES.values())))  # as every run does
    for name, size in SIZES.items():
        work = _ways(world, neighborhood, torch.randn(1, size))
        repeats = 1 if effort.quick else max(10, 4_000_000 // size)
        times: dict[str, list[float]] = {key: [] for key in work}
        for _ in range(effort.rounds + 1):
            for key, call in work.items():
                together(world)
                begin = time.perf_counter()
                for _ in range(repeats):
                    call()
                times[key].append((time.perf_counter() - begin) / repeats * 1e6)
        found[name] = medians({key: values[1:] for key, values in times.items()})
    return found


def _ways(world: Any, neighborhood: Any, x: Tensor) -> dict[str, Callable[[], Any]]:
    out, into = x.numpy(), torch.empty_like(x).numpy()
    return {
        "bare": lambda: neighborhood.Neighbor_alltoall(out, into),
        "exchange": lambda: world.exchange(x).wait(),
        "with the product": lambda: world.exchange(x).laplacian(),
    }


def medians(times: dict[str, list[float]]) -> dict[str, float]:
    return {key: statistics.median(values) for key, values in times.items() if values}


PARTS = {"ranks": ranks, "overlap": overlap, "bytes": wire, "exchange": exchange}


# -- starting them ---------------------------------------------------------------------


def started(part: str, engine: str, effort: Effort, folder: Path) -> dict[str, Any]:
    """Run a part on two ranks; what the root found."""
    file = folder / f"{part}-{engine}.json"
    words = [str(PYTHON), __file__, "--part", part, "--into", str(file)]
    words += ["--rounds", str(effort.rounds), *["--quick"] * effort.quick]
    env = {**os.environ, **ROOT, "OMP_NUM_THREADS": "1"}
    if part == "bytes":
        _on_two_hosts(words, engine, env, folder)
    elif engine == "mpi":
        _run([str(PYTHON.with_name("mpiexec")), "-n", "2", *words], env)
    else:
        torchrun = [str(PYTHON.with_name("torchrun")), "--standalone"]
        _run([*torchrun, "--nproc-per-node", "2", "--no-python", *words], env)
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _on_two_hosts(
    words: list[str], engine: str, env: dict[str, str], folder: Path
) -> None:
    with Hosts(2, folder / "hosts") as hosts:
        if engine == "mpi":
            launch = [str(PYTHON.with_name("mpiexec")), "--host", "host0:1,host1:1"]
            launch += ["--prtemca", "plm_ssh_agent", str(hosts.agent)]
            launch += ["--prtemca", "prte_if_include", "eth0"]
            launch += ["--mca", "btl_tcp_if_include", "eth0", "-n", "2"]
            _run(hosts.command(0, [*launch, *words]), env)
            return
        env = {**env, "GLOO_SOCKET_IFNAME": "eth0", "WORLD_SIZE": "2"}
        env |= {"MASTER_ADDR": hosts.addresses[0], "MASTER_PORT": "29512"}
        env["LOCAL_WORLD_SIZE"] = "1"
        both = [
            subprocess.Popen(hosts.command(i, words), env={**env, "RANK": str(i)})
            for i in range(2)
        ]
        if any(process.wait() for process in both):
            sys.exit("a rank failed")


def _run(command: list[str], env: dict[str, str]) -> None:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


# -- reading them ----------------------------------------------------------------------


def show(part: str, engine: str, found: dict[str, Any]) -> None:
    print(f"\n{part}, engine {engine}")
    for name, values in found.items():
        row = "  ".join(f"{key} {value:,.4g}" for key, value in values.items())
        print(f"  {name:<13}{row}")
        for text in verdicts(part, name, values):
            print(f"  {'':<13}{text}")


def verdicts(part: str, name: str, values: dict[str, float]) -> list[str]:
    if part == "ranks":
        pairs = [("simulated", "two ranks")]
        if name == "mlp":
            pairs += [("simulated, compiled", "two ranks, compiled gradients")]
        return [
            limit(f"{a} / {b}", values[a] / values[b], 1.6, name == "lenet")
            for a, b in pairs
        ]
    if part == "overlap":
        longer = max(values["without delay"], values["delay"])
        ratio = values["delayed"] / longer
        text = "delayed / longer of computing and delay"
        rate = values["delayed"] / values["MB per iteration"]
        return [
            limit(text, ratio, 1.8) if "deep" in name else limit(text, ratio, -1.15),
            f"{rate:.1f} ms per MB sent",
        ]
    if part == "bytes":
        return [
            limit("measured / counted", values["measured"] / values["counted"], -1.03)
        ]
    ratio = values["exchange"] / values["bare"]
    more = values["exchange"] - values["bare"]
    if name in {"4 MB", "16 MB"}:
        return [limit("exchange / bare", ratio, -1.2)]
    return [limit("exchange - bare, microseconds", more, -150, name == "100 kB")]


def limit(text: str, value: float, bound: float, applies: bool = True) -> str:
    """A ratio and whether it keeps its limit; negative bounds are upper ones."""
    if not applies:
        return f"{text}: {value:.2f}"
    kept = value <= -bound if bound < 0 else value >= bound
    side = "at most" if bound < 0 else "at least"
    return (
        f"{text}: {value:.2f} ({side} {abs(bound):g}: {'kept' if kept else 'MISSED'})"
    )


def left_out(part: str, engine: str) -> str | None:
    """Why this machine cannot measure a part; None if it can."""
    if engine == "mpi" and not PYTHON.with_name("mpiexec").exists():
        return "mpiexec is not installed (pip install 'proxmesh[mpi]')"
    return why_not() if part == "bytes" else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="one round of each")
    parser.add_argument("--out", type=Path, help="file of the results")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--into", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    effort = Effort(1 if asked.quick else asked.rounds, asked.quick)
    if asked.part:
        torch.set_num_threads(1)
        found = PARTS[asked.part](effort)
        rank = int(os.environ.get("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))
        if rank == 0:
            Path(asked.into).write_text(json.dumps(found))
        return
    out = asked.out or (None if asked.quick else RESULTS)
    results = json.loads(out.read_text()) if out and out.exists() else {}
    for part in asked.only.split(","):
        for engine in ("mpi",) if part == "exchange" else ("mpi", "torch"):
            reason = left_out(part, engine)
            if reason:
                print(f"\n{part}, engine {engine}: left out, {reason}")
                continue
            with tempfile.TemporaryDirectory() as folder:
                found = started(part, engine, effort, Path(folder))
            results[f"{part}, {engine}"] = found
            show(part, engine, found)
    if out:
        out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
