"""Which process holds which agents: blocks of equal size that cut few edges."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import networkx as nx
from networkx.algorithms.community import kernighan_lin_bisection

from proxmesh.errors import InputError
from proxmesh.graphs import Graph

__all__ = ["Placement", "place"]

REFINED_UP_TO = 4096  # agents; with more, Kernighan-Lin takes seconds


@final
@dataclass(frozen=True)
class Placement:
    """The agents of every rank, in ascending order.

    Examples
    --------
    >>> from proxmesh import graphs
    >>> print(place(graphs.ring(8), 3))
    agents 0-2 | 3-5 | 6-7, 3 of 8 edges between ranks
    """

    graph: Graph
    blocks: tuple[tuple[int, ...], ...]

    @cached_property
    def home(self) -> dict[int, int]:
        """The rank of each agent."""
        return {agent: r for r, block in enumerate(self.blocks) for agent in block}

    @cached_property
    def cut(self) -> int:
        """Edges whose ends live on two ranks."""
        return sum(self.home[i] != self.home[j] for i, j in self.graph.edges)

    def sent(self, source: int, target: int) -> tuple[int, ...]:
        """Agents of one rank whose rows another needs, each once, ascending."""
        return self._sent.get((source, target), ())

    def peers(self, rank: int) -> tuple[int, ...]:
        """Ranks that a rank exchanges rows with, ascending."""
        return tuple(sorted(b for a, b in self._sent if a == rank))

    @property
    def crossing_rows(self) -> int:
        """Rows that cross a process boundary in one exchange, both directions."""
        return sum(map(len, self._sent.values()))

    @cached_property
    def _sent(self) -> dict[tuple[int, int], tuple[int, ...]]:
        wanted: dict[tuple[int, int], set[int]] = {}
        for i, j in self.graph.edges:
            for source, target in ((i, j), (j, i)):
                ranks = self.home[source], self.home[target]
                if ranks[0] != ranks[1]:
                    wanted.setdefault(ranks, set()).add(source)
        return {ranks: tuple(sorted(agents)) for ranks, agents in wanted.items()}

    def who(self, rank: int) -> str:
        """Name a rank and its agents, for messages."""
        return f"rank {rank} ({agents_in_words(self.blocks[rank])})"

    def __str__(self) -> str:
        blocks = " | ".join(spans(block) for block in self.blocks)
        edges = len(self.graph.edges)
        return f"agents {blocks}, {self.cut} of {edges} edges between ranks"


def place(graph: Graph, ranks: int) -> Placement:
    """Deal the agents out to ranks in blocks whose sizes differ by at most one.

    Agents are halved again and again: once along their numbers and once along a
    breadth-first order, each improved by Kernighan-Lin swaps; the division that cuts
    fewer edges is taken. Every process finds the same one.

    Parameters
    ----------
    graph
        Who talks to whom.
    ranks
        Number of processes.
    """
    if ranks > graph.n:
        raise InputError(
            f"{ranks} processes were started, but graph `{graph}` has {graph.n} "
            f"agents. Start {graph.n} processes or fewer, or use more agents."
        )
    sizes = [graph.n // ranks + (r < graph.n % ranks) for r in range(ranks)]
    blocks = _split(graph.to_networkx(), sizes)
    return Placement(graph, tuple(sorted(tuple(sorted(block)) for block in blocks)))


def spans(agents: Sequence[int]) -> str:
    """Write ascending numbers as short as possible.

    Examples
    --------
    >>> spans([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    runs: list[list[int]] = []
    for agent in agents:
        if runs and agent == runs[-1][-1] + 1:
            runs[-1].append(agent)
        else:
            runs.append([agent])
    return ", ".join(
        f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs
    )


def agents_in_words(agents: Sequence[int]) -> str:
    """Name one agent or several."""
    return f"agent{'s' if len(agents) > 1 else ''} {spans(agents)}"


def _split(g: "nx.Graph[int]", sizes: list[int]) -> list[list[int]]:
    if len(sizes) == 1:
        return [sorted(g.nodes)]
    middle = (len(sizes) + 1) // 2
    first = sum(sizes[:middle])
    orders = sorted(g.nodes), _breadth_first(g)
    halves = [_halves(g, order, first) for order in orders]
    left, right = min(halves, key=lambda pair: nx.cut_size(g, *pair))
    return [
        *_split(nx.Graph(g.subgraph(left)), sizes[:middle]),
        *_split(nx.Graph(g.subgraph(right)), sizes[middle:]),
    ]


def _halves(
    g: "nx.Graph[int]", order: list[int], first: int
) -> tuple[set[int], set[int]]:
    halves = set(order[:first]), set(order[first:])
    if len(g) > REFINED_UP_TO:
        return halves
    left, right = kernighan_lin_bisection(g, halves, seed=0)
    swapped = len(left) != first  # networkx may return them the other way round
    return (right, left) if swapped else (left, right)


def _breadth_first(g: "nx.Graph[int]") -> list[int]:
    """Order agents breadth-first from one at the rim, one connected piece at a time."""
    order: list[int] = []
    for piece in sorted(nx.connected_components(g), key=min):
        part = g.subgraph(piece)
        far = list(nx.bfs_tree(part, min(piece)))[-1]
        order += list(nx.bfs_tree(part, far))
    return order
