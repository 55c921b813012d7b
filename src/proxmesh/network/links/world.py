"""A network with imperfect links: any engine, wrapped."""

import dataclasses
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, final

import torch
from torch import Tensor

from proxmesh.errors import InputError
from proxmesh.network.links.bound import BoundNetwork
from proxmesh.network.links.edges import Draws, LocalEdges
from proxmesh.network.links.exchange import column
from proxmesh.network.links.failures import Failures
from proxmesh.network.links.packed import AlongEdges, Copies, Packer
from proxmesh.network.links.plan import LOOKED_AHEAD, Link, Plan, rounds_of
from proxmesh.types import (
    BY_EDGE,
    Algorithm,
    Cost,
    Problem,
    Reduction,
    is_integrated,
    reliable_iterations,
)

__all__ = ["LinkedWorld", "with_memory"]


@final
class LinkedWorld:
    """A `World` whose links lose, delay or compress what is sent.

    What links remember belongs to the state of a run: ``start`` and ``advance`` stand
    in place of an algorithm's `init` and `step` and return its states with further
    fields, which checkpoints keep like all others.

    Parameters
    ----------
    engine
        Joined before; its messages arrive.
    links
        The models.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(4))
    >>> world = pm.connect(pm.graphs.ring(4), links=[pm.links.Loss(0.3)])
    >>> algorithm = pm.HSMADMM(c_rho=0.25, c_eta=0.5, c_a=1.0, dual_gain=0.5)
    >>> state = world.start(algorithm, problem.x0(), problem)
    >>> for _ in range(10):
    ...     state = world.advance(algorithm, state, problem)
    >>> int(state.k), bool(state.alpha_sum.sum(0).abs().max() < 1e-4)
    (10, True)
    """

    def __init__(self, engine: Any, links: tuple[Link, ...]) -> None:
        self._engine = engine
        self.links = links
        self.plan = Plan(links)
        self.plan.require_graph(engine.graph)
        self.graph = engine.graph
        self.n: int = engine.n
        self.engine: str = engine.engine
        self.rank: int = engine.rank
        self.agents: tuple[int, ...] = engine.agents
        self.is_root: bool = engine.is_root
        self.distributed: bool = engine.distributed
        self.max_degree: int = engine.max_degree
        self.num_links: int = engine.num_links
        self.degree: Tensor = engine.degree
        self.edges = LocalEdges(engine)
        _ = self.edges.turned  # now, not while a step is being compiled
        self.failures = Failures(self.plan, self.edges)
        compressed = self.plan.compressed
        self.packer: Any = None if compressed is None else Packer(compressed)
        self.packs = engine.distributed and self._is_packed()  # what travels is short
        self.copies: dict[int, Copies] = {}  # of other processes' agents, by exchange
        self.message_draws = Draws.over(0, "messages", 0, self.edges.ids)
        seed = 0 if self.plan.noise is None else self.plan.noise.seed
        self.noise_draws = Draws.over(seed, "noise", 0, self.edges.ids)
        self.ages: Tensor | None = None  # of each edge, as places in a queue
        delay = self.plan.delay
        if delay is not None and delay.random:
            edges = self.edges
            ends = torch.minimum(edges.agent, edges.neighbor)
            far = torch.maximum(edges.agent, edges.neighbor)
            drawn = Draws.over(delay.seed, "Delay", 0, ends, far)
            self.ages = delay.tau - drawn.up_to(delay.tau)

    def start(self, algorithm: Algorithm[Any], x0: Tensor, problem: Problem) -> Any:
        """What `init` makes, with the memory of the links.

        Parameters
        ----------
        algorithm, x0, problem
            As of `init`.
        """
        self.plan.require_method(algorithm, x0.shape[1])
        bound = self._bound(algorithm, torch.tensor(0), {}, starting=True)
        state = algorithm.init(x0, problem, bound)
        if not dataclasses.is_dataclass(state):
            raise InputError(
                f"`links`: the state of {type(algorithm).__name__} must be a dataclass "
                f"of tensors, got {type(state).__name__}."
            )
        memory = bound.finished()
        made = algorithm.cost(0).rounds
        if made < rounds_of(algorithm):
            memory |= self._blank(algorithm, x0, range(made, rounds_of(algorithm)))
        own: Any = type(state)
        kind = with_memory(own, tuple(memory))
        return kind(**_fields(state), **memory)

    def advance(self, algorithm: Algorithm[Any], state: Any, problem: Problem) -> Any:
        """What `step` makes, with the memory of the links.

        Parameters
        ----------
        algorithm, state, problem
            As of `step`; the state is one of `start` or of an earlier step.
        """
        kind, before = type(state), _fields(state)
        base, names = _BASES.get(kind, (kind, ()))
        if self.plan.remembers and not names:
            raise InputError(
                f"`state` is a {kind.__name__} without the memory of these links. "
                "Begin anew, or with `world.start(algorithm, x0, problem)`."
            )
        memory = {name: before.pop(name) for name in names}
        bound = self._bound(algorithm, state.k + 1, memory)
        after = _fields(algorithm.step(base(**before), problem, bound))
        remembered = bound.finished()
        if self.plan.sleeps:
            awake = self.failures.awake(state.k + 1)
            after = _of_those(awake, after, before)
            remembered = _of_those(awake, remembered, memory)
        return kind(**after, **remembered)

    def state_kind(self, kind: type[Any], algorithm: Algorithm[Any]) -> type[Any]:
        """The states of an algorithm with the memory of these links.

        Parameters
        ----------
        kind
            Its own states.
        algorithm
            With its `cost`.
        """
        like = torch.zeros_like(self.degree)
        blank = self._blank(algorithm, like, range(rounds_of(algorithm)))
        own: Any = kind
        return with_memory(own, tuple(blank))

    def message_bits(self, k: int, p: int, width: int) -> float:
        """Bits that a vector takes in iteration k, on average over the edges.

        Parameters
        ----------
        k
            Iteration; 0 is `init`.
        p
            Entries of a vector.
        width
            Bits of an entry as it is: 32 or 64.
        """
        if k == 0:
            return float(p * width)
        return 0.0 if k % self.plan.every else self.plan.message_bits(p, width)

    def seconds_of(self, compute: float, cost: Cost, k: int, bits: float) -> float:
        """How long iteration k would take on these links.

        Parameters
        ----------
        compute
            Seconds of computing of one agent.
        cost
            What the method declares for it.
        k
            Iteration.
        bits
            Of one vector as it is.
        """
        if k % self.plan.every:
            return compute
        if cost.compressor is None and k:
            width = self.degree.element_size() * 8
            bits = self.plan.bits_of_one(round(bits / width), width)
        return self.plan.seconds_of(compute, cost, bits)

    @property
    def is_timed(self) -> bool:
        """Whether messages take time."""
        return self.plan.is_timed

    def _is_packed(self) -> bool:
        """Whether less than whole vectors travel: differences, or only now and then."""
        if self.plan.compressed is not None:
            return bool(self.packer.packs)
        return self.plan.every > 1 and self.plan.noise is None

    @property
    def joined(self) -> Any:
        """The engine itself."""
        return self._engine

    @cached_property
    def along(self) -> AlongEdges:
        """Messages that differ from edge to edge."""
        return AlongEdges(self._engine, self.edges)

    def wire(self, rows: Tensor) -> Any:
        """Send rows over the engine itself, where all arrives.

        Parameters
        ----------
        rows
            Of our agents.
        """
        return self._engine.exchange(rows)

    def exchange(self, x: Tensor) -> Any:
        """Refuse: what links remember has no place outside of a state."""
        del x
        raise InputError(
            "these links remember what they carried, in the state of a run. Use "
            "`world.start(algorithm, x0, problem)` and `world.advance(algorithm, "
            "state, problem)` in place of `init` and `step`."
        )

    @property
    def mixing_lambda(self) -> float:
        """Second largest absolute eigenvalue of W."""
        found: float = self._engine.mixing_lambda
        return found

    def reduce(self, x: Tensor, op: Reduction) -> Tensor:
        """Reduce over all agents; not over the links."""
        found: Tensor = self._engine.reduce(x, op)
        return found

    def share(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """The root's numbers and words."""
        found: dict[str, Any] = self._engine.share(numbers)
        return found

    def gather(self, numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Every process's numbers and words."""
        found: list[dict[str, Any]] = self._engine.gather(numbers)
        return found

    def agree(self, facts: Mapping[str, str]) -> None:
        """Refuse to start when a process was started with other facts."""
        self._engine.agree(facts)

    def announce_exit(self, reason: str) -> None:
        """Tell the other processes why this one stops."""
        self._engine.announce_exit(reason)

    def describe(self) -> str:
        """Where the agents live, and what the links do."""
        links = f"links: {' + '.join(map(str, self.links))}"
        return "; ".join(filter(None, [self._engine.describe(), links]))

    def _bound(
        self,
        algorithm: Algorithm[Any],
        k: Tensor,
        memory: Mapping[str, Tensor],
        starting: bool = False,
    ) -> BoundNetwork:
        begun = algorithm.cost(0).rounds
        reliable = None
        if self.plan.silent is not None:
            told = reliable_iterations(algorithm)
            if told:
                reliable = torch.tensor(told, device=k.device)
        return BoundNetwork(
            self, k, memory, begun=begun, starting=starting, reliable=reliable
        )

    def _blank(
        self, algorithm: Algorithm[Any], x: Tensor, slots: range
    ) -> dict[str, Tensor]:
        """What links remember of exchanges that are still to come: zeros."""
        vectors = _vectors(algorithm)
        rows = x.new_zeros(len(x), *([vectors] if vectors > 1 else []), x.shape[1])
        scratch = BoundNetwork(
            self, torch.tensor(0), {}, begun=0, starting=True, slot=slots.start
        )
        for _ in slots:
            if is_integrated(algorithm):
                scratch.hold(rows, rows)
            else:
                scratch.exchange(rows)
        made = scratch.finished()
        return {name: torch.zeros_like(value) for name, value in made.items()}


def _fields(state: Any) -> dict[str, Any]:
    return {f.name: getattr(state, f.name) for f in dataclasses.fields(state)}


_BASES: dict[type[Any], tuple[type[Any], tuple[str, ...]]] = {}


@cache
def with_memory(kind: Any, names: tuple[str, ...]) -> type[Any]:
    """The states of this kind with further fields, for what links remember.

    Parameters
    ----------
    kind
        A dataclass of tensors.
    names
        Of the further fields.
    """
    own: type[Any] = kind
    if not names:
        return own
    made: type[Any] = dataclasses.make_dataclass(
        f"{kind.__name__}OnLinks",
        [(name, Tensor) for name in names],
        bases=(kind,),
        frozen=True,
        slots=True,
        kw_only=True,
    )
    _BASES[made] = (kind, names)
    return made


def _of_those(
    awake: Tensor, new: Mapping[str, Any], old: Mapping[str, Any]
) -> dict[str, Any]:
    """The new rows of those who were awake, the old ones of those who slept."""
    return {
        name: value
        if value.ndim < 2 or name.endswith(BY_EDGE)
        else torch.where(column(awake, value), value, old[name])
        for name, value in new.items()
    }


def _vectors(algorithm: Algorithm[Any]) -> int:
    """Vectors that travel together in one exchange."""
    costs = [algorithm.cost(k) for k in range(1, LOOKED_AHEAD)]
    return max(cost.vectors // max(cost.rounds, 1) for cost in costs)
