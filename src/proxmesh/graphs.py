"""Topologies: who talks to whom.

Every constructor takes the number of agents first and returns a connected, undirected
`Graph` without self loops, or says in one line why it cannot.

Examples
--------
>>> graph = ring(8)
>>> graph.n, graph.degrees.tolist(), len(graph.edges)
(8, [2, 2, 2, 2, 2, 2, 2, 2], 8)
>>> round(graph.mixing_lambda, 4)
0.8047
"""

import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import eigsh

from proxmesh.construct import construct
from proxmesh.errors import InputError, shortened, unknown
from proxmesh.files import read_text
from proxmesh.limits import require_memory

__all__ = [
    "CONSTRUCTORS",
    "Graph",
    "as_graph",
    "barabasi_albert",
    "complete",
    "erdos_renyi",
    "from_edges",
    "from_file",
    "from_networkx",
    "grid",
    "hypercube",
    "ladder",
    "make",
    "path",
    "random_8",
    "random_regular",
    "ring",
    "star",
    "topology",
    "torus",
    "watts_strogatz",
]

DENSE_UP_TO = 64
"""Agents up to which matrices are always dense."""

DENSE_FROM = 0.2
"""Share of entries that are not 0 from which a dense product is faster."""

REDRAWS = 100
"""Draws of a random graph with default density before giving up on connectivity."""

BYTES_PER_LINK = 1_000
"""Memory that an agent or a link takes while a graph is built, roughly."""

MOST_LINKS = 5_000_000
"""Agents and links beyond which a graph is refused: building it takes minutes."""

MOST_DRAWN = 20_000
"""Agents of which every pair can be drawn within a minute or two."""

LARGEST_FILE = 2**28
"""Bytes of a file of edges."""

LONGEST_ID = 18
"""Digits of an agent in a file."""

FloatArray = NDArray[np.float64]
Matrix = FloatArray | sparse.csr_array[np.float64]


@dataclass(frozen=True)
class Graph:
    """A connected undirected graph on the agents 0 .. n-1.

    The constructors of this module build the usual ones; `from_edges` and
    `from_networkx` take your own.

    Parameters
    ----------
    n
        Number of agents, at least 2.
    edges
        Pairs (i, j) of agents; order and repetition do not matter.
    name
        What messages and records call it.
    options
        What it was built with, such as ``{"prob": 0.5, "seed": 0}``. They are shown
        after the name; two graphs that differ only here are equal.

    Examples
    --------
    >>> graph = Graph(3, ((0, 1), (2, 1)), "mine")
    >>> print(graph)
    mine(n=3)
    >>> graph.edges, graph.degrees.tolist()
    (((0, 1), (1, 2)), [1, 2, 1])
    >>> Graph(4, ((0, 1), (2, 3)))
    Traceback (most recent call last):
    proxmesh.errors.InputError: graph `edges(n=4)` has 2 connected components; ...
    """

    n: int
    edges: tuple[tuple[int, int], ...]
    name: str = "edges"
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if self.n < 2:
            raise InputError(
                f"graph `{self}` has n={self.n}; a network needs at least 2 agents."
            )
        for i, j in self.edges:
            if i == j:
                raise InputError(
                    f"graph `{self}` has a self loop at agent {i}. Remove the edge "
                    f"({i}, {i}): an agent needs no link to itself."
                )
            if not (0 <= i < self.n and 0 <= j < self.n):
                raise InputError(
                    f"graph `{self}` has the edge ({i}, {j}), but its agents are "
                    f"0 to {self.n - 1}."
                )
        edges = sorted({(min(e), max(e)) for e in self.edges})
        object.__setattr__(self, "edges", tuple(edges))
        pieces = self._pieces()
        if pieces > 1:
            raise InputError(
                f"graph `{self}` has {pieces} connected components; consensus needs 1. "
                + self._remedy()
            )

    def _pieces(self) -> int:
        """Number of connected components; agents without a link need no memory."""
        linked: nx.Graph[int] = nx.Graph(self.edges)
        return nx.number_connected_components(linked) + self.n - len(linked)

    def __str__(self) -> str:
        options = "".join(f", {k}={v}" for k, v in self.options.items())
        return f"{self.name}(n={self.n}{options})"

    def _remedy(self) -> str:
        if "prob" in self.options:
            return "Raise `prob` or change `seed`."
        return "Add edges between them."

    def to_networkx(self) -> "nx.Graph[int]":
        """Return the same graph as a networkx object, with the agents as its nodes."""
        g: nx.Graph[int] = nx.Graph()
        g.add_nodes_from(range(self.n))
        g.add_edges_from(self.edges)
        return g

    @cached_property
    def adjacency(self) -> sparse.csr_array[np.float64]:
        """The 0/1 matrix Adj, ``[n, n]``, sparse: 1 where two agents are neighbors."""
        i, j = np.array(self.edges).T
        ones = np.ones(len(self.edges))
        upper = sparse.coo_array((ones, (i, j)), shape=(self.n, self.n))
        return sparse.csr_array(upper + upper.T)

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """d_i, ``[n]``: the number of neighbors, the agent itself not counted."""
        return np.asarray(self.adjacency.sum(axis=1)).astype(np.int64)

    @property
    def max_degree(self) -> int:
        """The largest degree."""
        return int(self.degrees.max())

    @cached_property
    def laplacian(self) -> Matrix:
        """``L = D - Adj``: dense for few agents or many edges, otherwise sparse.

        Examples
        --------
        >>> print(path(3).laplacian)
        [[ 1. -1.  0.]
         [-1.  2. -1.]
         [ 0. -1.  1.]]
        """
        matrix = sparse.diags_array(self.degrees.astype(float)) - self.adjacency
        return self._stored(sparse.csr_array(matrix))

    @cached_property
    def mixing(self) -> Matrix:
        """W with Metropolis weights: symmetric and doubly stochastic.

        ``w_ij = 1 / (1 + max(d_i, d_j))`` on edges, ``w_ii = 1 - sum_j w_ij``.

        Examples
        --------
        >>> print(path(3).mixing.round(2))
        [[0.67 0.33 0.  ]
         [0.33 0.33 0.33]
         [0.   0.33 0.67]]
        """
        i, j = np.array(self.edges).T
        weight = 1 / (1 + np.maximum(self.degrees[i], self.degrees[j]))
        upper = sparse.coo_array((weight, (i, j)), shape=(self.n, self.n))
        links = sparse.csr_array(upper + upper.T)
        own = 1 - np.asarray(links.sum(axis=1))
        return self._stored(sparse.csr_array(links + sparse.diags_array(own)))

    @cached_property
    def algebraic_connectivity(self) -> float:
        """Second smallest eigenvalue of L; 0 would mean disconnected.

        Examples
        --------
        >>> [round(g.algebraic_connectivity, 4) for g in (ring(8), path(8))]
        [0.5858, 0.1522]
        """
        if isinstance(self.laplacian, np.ndarray):
            return float(np.linalg.eigvalsh(self.laplacian)[1])
        # Shift-invert just below 0 finds the smallest eigenvalues in a few solves: the
        # second is at least 4 / n^2, so that the shift is nearer to 0 than it is.
        found = eigsh(
            self.laplacian.tocsc(), k=2, sigma=-1 / self.n**2, return_eigenvectors=False
        )
        return float(np.sort(found)[1])

    @cached_property
    def mixing_lambda(self) -> float:
        """Second largest absolute eigenvalue of W.

        One mixing multiplies the disagreement between agents by at most this.

        Examples
        --------
        >>> [round(g.mixing_lambda, 4) for g in (ring(8), path(8))]
        [0.8047, 0.9493]
        """
        if isinstance(self.mixing, np.ndarray):
            return float(np.sort(np.abs(np.linalg.eigvalsh(self.mixing)))[-2])
        shift = 1 + 1 / self.n**2
        top = eigsh(self.mixing.tocsc(), k=2, sigma=shift, return_eigenvectors=False)
        second = float(np.sort(top)[0])
        if second >= 1 - 2 * self.mixing.diagonal().min():  # Gershgorin: none is below
            return second
        low = eigsh(self.mixing, k=1, which="SA", return_eigenvectors=False)
        return float(max(second, -low[0]))

    def _stored(self, matrix: "sparse.csr_array[np.float64]") -> Matrix:
        dense = self.n <= DENSE_UP_TO or matrix.nnz > DENSE_FROM * self.n**2
        return matrix.toarray() if dense else matrix


Build = TypeVar("Build", bound=Callable[..., Graph])

CONSTRUCTORS: dict[str, Callable[..., Graph]] = {}
"""Every named topology by its command-line name."""


def topology(build: Build) -> Build:
    """Register a constructor under its command-line name; refuse fewer than 2 agents.

    Parameters
    ----------
    build
        A function of the number of agents, and of options if it likes. Underscores in
        its name become hyphens: ``--graph random-regular`` calls `random_regular`.

    Examples
    --------
    >>> CONSTRUCTORS["star"] is star
    True
    >>> ring(1)
    Traceback (most recent call last):
    proxmesh.errors.InputError: graph `ring` needs at least 2 agents, got n=1.
    """
    name = build.__name__.replace("_", "-")

    @wraps(build)
    def checked(n: int, *args: Any, **options: Any) -> Graph:
        if not (isinstance(n, int | np.integer) and n >= 2):
            got = shortened(n, write=repr)
            raise InputError(f"graph `{name}` needs at least 2 agents, got n={got}.")
        _require_room(name, n, n)
        return build(n, *args, **options)

    CONSTRUCTORS[name] = checked
    return cast(Build, checked)


def from_edges(edges: Iterable[tuple[int, int]], n: int | None = None) -> Graph:
    """Return the graph with these edges.

    Parameters
    ----------
    edges
        Pairs (i, j) of agents, numbered from 0.
    n
        Number of agents. None: the largest agent named, plus 1.

    Examples
    --------
    >>> from_edges([(0, 1), (1, 2)]).degrees.tolist()
    [1, 2, 1]
    """
    pairs = tuple((int(i), int(j)) for i, j in edges)
    if not pairs:
        raise InputError("graph `edges` is empty; give pairs (i, j) of agents.")
    return Graph(max(map(max, pairs)) + 1 if n is None else n, pairs)


def from_networkx(g: "nx.Graph[Any]") -> Graph:
    """Return the graph of an undirected networkx graph.

    Parameters
    ----------
    g
        Nodes that are 0 .. n-1 keep their numbers; others are numbered in their order.

    Examples
    --------
    >>> print(from_networkx(nx.petersen_graph()))
    Petersen Graph(n=10)
    """
    return _converted(g, g.name or "networkx")


def as_graph(graph: "Graph | nx.Graph[Any]") -> Graph:
    """Return a `Graph`, converting one from networkx; refuse anything else.

    Parameters
    ----------
    graph
        A `Graph`, which is returned as it is, or an undirected networkx graph.

    Examples
    --------
    >>> as_graph(nx.cycle_graph(4)).degrees.tolist()
    [2, 2, 2, 2]
    """
    if isinstance(graph, nx.Graph):
        return from_networkx(graph)
    if not isinstance(graph, Graph):
        raise InputError(
            f"`graph` is a {type(graph).__name__}. Use `pm.graphs.ring(8)` or another "
            "topology, or a networkx graph."
        )
    return graph


def from_file(file: str | Path, n: int | None = None) -> Graph:
    """Read a graph from a text file with one edge per line.

    Parameters
    ----------
    file
        Lines ``i j`` or ``i,j`` with two agents, numbered from 0; what follows a ``#``
        is a comment.
    n
        Number of agents that it must have. None: any.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile("w") as file:
    ...     print("0 1", file=file)
    ...     print("1 2  # a comment", file=file, flush=True)
    ...     from_file(file.name).degrees.tolist()
    [1, 2, 1]
    """
    lines = read_text(file, "graph file", LARGEST_FILE).splitlines()
    edges = []
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) != 2 or not all(map(_names_an_agent, words)):
            raise InputError(
                f"graph file `{file}`, line {number}: expected two agents `i j`, "
                f"got `{shortened(line.strip())}`."
            )
        edges.append((int(words[0]), int(words[1])))
    if not edges:
        raise InputError(
            f"graph file `{file}` holds no edge; write one `i j` per line."
        )
    if min(map(min, edges)) == 1:
        raise InputError(
            f"graph file `{file}` numbers its agents from 1; agents count from 0."
        )
    found = max(map(max, edges)) + 1
    if n is not None and found != n:
        raise InputError(
            f"graph file `{file}` has {found} agents, but {n} were asked for. Use "
            f"`--agents {found}`."
        )
    return from_edges(edges)


def _names_an_agent(word: str) -> bool:
    return word.isdecimal() and len(word) <= LONGEST_ID


@topology
def ring(n: int) -> Graph:
    """Return a cycle: every agent has two neighbors (one if n = 2).

    Parameters
    ----------
    n
        Number of agents.

    Examples
    --------
    >>> ring(5).edges
    ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
    """
    return _converted(nx.path_graph(n) if n <= 2 else nx.cycle_graph(n), "ring")


@topology
def path(n: int) -> Graph:
    """Return a line 0 - 1 - ... - n-1, the slowest graph to agree on.

    Degree 1 at both ends, 2 elsewhere.

    Parameters
    ----------
    n
        Number of agents.

    Examples
    --------
    >>> path(4).degrees.tolist()
    [1, 2, 2, 1]
    """
    return _converted(nx.path_graph(n), "path")


@topology
def grid(n: int, rows: int | None = None) -> Graph:
    """Return a rectangular grid: degree 2 in the corners, up to 4 inside.

    Parameters
    ----------
    n
        Number of agents.
    rows
        A divisor of n. None: as square as n allows, with two rows or more.

    Examples
    --------
    >>> grid(6).degrees.tolist()  # 2 rows of 3
    [2, 3, 2, 2, 3, 2]
    """
    sides = _sides("grid", n, rows)
    return _converted(nx.grid_2d_graph(*sides), "grid", rows=sides[0])


@topology
def torus(n: int, rows: int | None = None) -> Graph:
    """Return a grid whose opposite borders are joined: degree 4 from 3 x 3 on.

    Parameters
    ----------
    n
        Number of agents.
    rows
        A divisor of n. None: as square as n allows, with two rows or more.

    Examples
    --------
    >>> torus(9).degrees.tolist()
    [4, 4, 4, 4, 4, 4, 4, 4, 4]
    """
    sides = _sides("torus", n, rows)
    return _converted(nx.grid_2d_graph(*sides, periodic=True), "torus", rows=sides[0])


@topology
def ladder(n: int) -> Graph:
    """Return two rails 0 .. n/2-1 and n/2 .. n-1 joined by rungs i - (i + n/2).

    Degree 2 at the four ends, 3 elsewhere.

    Parameters
    ----------
    n
        Number of agents, even and at least 4.

    Examples
    --------
    >>> ladder(6).edges
    ((0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5))
    """
    if n % 2 or n < 4:
        raise InputError(f"graph `ladder` needs an even n of at least 4, got {n}.")
    return _converted(nx.ladder_graph(n // 2), "ladder")


@topology
def star(n: int) -> Graph:
    """Return a hub, agent 0 of degree n - 1, with n - 1 leaves of degree 1.

    Parameters
    ----------
    n
        Number of agents.

    Examples
    --------
    >>> star(5).degrees.tolist()
    [4, 1, 1, 1, 1]
    """
    return _converted(nx.star_graph(n - 1), "star")


@topology
def complete(n: int) -> Graph:
    """Return the graph in which every agent talks to every other: degree n - 1.

    Parameters
    ----------
    n
        Number of agents.

    Examples
    --------
    >>> complete(4).edges
    ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    """
    _require_room("complete", n, n * (n - 1) / 2)
    return _converted(nx.complete_graph(n), "complete")


@topology
def hypercube(n: int) -> Graph:
    """Return the cube of dimension log2(n), which is everyone's degree.

    Parameters
    ----------
    n
        Number of agents: 2, 4, 8, 16, ...

    Examples
    --------
    >>> hypercube(8).degrees.tolist()
    [3, 3, 3, 3, 3, 3, 3, 3]
    """
    if n & (n - 1):
        raise InputError(f"graph `hypercube` needs n = 2, 4, 8, 16, ..., got {n}.")
    return _converted(nx.hypercube_graph(n.bit_length() - 1), "hypercube")


@topology
def erdos_renyi(n: int, prob: float | None = None, seed: int = 0) -> Graph:
    """Return a random graph in which every edge exists with probability `prob`.

    Parameters
    ----------
    n
        Number of agents.
    prob
        A draw with a given `prob` that is not connected is refused. None: twice the
        connectivity threshold, 2 log(n) / n; up to 100 draws until one is connected.
    seed
        Seed of the draws.

    Examples
    --------
    >>> print(erdos_renyi(8))
    erdos-renyi(n=8, prob=0.5199, seed=0)
    """
    if n > MOST_DRAWN:
        raise InputError(
            f"graph `erdos-renyi` draws every pair of agents, for at most "
            f"{MOST_DRAWN:,} of them, got {n:,}. Use `random-regular`."
        )
    if prob is not None:
        _probability("erdos-renyi", prob)
        _require_room("erdos-renyi", n, prob * n * (n - 1) / 2)
        drawn = nx.gnp_random_graph(n, prob, seed=seed)
        return _converted(drawn, "erdos-renyi", prob=prob, seed=seed)
    chance = min(1.0, 2 * math.log(n) / n)
    stream = random.Random(seed)
    for _ in range(REDRAWS):
        drawn = nx.gnp_random_graph(n, chance, seed=stream)
        if nx.is_connected(drawn):
            break
    return _converted(drawn, "erdos-renyi", prob=round(chance, 4), seed=seed)


@topology
def barabasi_albert(n: int, links: int | None = None, seed: int = 0) -> Graph:
    """Return a graph with hubs: new agents prefer to link to those with many links.

    It has ``links (n - links)`` edges.

    Parameters
    ----------
    n
        Number of agents.
    links
        Older agents that each new one links to. None: 2 (1 if n = 2).
    seed
        Seed of the draws.

    Examples
    --------
    >>> graph = barabasi_albert(32)
    >>> len(graph.edges), graph.max_degree > 8
    (60, True)
    """
    if links is None:
        links = min(2, n - 1)
    if not 1 <= links < n:
        raise InputError(
            f"graph `barabasi-albert`: `links` must be in 1 .. {n - 1}, got {links}."
        )
    _require_room("barabasi-albert", n, n * links)
    drawn = nx.barabasi_albert_graph(n, links, seed=seed)
    return _converted(drawn, "barabasi-albert", links=links, seed=seed)


@topology
def watts_strogatz(
    n: int, neighbors: int = 4, prob: float = 0.1, seed: int = 0
) -> Graph:
    """Return a small world: a ring with shortcuts.

    Parameters
    ----------
    n
        Number of agents.
    neighbors
        Nearest agents on the ring that each one is linked to, half on either side; the
        average degree. With n or more the graph is complete.
    prob
        Probability that an edge is rewired to a random agent.
    seed
        Seed of the draws.

    Examples
    --------
    >>> graph = watts_strogatz(32)
    >>> len(graph.edges), float(graph.degrees.mean())
    (64, 4.0)
    """
    _probability("watts-strogatz", prob)
    if neighbors < 2:
        raise InputError(
            f"graph `watts-strogatz`: `neighbors` must be at least 2, got {neighbors}."
        )
    _require_room("watts-strogatz", n, n * min(neighbors, n) / 2)
    if n <= neighbors:
        return _converted(nx.complete_graph(n), "watts-strogatz", neighbors=n - 1)
    drawn = nx.connected_watts_strogatz_graph(n, neighbors, prob, REDRAWS, seed)
    return _converted(
        drawn, "watts-strogatz", neighbors=neighbors, prob=prob, seed=seed
    )


@topology
def random_regular(n: int, degree: int | None = None, seed: int = 0) -> Graph:
    """Return a random graph in which every agent has the same degree.

    Parameters
    ----------
    n
        Number of agents.
    degree
        Neighbors of each agent; n times it must be even. None: 3, or 4 if n is odd.
    seed
        Seed of the draws, up to 100 until one is connected.

    Examples
    --------
    >>> random_regular(8).degrees.tolist()
    [3, 3, 3, 3, 3, 3, 3, 3]
    """
    if degree is None:
        degree = min(4 if n % 2 else 3, n - 1)
    if not 1 <= degree < n or n * degree % 2:
        raise InputError(
            f"graph `random-regular`: `degree` must be in 1 .. {n - 1} and n * degree "
            f"even, got n={n}, degree={degree}."
        )
    _require_room("random-regular", n, n * degree / 2)
    stream = random.Random(seed)
    for _ in range(REDRAWS):
        drawn = nx.random_regular_graph(degree, n, seed=stream)
        if nx.is_connected(drawn):
            break
    return _converted(drawn, "random-regular", degree=degree, seed=seed)


def random_8(n: int = 8) -> Graph:
    """Return the field's 8-agent random graph: K8 without 1-6, 2-3, 2-4 and 5-7.

    Parameters
    ----------
    n
        8, since every constructor takes the number of agents.

    Examples
    --------
    >>> random_8().degrees.tolist()
    [7, 6, 5, 6, 6, 6, 6, 6]
    """
    if n != 8:
        raise InputError(f"graph `random-8` has 8 agents, got n={n}.")
    missing = {(1, 6), (2, 3), (2, 4), (5, 7)}
    edges = set(nx.complete_graph(8).edges) - missing
    return Graph(8, tuple(edges), "random-8")


CONSTRUCTORS["random-8"] = random_8


def make(name: str, n: int, /, **options: Any) -> Graph:
    """Build a topology by name, or from an edge file if `name` is one.

    Parameters
    ----------
    name
        A key of `CONSTRUCTORS`, or the path of a file for `from_file`.
    n
        Number of agents; that of a file must agree.
    options
        What the constructor takes besides n, such as ``prob`` and ``seed``.

    Examples
    --------
    >>> make("star", 4).degrees.tolist()
    [3, 1, 1, 1]
    >>> make("rng", 4)
    Traceback (most recent call last):
    proxmesh.errors.InputError: unknown graph `rng`. Did you mean `ring`? Known: ...
    """
    return made(name, n, options)


def made(
    name: str, n: int, options: Mapping[str, Any], also_known: Iterable[str] = ()
) -> Graph:
    """Build a topology as `make` does, from options of any name.

    Parameters
    ----------
    name, n, options
        As for `make`.
    also_known
        Further names to suggest when an option is misspelled.
    """
    who = f"graph `{shortened(name)}`"
    if name in CONSTRUCTORS:
        return construct(who, CONSTRUCTORS[name], options, n, also_known=also_known)
    if "." in name or "/" in name:
        return construct(who, from_file, options, name, n, also_known=also_known)
    raise unknown("graph", name, CONSTRUCTORS)


def _require_room(name: str, n: int, links: float) -> None:
    """Refuse a graph that is too large to be built, before it is."""
    who = f"graph `{name}` with {shortened(f'{n:,}')} agents"
    if links > MOST_LINKS:
        raise InputError(
            f"{who} has about {shortened(f'{round(links):,}')} links, more than the "
            f"{MOST_LINKS:,} that can be built. Lower `--agents`."
        )
    require_memory(who, round(links) * BYTES_PER_LINK, "Lower `--agents`.")


def _converted(g: "nx.Graph[Any]", name: str, **options: Any) -> Graph:
    if g.is_directed():
        raise InputError(
            f"graph `{name}` is directed; every link must work both ways. "
            "Use `g.to_undirected()`."
        )
    nodes = list(g.nodes)
    if set(nodes) == set(range(len(nodes))):
        nodes.sort()  # agents are numbered already
    number = {node: i for i, node in enumerate(nodes)}
    edges = tuple((number[i], number[j]) for i, j in g.edges())
    return Graph(len(number), edges, name, options)


def _sides(name: str, n: int, rows: int | None) -> tuple[int, int]:
    if rows is None:
        rows = max((r for r in range(2, math.isqrt(n) + 1) if n % r == 0), default=0)
        if not rows:
            raise InputError(
                f"graph `{name}`: {n} agents do not fill a rectangle of 2 rows or "
                "more. Choose another n, or the graph `path` or `ring`."
            )
    if rows < 1 or n % rows:
        raise InputError(
            f"graph `{name}`: `rows` must divide n, got rows={rows}, n={n}."
        )
    return rows, n // rows


def _probability(name: str, prob: float) -> None:
    if not 0 <= prob <= 1:
        raise InputError(f"graph `{name}`: `prob` must be in 0 .. 1, got {prob}.")
