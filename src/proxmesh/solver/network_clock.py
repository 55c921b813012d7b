"""How long a run would have taken on links with a bandwidth and a latency."""

from collections.abc import Mapping, Sequence

from proxmesh.solver.costs import Costs
from proxmesh.types import World, has_links

__all__ = ["COLUMN", "on_the_network"]

COLUMN = "simulated_seconds"


def on_the_network(
    world: World,
    costs: Costs,
    rows: Sequence[Mapping[str, float]],
    k: int,
    seconds: float,
) -> dict[str, float]:
    """The column of the history, where the links of a network take time.

    Computing is measured, and messages are modelled: what was computed since the last
    row is spread over its iterations and over the agents of this process, each of which
    would have a machine of its own. A row follows from the one before it, so a run that
    was resumed goes on.

    Parameters
    ----------
    world
        The network.
    costs
        What the method declares.
    rows
        The history so far.
    k
        Finished iterations.
    seconds
        Of computing, so far.
    """
    if not (has_links(world) and world.is_timed):
        return {}
    before: Mapping[str, float] = {"iteration": -1, "seconds": seconds, COLUMN: 0.0}
    if rows:
        before = rows[-1]
    done = int(before["iteration"])
    steps = max(k - done, 1)
    compute = (seconds - before["seconds"]) / steps / max(len(world.agents), 1)
    total = before[COLUMN]
    for iteration in range(done + 1, k + 1):
        cost = costs.algorithm.cost(iteration)
        bits = costs.bits_of(cost)
        total += world.seconds_of(compute, cost, iteration, bits)
    return {COLUMN: total}
