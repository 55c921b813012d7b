"""Several models of one network, composed: what they ask of memory and of a method."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, final

from proxmesh.compressors import Sign, TopK
from proxmesh.errors import InputError, shortened
from proxmesh.graphs import Graph
from proxmesh.network.links.failing import (
    GilbertElliott,
    Loss,
    Outages,
    Participation,
    Schedule,
    Speeds,
)
from proxmesh.network.links.messages import Compressed, Delay, Every, Noise
from proxmesh.network.links.timing import Bandwidth, Latency, iteration_seconds

__all__ = ["FAILING", "Link", "Plan", "rounds_of"]

FAILING = (Outages, Loss, GilbertElliott, Participation, Speeds, Schedule)
Link: TypeAlias = (
    Outages
    | Loss
    | GilbertElliott
    | Delay
    | Compressed
    | Every
    | Participation
    | Speeds
    | Noise
    | Schedule
    | Bandwidth
    | Latency
)
"""Any of the models."""

M = TypeVar("M")
LOOKED_AHEAD = 129  # iterations, of a method that does not talk in each
LOSSY_COMPRESSED_GAIN = 0.25  # measured: references move only now and then


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """The models of a network, sorted by what they do.

    Whatever their order, a value is held (`Every`), compressed, summed up (where a loss
    is silent), delayed, and left out where a link, an edge or an agent is down.

    Parameters
    ----------
    models
        As they were given.

    Examples
    --------
    >>> from proxmesh import links
    >>> Plan((links.Loss(0.3), links.Delay(2))).gain(10)
    0.16666666666666666
    """

    models: tuple[Link, ...]

    def __post_init__(self) -> None:
        for model in self.models:
            if isinstance(model, type) or not isinstance(model, Link):
                raise InputError(
                    f"`links` must be models of `proxmesh.links`, got "
                    f"{shortened(model, write=repr)}."
                )
        for kind in (Compressed, Delay, Every, Noise, Bandwidth, Latency):
            if sum(isinstance(model, kind) for model in self.models) > 1:
                raise InputError(f"`links` has two {kind.__name__}. Give one of them.")
        silent = [model for model in self.models if _is_silent(model)]
        if len(silent) > 1:
            raise InputError("`links` has two silent losses. Give one of them.")
        for other, why in (
            (Compressed, "a lost difference leaves the two ends with two references"),
            (Noise, "the sums that are sent would add it up"),
            (Every, "what is not sent is not lost"),
            (Participation, "the sums that are sent need a value of every iteration"),
            (Speeds, "the sums that are sent need a value of every iteration"),
        ):
            if silent and self._first(other) is not None:
                raise InputError(
                    f"`links`: {other.__name__} does not go with a silent loss: {why}. "
                    "Use `known=True`, or leave one of them out."
                )
        if silent and self.delay is not None and self.delay.random:
            raise InputError(
                "`links`: random delays do not go with a silent loss. Use "
                "`random=False`, or `known=True`."
            )
        if self.noise is not None and self.compressed is not None:
            raise InputError(
                "`links`: Noise does not go with Compressed: the two ends would have "
                "two references. Leave one of them out."
            )

    def require_graph(self, graph: Graph) -> None:
        """Refuse a schedule that names an edge which the graph does not have.

        Parameters
        ----------
        graph
            Of the network.
        """
        known = set(graph.edges)
        for model in self.models:
            if isinstance(model, Schedule):
                for edge in (edge for edges in model.edges for edge in edges):
                    if tuple(edge) not in known:
                        raise InputError(
                            f"Schedule: `edges` names {tuple(edge)}, which is no edge "
                            f"of {graph}. Name edges of the graph."
                        )

    def require_method(self, algorithm: Any, p: int) -> None:
        """Refuse a method that these links do nothing for, or twice.

        Parameters
        ----------
        algorithm
            With its `cost`.
        p
            Entries of a vector.
        """
        name, cost = type(algorithm).__name__, algorithm.cost(1)
        if self.models and not rounds_of(algorithm):
            raise InputError(
                f"`links`: {name} sends nothing to neighbors. Leave `links` out."
            )
        if self.compressed is not None:
            if cost.compressor is not None:
                raise InputError(
                    f"`links`: {name} compresses by itself. Leave Compressed out, and "
                    "give it its `compressor`."
                )
            compressor = self.compressed.compressor
            if not compressor.contraction(p) > 0:
                raise InputError(
                    f"Compressed: {compressor} lets nothing of some vectors of {p:,} "
                    "entries through. Send more bits or entries."
                )

    def _first(self, kind: type[M]) -> M | None:
        return next((m for m in self.models if isinstance(m, kind)), None)

    @property
    def compressed(self) -> Compressed | None:
        """How messages are compressed, if they are."""
        return self._first(Compressed)

    @property
    def noise(self) -> Noise | None:
        """What is on the line, if anything is."""
        return self._first(Noise)

    @property
    def every(self) -> int:
        """Iterations from one talk to the next."""
        found = self._first(Every)
        return 1 if found is None else found.iterations

    @property
    def delay(self) -> Delay | None:
        """How late messages are, if they are."""
        found = self._first(Delay)
        return found if found is not None and found.tau else None

    @property
    def silent(self) -> Loss | GilbertElliott | None:
        """The loss that only receivers notice, if there is one."""
        found: Any = next((m for m in self.models if _is_silent(m)), None)
        return found  # type: ignore[no-any-return]

    @property
    def leaves_out(self) -> bool:
        """Whether edges are left out now and then, with both ends knowing it."""
        return any(isinstance(m, FAILING) and not _is_silent(m) for m in self.models)

    @property
    def sleeps(self) -> bool:
        """Whether agents stand still now and then."""
        return any(isinstance(m, Participation | Speeds) for m in self.models)

    @property
    def remembers(self) -> bool:
        """Whether links need a memory from one iteration to the next."""
        chains = any(isinstance(m, GilbertElliott) for m in self.models)
        parts = (self.compressed, self.delay, self.silent)
        return chains or self.every > 1 or any(part is not None for part in parts)

    @property
    def is_by_edge(self) -> bool:
        """Whether a value of one agent is known differently at its edges."""
        aged = self.delay is not None and self.delay.random
        return aged or self.silent is not None or self.has_edge_references

    @property
    def has_edge_references(self) -> bool:
        """Whether each edge has references of its own."""
        return self.compressed is not None and self.leaves_out

    def message_bits(self, p: int, width: int) -> float:
        """Bits of a vector of p entries as it is sent, on average over the edges.

        A lost message was sent; over an edge that is known to be down, none is.

        Parameters
        ----------
        p
            Entries of a vector.
        width
            Bits of an entry as it is: 32 or 64.
        """
        bits = self.bits_of_one(p, width)
        kinds = (Outages, Participation, Speeds, Schedule)
        for model in self.models:
            if isinstance(model, kinds):
                bits *= model.presence
        return bits

    def bits_of_one(self, p: int, width: int) -> float:
        """Bits of a vector over an edge that is up.

        Parameters
        ----------
        p, width
            As of `message_bits`.
        """
        if self.silent is not None:
            return p * 64.0  # sums over all iterations
        if self.compressed is not None:
            return float(self.compressed.compressor.message_bits(p, width))
        return float(p * width)

    @property
    def is_timed(self) -> bool:
        """Whether messages take time."""
        return any(isinstance(model, Bandwidth | Latency) for model in self.models)

    def seconds_of(self, compute: float, cost: Any, bits: float) -> float:
        """How long an iteration takes on these links.

        Parameters
        ----------
        compute
            Seconds of computing of one agent.
        cost
            What the method declares for the iteration.
        bits
            Of one vector.
        """
        bandwidth, latency = self._first(Bandwidth), self._first(Latency)
        wire = 0.0
        if bandwidth is not None:
            wire = cost.vectors * bits / bandwidth.bits_per_second
        return iteration_seconds(
            compute,
            cost.rounds if bits else 0,
            wire,
            0.0 if latency is None else latency.seconds,
            delay=0 if self.delay is None else self.delay.tau,
            overlaps=cost.overlaps,
        )

    def age(self, p: int) -> float:
        """Mean age of what is known, in iterations; of several models, they add up.

        Parameters
        ----------
        p
            Entries of a vector.
        """
        return sum(_ages(self.models, p))

    @property
    def presence(self) -> float:
        """Share of the iterations in which an edge is used."""
        share = 1.0
        for model in self.models:
            share *= _presence(model)
        return share

    def gain(self, p: int) -> float:
        """The dual gain of HSM-ADMM that suits these links.

        Half of what is stable: of ``2 u / (1 - u)`` where an edge is used in a share u
        of the iterations, of ``1 / l`` (at most 1) where values have a mean age l.

        Parameters
        ----------
        p
            Entries of a vector.
        """
        u, ages = self.presence, [age for age in _ages(self.models, p) if age > 0]
        found = 1.0 if u == 1 else min(1.0, u / (1 - u))
        compressed = self.compressed
        if compressed is not None:
            found = min(found, compressed.gain(p))
            if self.leaves_out:
                found = min(found, LOSSY_COMPRESSED_GAIN)
        old = [m for m in self.models if not isinstance(m, Compressed)]
        if len(ages) > 1 or sum(_ages(old, p)) > 0:
            found = min(found, 1 / (2 * (1 + sum(ages))))
        return found

    @property
    def fresh(self) -> bool:
        """Whether an agent's own value is to be its newest in the primal step."""
        old = self.delay is not None or self.every > 1 or self.has_edge_references
        if old or self._first(Speeds) is not None:
            return True
        compressed = self.compressed
        if compressed is None:
            return False
        return compressed.is_coarse or isinstance(compressed.compressor, TopK | Sign)

    def limits(self, gain: float, p: int) -> list[str]:
        """What a dual gain violates, one line each; nothing if it is fine.

        Parameters
        ----------
        gain
            Of HSM-ADMM.
        p
            Entries of a vector.
        """
        found: list[str] = []
        if gain <= self.gain(p):
            return found  # as measured, where the laws are only about linear links
        age, u = self.age(p), self.presence
        if gain * age >= 1:
            found.append(
                f"dual_gain {gain:g} x mean age {age:.3g} of these links is "
                f"{gain * age:.3g}; from 1 on the duals are unstable. Take at most "
                f"{self.gain(p):.3g}, or leave `dual_gain` out."
            )
        if u < 1 and gain >= 2 * u / (1 - u):
            found.append(
                f"dual_gain {gain:g} with edges up in {u:.3g} of the iterations; from "
                f"{2 * u / (1 - u):.3g} on the duals are unstable. Take at most "
                f"{self.gain(p):.3g}, or leave `dual_gain` out."
            )
        return found


def rounds_of(algorithm: Any) -> int:
    """Exchanges of an iteration, the most of any."""
    return max(int(algorithm.cost(k).rounds) for k in range(1, LOOKED_AHEAD))


def _is_silent(model: Any) -> bool:
    return isinstance(model, Loss | GilbertElliott) and not model.known


def _ages(models: Sequence[Any], p: int) -> list[float]:
    found = []
    for model in models:
        if isinstance(model, Compressed):
            found.append(model.age_of(p))
        elif isinstance(model, Loss | GilbertElliott | Delay | Every):
            found.append(model.age)
    return found


def _presence(model: Any) -> float:
    return float(model.presence) if isinstance(model, FAILING) else 1.0
