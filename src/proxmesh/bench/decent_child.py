"""Runs under decent-bench's own interpreter: times its iterations on request.

Reads lines ``METHOD REPETITIONS`` and answers each with the seconds of one iteration,
which is one gradient of every agent. Nothing of it can be imported anywhere else, so
its imports stand where they are used.
"""

import sys
import time
from typing import Any

FEATURES, ROWS, BATCH = 123, 200, 64
NEVER = 10**9  # iterations between snapshots


def network_of(agents: int) -> Any:
    """Make a ring of agents with random shards."""
    import networkx as nx
    import numpy as np
    from decent_array import Array
    from decent_bench.agents import Agent
    from decent_bench.costs import LogisticRegressionCost
    from decent_bench.networks import P2PNetwork

    rng = np.random.default_rng(0)
    members = []
    for _ in range(agents):
        inputs = (rng.random((ROWS, FEATURES)) < 0.11).astype(float)
        labels = (rng.random((ROWS, 1)) < 0.24).astype(float)
        pairs = [(Array(x), Array(y)) for x, y in zip(inputs, labels, strict=True)]
        cost = LogisticRegressionCost(pairs, batch_size=BATCH)
        members.append(Agent(cost, state_snapshot_period=NEVER))
    return P2PNetwork(nx.cycle_graph(agents), members)


def main() -> None:
    """Answer requests until there are no more."""
    from decent_array import interoperability
    from decent_bench.algorithms.p2p import DLM, ATC_Tracking

    interoperability.set_backend("numpy")
    ready = {}
    for method in (ATC_Tracking(step_size=0.05), DLM()):
        network = network_of(int(sys.argv[1]))
        method.initialize(network)
        ready[type(method).__name__] = (method, network)
    k = 0
    for line in sys.stdin:
        name, repetitions = line.split()
        method, network = ready[name]
        begin = time.perf_counter()
        for _ in range(int(repetitions)):
            network._step(k)
            method.step(network, k)
            k += 1
        print((time.perf_counter() - begin) / int(repetitions), flush=True)


if __name__ == "__main__":
    main()
