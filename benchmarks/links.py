"""What imperfect links cost: steps, memory, bytes on the wire, and seconds.

    python benchmarks/links.py [--only step,bytes,clock] [--rounds 9]
    python benchmarks/links.py --quick

- step: a compiled step over links against the same step over perfect ones, in turns:
  loss 0.3 with 4 bits on a9a/MLP, 8 agents (at most 1.5 x), and outages on a
  Barabasi-Albert graph of 256 agents (at most 1.3 x); and the memory of both states.
- bytes: counters of network interfaces (namespaces, needs root) against what is
  counted, for whole and compressed vectors of 200,000 entries. At most 1.03 x.
- clock: an iteration whose messages really arrive late, on two ranks, against
  `simulated_seconds`. Within 10 %.

`--quick` measures once, at small sizes: does it work?
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from delayed import DelayedLink
from hosts import Hosts, why_not
from torch import Tensor

import proxmesh as pm
import proxmesh.network.links as L  # noqa: N812
from proxmesh.bench.tasks import mlp_problem
from proxmesh.bench.timing import Effort
from proxmesh.solver.compile_step import CompiledStep, NotCompiledError
from proxmesh.solver.suiting import suited_to
from proxmesh.types import advanced

PYTHON = Path(sys.executable)
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
ROUND = pm.HSMADMM(0.25, 0.5, 1.0)
STEPS: dict[str, tuple[int, str, list[Any], float]] = {
    "loss 0.3 + 4 bits": (8, "ring", [L.Loss(0.3), L.Compressed(L.Bits(4))], 1.5),
    "4 bits": (8, "ring", [L.Compressed(L.Bits(4))], 1.5),
    "outages": (256, "barabasi-albert", [L.Outages(0.5)], 1.3),
}
WIRES: dict[str, list[Any]] = {
    "whole": [],
    "4 bits": [L.Compressed(L.Bits(4))],
    "3 bits": [L.Compressed(L.Bits(3))],
    "top 10 %": [L.Compressed(L.TopK(0.1))],
    "loss 0.3 + 4 bits": [L.Loss(0.3), L.Compressed(L.Bits(4))],
    "local rounds 4": [L.Every(4)],
}
LATENCY, RATE = 0.04, 2e6


class Pulled:
    """``|x - t_i|^2 / 2``: gradients that cost nothing."""

    def __init__(self, agents: Any, p: int) -> None:
        draw = torch.Generator().manual_seed(0)
        self.targets = torch.randn(max(agents) + 1, p, generator=draw)[list(agents)]

    def sample(self, k: Any, size: Any = None, stream: int = 0) -> None:
        """Nothing is drawn."""
        del k, size, stream

    def grad(self, x: Tensor, batch: None) -> Tensor:
        """Row i: the gradient of agent i."""
        del batch
        return x - self.targets

    def prox(self, z: Tensor, step: Any) -> Tensor:
        """No penalty."""
        del step
        return z


def bytes_of(state: Any) -> int:
    """Memory of a state, of what links remember too."""
    names = {name for kind in type(state).__mro__ for name in _slots(kind)}
    values = [getattr(state, name) for name in names]
    return sum(v.numel() * v.element_size() for v in values if isinstance(v, Tensor))


def _slots(kind: Any) -> tuple[str, ...]:
    found: tuple[str, ...] = getattr(kind, "__slots__", ())
    return found


def _advancing(method: Any, problem: Any, world: Any, state: Any) -> Any:
    """The compiled step, or the plain one with the reason, as in a run."""
    try:
        return CompiledStep(method, problem, world, state)
    except NotCompiledError as error:
        print(f"not compiled: {error}")
        return lambda now: advanced(method, now, problem, world)


def step(effort: Effort) -> None:
    """Compiled steps over links and over perfect ones, in turns."""
    iterations = 5 if effort.quick else 60
    for name, (agents, graph, links, bound) in STEPS.items():
        if effort.quick and "loss" not in name:
            continue
        problem = mlp_problem(agents, 64 if agents <= 8 else 16)
        made = {}
        for kind, models in (("clean", []), ("links", links)):
            world: Any = pm.connect(pm.graphs.make(graph, agents), links=models)
            method: Any = ROUND
            if models:
                method = suited_to(ROUND, world.plan, problem.p)
                state = world.start(method, problem.x0(), problem)
            else:
                state = method.init(problem.x0(), problem, world)
            made[kind] = _advancing(method, problem, world, state), state
        times: dict[str, list[float]] = {"clean": [], "links": []}
        for _ in range(effort.rounds):
            for kind, (advance, state) in made.items():
                begin, now = time.perf_counter(), state
                for _ in range(iterations):
                    now = advance(now)
                times[kind].append((time.perf_counter() - begin) / iterations * 1e3)
        clean, over = (statistics.median(times[kind]) for kind in ("clean", "links"))
        sizes = [bytes_of(made[kind][1]) / 1e6 for kind in ("clean", "links")]
        print(f"{name}, {agents} agents, {graph}: {over:.3f} ms, clean {clean:.3f} ms")
        print(f"  {limit(over / clean, bound)}; state {sizes[1]:.1f} MB, "
              f"clean {sizes[0]:.1f} MB")  # fmt: skip


def wire(effort: Effort) -> dict[str, Any]:
    """Bytes that an interface really sends, against those that are counted."""
    counter = Path("/sys/class/net/eth0/statistics/tx_bytes")
    p, iterations = 200_000, 8 if effort.quick else 40
    found: dict[str, Any] = {}
    for name, models in WIRES.items():
        world: Any = pm.connect(pm.graphs.path(2), links=models)
        problem = Pulled(world.agents, p)
        rows = torch.zeros_like(problem.targets)
        if models:
            method: Any = suited_to(ROUND, world.plan, p)
            state = world.start(method, rows, problem)
        else:
            method, state = ROUND, ROUND.init(rows, problem, world)
        world.reduce(torch.zeros(1), "sum")
        before, counted = int(counter.read_text()), 0
        for k in range(1, iterations + 1):
            if models:
                state = world.advance(method, state, problem)
                counted += math.ceil(world.message_bits(k, p, 32) / 8)
            else:
                state = method.step(state, problem, world)
                counted += 4 * p
        time.sleep(0.5)  # acknowledgments
        mine = torch.tensor([int(counter.read_text()) - before]).double()
        measured = world.reduce(mine, "sum").item() / 2
        found[name] = {"measured": measured, "counted": float(counted)}
    return found


def clock(effort: Effort) -> dict[str, Any]:
    """Iterations with messages that really are late, against the modelled time."""
    models: list[L.Link] = [L.Latency(LATENCY), L.Bandwidth(RATE)]
    iterations = 4 if effort.quick else 20
    problem, graph = mlp_problem(2, 64), pm.graphs.path(2)
    found: dict[str, Any] = {}
    methods: dict[str, Any] = {"hsm-admm": ROUND, "deepstorm-v2": pm.DEEPSTORM()}
    for name, method in methods.items():
        options: Any = {"eval_every": iterations, "compile": False, "kkt": False}
        plain = pm.solve(
            problem, method, graph, iterations, engine="simulated", links=models,
            **options,
        )  # fmt: skip
        world: Any = pm.connect(graph, links=models)
        world.joined.link = DelayedLink(world.joined.link, LATENCY, RATE)
        late = pm.solve(problem, method, graph, iterations, engine=world, **options)
        table = plain.history["simulated_seconds"]
        found[name] = {
            "modelled": float(table.iloc[-1] - table.iloc[0]) / iterations,
            "measured": float(late.final["seconds"]) / iterations,
        }
    return found


def limit(ratio: float, bound: float, lower: float = 0.0) -> str:
    """A ratio, and whether it keeps its limit."""
    kept = "kept" if lower <= ratio <= bound else "MISSED"
    side = f"at most {bound:g}" if not lower else f"from {lower:g} to {bound:g}"
    return f"ratio {ratio:.3f} ({side}: {kept})"


PARTS = {"bytes": wire, "clock": clock}


def started(part: str, engine: str, effort: Effort, folder: Path) -> dict[str, Any]:
    """Run a part on two ranks; what the root found."""
    file = folder / f"{part}-{engine}.json"
    words = [str(PYTHON), __file__, "--part", part, "--into", str(file)]
    words += ["--quick"] * effort.quick
    env = {**os.environ, **ROOT, "OMP_NUM_THREADS": "1"}
    mpiexec = str(PYTHON.with_name("mpiexec"))
    if part == "bytes":
        with Hosts(2, folder / f"hosts-{engine}") as hosts:
            if engine == "mpi":
                launch = [mpiexec, "--host", "host0:1,host1:1", "-n", "2"]
                launch += ["--prtemca", "plm_ssh_agent", str(hosts.agent)]
                launch += ["--prtemca", "prte_if_include", "eth0"]
                launch += ["--mca", "btl_tcp_if_include", "eth0"]
                _run([hosts.command(0, [*launch, *words])], [env])
            else:
                env |= {"GLOO_SOCKET_IFNAME": "eth0", "WORLD_SIZE": "2"}
                env |= {"MASTER_ADDR": hosts.addresses[0], "MASTER_PORT": "29517"}
                env["LOCAL_WORLD_SIZE"] = "1"
                commands = [hosts.command(i, words) for i in range(2)]
                _run(commands, [{**env, "RANK": str(i)} for i in range(2)])
    elif engine == "mpi":
        _run([[mpiexec, "--map-by", ":OVERSUBSCRIBE", "-n", "2", *words]], [env])
    else:
        torchrun = [str(PYTHON.with_name("torchrun")), "--standalone"]
        _run([[*torchrun, "--nproc-per-node", "2", "--no-python", *words]], [env])
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _run(commands: list[list[str]], environments: list[dict[str, str]]) -> None:
    both = [
        subprocess.Popen(command, env=env)
        for command, env in zip(commands, environments, strict=True)
    ]
    if any(process.wait() for process in both):
        sys.exit("a rank failed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="step,bytes,clock")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="once, at small sizes")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--into", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    effort = Effort(1 if asked.quick else asked.rounds, asked.quick)
    torch.set_num_threads(1)
    if asked.part:
        found = PARTS[asked.part](effort)
        rank = int(os.environ.get("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))
        if rank == 0:
            Path(asked.into).write_text(json.dumps(found))
        return
    parts = asked.only.split(",")
    if "step" in parts:
        step(effort)
    engines = ["torch"] + ["mpi"] * PYTHON.with_name("mpiexec").exists()
    for part in [part for part in parts if part in PARTS]:
        missing = why_not() if part == "bytes" else None
        if missing is not None:
            print(f"{part}: left out, {missing}")
            continue
        for engine in engines:
            with tempfile.TemporaryDirectory() as folder:
                found = started(part, engine, effort, Path(folder))
            print(f"{part}, engine {engine}")
            for name, one in found.items():
                other = "counted" if part == "bytes" else "modelled"
                ratio = one["measured"] / one[other]
                bounds = (1.03, 1.0) if part == "bytes" else (1.1, 0.9)
                said = f"measured {one['measured']:,.4g}, {other} {one[other]:,.4g}"
                print(f"  {name}: {said}, {limit(ratio, *bounds)}")


if __name__ == "__main__":
    main()
