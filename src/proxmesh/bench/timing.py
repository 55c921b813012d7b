"""Times that can be compared: in turns, on one core, with their spread."""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias, final

import torch

__all__ = ["Effort", "Spread", "Times", "in_turns", "on_one_core", "seconds_of"]

SECONDS_PER_TURN = 0.15


@final
@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured.

    Parameters
    ----------
    rounds
        Measurements of each time.
    quick
        Small sizes and a single repetition: tells whether a measurement works, and
        nothing about speed.
    """

    rounds: int = 15
    quick: bool = False


@final
@dataclass(frozen=True, slots=True)
class Spread:
    """The median of several measurements, and the middle half of them."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: list[float]) -> "Spread":
        """Summarize at least one measurement."""
        if len(values) == 1:
            return Spread(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return Spread(median, low, high)


Times: TypeAlias = dict[str, Spread]
"""Milliseconds of each thing that was measured."""


def in_turns(
    work: Mapping[str, Callable[[int], float]],
    effort: Effort,
    turn: float = SECONDS_PER_TURN,
) -> Times:
    """Measure several things one after another, again and again.

    A busy machine then slows all of them alike, and their ratios stay.

    Parameters
    ----------
    work
        Each is called with a number of repetitions and returns the seconds of one.
    effort
        How often each is measured; a quick one repeats nothing.
    turn
        Seconds that one measurement should take.
    """
    repetitions = {}
    for name, run in work.items():
        run(1)  # whatever happens once
        fitting = 1 if effort.quick else round(turn / max(run(1), 1e-7))
        repetitions[name] = max(1, fitting)
    found: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(effort.rounds):
        for name, run in work.items():
            found[name].append(run(repetitions[name]) * 1e3)
    return {name: Spread.of(values) for name, values in found.items()}


def seconds_of(function: Callable[[], object]) -> Callable[[int], float]:
    """Return what `in_turns` calls, for a function without arguments."""

    def run(repetitions: int) -> float:
        begin = time.perf_counter()
        for _ in range(repetitions):
            function()
        return (time.perf_counter() - begin) / repetitions

    return run


@contextmanager
def on_one_core() -> Iterator[None]:
    """Bind this process, whatever libraries it runs, to one core and one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if allowed:
        os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if allowed:
            os.sched_setaffinity(0, allowed)
