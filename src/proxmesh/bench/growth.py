"""How an iteration grows with the number of agents and of parameters."""

from collections.abc import Callable

from proxmesh.bench.report import Finding, Ratio
from proxmesh.bench.tasks import Task, mlp
from proxmesh.bench.timing import Spread, Times, in_turns
from proxmesh.solver.malloc import reuse_large_blocks

__all__ = ["growth"]

AGENTS = (8, 64, 256, 1024)
HIDDEN = (16, 64, 256, 1024)
SECONDS_A_TURN = 0.5


def growth(rounds: int) -> Finding:
    """a9a/MLP, batch 16: an agent has 31 rows when there are 1,024."""
    tasks = {f"n={n}": mlp(n, batch=16) for n in AGENTS}
    reuse_large_blocks(tasks[f"n={AGENTS[-1]}"].state.x)  # as a run does
    times = in_turns(_both(tasks), rounds, SECONDS_A_TURN)
    each: Times = {
        name: _scaled(spread, 1e3 / int(name.partition("=")[2].split(",")[0]))
        for name, spread in times.items()
    }
    wide = {f"p={(t := mlp(8, 16, hidden=h)).problem.p}": t for h in HIDDEN}
    wider = in_turns(_both(wide), rounds)
    per_parameter = {
        name: _scaled(spread, 1e6 / int(name.partition("=")[2].split(",")[0]))
        for name, spread in wider.items()
    }
    named = {f"{name}, us an agent": spread for name, spread in each.items()}
    named |= {f"{name}, ns a parameter": s for name, s in per_parameter.items()}
    ratios = [
        Ratio(
            f"an agent at n=1024 / at n=64, {mode}",
            each[f"n=1024, {mode}"].median / each[f"n=64, {mode}"].median,
            at_most=1.2,
        )
        for mode in ("eager", "compiled")
    ]
    return Finding(
        "growth",
        "a9a/MLP on a ring, batch 16: growth with agents and parameters",
        unit="see each",
        measured=named,
        ratios=ratios,
    )


def _both(tasks: dict[str, Task]) -> dict[str, Callable[[int], float]]:
    columns: dict[str, Callable[[int], float]] = {}
    for name, task in tasks.items():
        compiled = task.compiled()
        columns[f"{name}, eager"] = task.iterating(task.step)
        columns[f"{name}, compiled"] = task.iterating(compiled)
    return columns


def _scaled(spread: Spread, factor: float) -> Spread:
    return Spread(spread.median * factor, spread.low * factor, spread.high * factor)
