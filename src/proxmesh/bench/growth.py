"""How an iteration grows with the number of agents and of parameters."""

from collections.abc import Callable

from proxmesh.bench.report import Measurement, Ratio
from proxmesh.bench.tasks import Task, mlp
from proxmesh.bench.timing import Effort, Spread, Times, in_turns
from proxmesh.solver.malloc import reuse_large_blocks

__all__ = ["growth"]

AGENTS, COMPARED = [8, 64, 256, 1024], (64, 1024)
HIDDEN = [16, 64, 256, 1024]
SECONDS_PER_TURN = 0.5


def growth(effort: Effort) -> Measurement:
    """a9a/MLP, batch 16: each of 1,024 agents has 31 rows."""
    agents, compared, widths = AGENTS, COMPARED, HIDDEN
    if effort.quick:
        agents, compared, widths = [4, 8], (4, 8), [4]
    by_agents = {f"n={n}": mlp(n, batch=16) for n in agents}
    few, many = (f"n={n}" for n in compared)
    reuse_large_blocks(by_agents[many].state.x)  # as a run does
    times = in_turns(_both(by_agents), effort, SECONDS_PER_TURN)
    per_agent = _divided(times, 1e3)
    by_width = {f"p={(t := mlp(8, 16, hidden=h)).problem.p}": t for h in widths}
    per_parameter = _divided(in_turns(_both(by_width), effort), 1e6)
    named = {f"{name}, us per agent": spread for name, spread in per_agent.items()}
    named |= {f"{name}, ns per parameter": s for name, s in per_parameter.items()}
    ratios = [
        Ratio(
            f"per agent at {many} / at {few}, {mode}",
            per_agent[f"{many}, {mode}"].median / per_agent[f"{few}, {mode}"].median,
            at_most=1.2,
        )
        for mode in ("eager", "compiled")
    ]
    return Measurement(
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


def _divided(times: Times, unit: float) -> Times:
    """Each time in this unit (of which a millisecond has so many) by its count."""
    found: Times = {}
    for name, spread in times.items():
        factor = unit / int(name.partition("=")[2].split(",")[0])  # of "n=8, eager"
        low, high = spread.low * factor, spread.high * factor
        found[name] = Spread(spread.median * factor, low, high)
    return found
