"""Which of several exact ways is fastest on this machine? Timed once, remembered."""

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from proxmesh.data.download import cache_folder

__all__ = ["fastest"]

FILE = "calibration.json"
ROUNDS = 3
MARGIN = 0.9  # share of the first way's time that a later way may take to be chosen


def fastest(ways: Mapping[str, Callable[[], object]], *facts: Any) -> str:
    """Return the name of the fastest way, the first one unless another clearly wins.

    Parameters
    ----------
    ways
        What to time, by name; each is called once before, to set itself up, and is
        dropped if that fails.
    facts
        What the answer depends on, besides this machine and its number of threads. The
        answer is kept in the user's cache folder, so that it stays the same from run to
        run.
    """
    key = _key(*facts, *ways)
    known = _remembered().get(key)
    if known in ways:
        return str(known)
    able = {name: way for name, way in ways.items() if _works(way)}
    if len(able) < 2:
        return next(iter(able or ways))
    times = {name: float("inf") for name in able}
    for _ in range(ROUNDS):
        for name, way in able.items():
            times[name] = min(times[name], _seconds(way))
    first = next(iter(able))
    best = min(times, key=times.__getitem__)
    chosen = best if times[best] < MARGIN * times[first] else first
    _remember(key, chosen)
    return chosen


def _works(way: Callable[[], object]) -> bool:
    try:
        way()
    except Exception:  # torch's refusals have many types
        return False
    return True


def _seconds(way: Callable[[], object]) -> float:
    begin = time.perf_counter()
    way()
    if torch.cuda.is_initialized():  # a GPU works on after the call has returned
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def _key(*facts: Any) -> str:
    here = (
        platform.machine(),
        torch.backends.cpu.get_cpu_capability(),
        os.cpu_count(),
        torch.get_num_threads(),
        torch.__version__,
    )
    return hashlib.sha256(repr((here, facts)).encode()).hexdigest()[:16]


def _file() -> Path:
    return cache_folder() / FILE


def _remembered() -> dict[str, str]:
    try:
        found = json.loads(_file().read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _remember(key: str, chosen: str) -> None:
    """Keep the answer; if that fails, it only has to be found again."""
    file = _file()
    fresh = file.with_name(f"{FILE}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps({**_remembered(), key: chosen}, indent=1))
        fresh.replace(file)
    except OSError:
        return
