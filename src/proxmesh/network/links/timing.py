"""How long messages take: what a slow network makes of a method, by the clock.

These models lose and change nothing. They add the column `simulated_seconds` to a
history: how long the run would have taken on such links.
"""

import re
from dataclasses import dataclass

from proxmesh.errors import InputError

__all__ = ["Bandwidth", "Latency", "iteration_seconds"]

RATES = {"": 1.0, "bit": 1.0, "kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9}
TIMES = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bits that an edge carries in a second, in each direction.

    Parameters
    ----------
    rate
        Such as ``"10Mbit"``, ``"500kbit"``, ``"1Gbit"``, or bits per second.

    Examples
    --------
    >>> Bandwidth("10Mbit").bits_per_second
    10000000.0
    >>> Bandwidth("fast")
    Traceback (most recent call last):
    proxmesh.errors.InputError: Bandwidth: `rate` must be like `10Mbit`, got 'fast'.
    """

    rate: float | str

    def __post_init__(self) -> None:
        _ = self.bits_per_second

    @property
    def bits_per_second(self) -> float:
        """As a number."""
        return _in_units(
            "Bandwidth", "rate", self.rate, RATES, example="10Mbit", above=True
        )


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from the sending of a short message to its arrival.

    Parameters
    ----------
    time
        Such as ``"20ms"``, ``"100us"``, ``"1s"``, or seconds.

    Examples
    --------
    >>> Latency("20ms").seconds
    0.02
    """

    time: float | str

    def __post_init__(self) -> None:
        _ = self.seconds

    @property
    def seconds(self) -> float:
        """As a number."""
        return _in_units("Latency", "time", self.time, TIMES, example="20ms")


def iteration_seconds(
    compute: float,
    rounds: int,
    wire: float,
    latency: float,
    *,
    delay: int,
    overlaps: bool,
) -> float:
    """How long one iteration takes where all agents and edges are alike.

    Every round waits for the latency; all vectors take their time on the wire. If a
    method sends before it computes, the longer of the two counts, else their sum. A
    message that is needed `delay` iterations later has as many iterations more.

    Parameters
    ----------
    compute
        Seconds of computing.
    rounds
        Exchanges that wait for one another; 0: nothing is sent.
    wire
        Seconds that the vectors take on an edge.
    latency
        Seconds that a message is on its way besides.
    delay
        Iterations that messages may be late.
    overlaps
        Whether messages travel while gradients are computed.

    Examples
    --------
    >>> iteration_seconds(0.01, 1, 0.005, 0.02, delay=0, overlaps=True)
    0.025
    >>> round(iteration_seconds(0.01, 2, 0.01, 0.02, delay=0, overlaps=False), 3)
    0.06
    """
    if not rounds:
        return compute
    way = rounds * latency + wire
    needed = way if overlaps else compute + way
    return max(compute, wire, needed / (1 + delay))


def _in_units(
    who: str,
    name: str,
    value: float | str,
    units: dict[str, float],
    *,
    example: str,
    above: bool = False,
) -> float:
    found = re.fullmatch(r"\s*([\d.]+(?:e[+-]?\d+)?)\s*([A-Za-z]*)\s*", str(value))
    number = -1.0
    if found is not None and found[2] in units and not isinstance(value, bool):
        try:
            number = round(float(found[1]) * units[found[2]], 12)
        except ValueError:
            number = -1.0
    if number < 0 or (above and number == 0):
        raise InputError(f"{who}: `{name}` must be like `{example}`, got {value!r}.")
    return number
