"""Models by the names that the command line and config files use."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from proxmesh.compressors import Bits, RandomK, Sign, TopK
from proxmesh.construct import construct
from proxmesh.errors import InputError, shortened, unknown
from proxmesh.network.links.failing import (
    GilbertElliott,
    Loss,
    Outages,
    Participation,
    Schedule,
    Speeds,
)
from proxmesh.network.links.messages import Compressed, Delay, Every, Noise
from proxmesh.network.links.plan import Link
from proxmesh.network.links.timing import Bandwidth, Latency

__all__ = ["LINKS", "named"]


def _silent(q: float, seed: int = 0) -> Loss:
    """Messages get lost, and only the receiver notices."""
    return Loss(q, known=False, seed=seed)


def _random_delay(tau: int, seed: int = 0) -> Delay:
    """Every edge has a delay of its own, from 0 to this."""
    return Delay(tau, random=True, seed=seed)


def _bits(bits: int, stochastic: bool = False, damping: float = 1.0) -> Compressed:
    """Differences are sent with so many bits per entry."""
    return Compressed(Bits(bits, stochastic), damping)


def _top_k(share: float, damping: float = 1.0) -> Compressed:
    """Of a difference, this share of the entries is sent: the largest."""
    return Compressed(TopK(share), damping)


def _random_k(share: float, damping: float = 1.0) -> Compressed:
    """Of a difference, this share of the entries is sent, drawn at random."""
    return Compressed(RandomK(share), damping)


def _sign(damping: float = 1.0) -> Compressed:
    """Of a difference, the signs are sent; the number is how far they move."""
    return Compressed(Sign(), damping)


def _speeds(periods: Sequence[int] | str) -> Speeds:
    """Agents differ in speed: 1:4 works in every iteration, or in every fourth."""
    if not isinstance(periods, str):
        return Speeds(periods)
    parts = periods.split(":")
    if not all(part.strip().isdecimal() for part in parts):
        raise InputError(
            f"Speeds: `{shortened(periods)}` is not a list of whole numbers, such as "
            "`1:4`."
        )
    return Speeds([int(part) for part in parts])


LINKS: dict[str, Callable[..., Link]] = {
    "loss": Loss,
    "silent-loss": _silent,
    "bursts": GilbertElliott,
    "outages": Outages,
    "delay": Delay,
    "random-delay": _random_delay,
    "bits": _bits,
    "top-k": _top_k,
    "random-k": _random_k,
    "sign": _sign,
    "every": Every,
    "participation": Participation,
    "speeds": _speeds,
    "noise": Noise,
    "schedule": Schedule,
    "bandwidth": Bandwidth,
    "latency": Latency,
}
"""What makes a model, by name; its first parameter is the main number."""


def named(models: Mapping[str, Any], seed: int = 0) -> tuple[Link, ...]:
    """Models from names and numbers.

    Parameters
    ----------
    models
        The main number of each by its name, or several options.
    seed
        Of those that draw random numbers, where they have none of their own.

    Examples
    --------
    >>> named({"loss": 0.3, "delay": {"tau": 2}})
    (Loss(q=0.3, known=True, seed=0), Delay(tau=2, random=False, seed=0))
    >>> named({"lost": 0.3})
    Traceback (most recent call last):
    proxmesh.errors.InputError: unknown link `lost`. Did you mean `loss`? Known: ...
    """
    found = []
    for name, value in models.items():
        if name not in LINKS:
            raise unknown("link", name, LINKS)
        build = LINKS[name]
        main, *others = signature(build).parameters
        options = dict(value) if isinstance(value, Mapping) else {main: value}
        if "seed" in others:
            options.setdefault("seed", seed)
        if isinstance(options.get(main), bool) or options.get(main) == "":
            raise InputError(
                f"link `{name}` needs a number: `{name}=VALUE`, got {value!r}."
            )
        found.append(construct(f"link `{name}`", build, options))
    return tuple(found)
