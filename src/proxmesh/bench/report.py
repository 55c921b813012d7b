"""What a measurement found, next to what it should have found."""

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, final

from proxmesh.bench.timing import Times
from proxmesh.solver.environment import environment

__all__ = ["Measurement", "Ratio", "measured_with", "write"]

COMPARED_WITH = ("jax", "jaxlib")


@final
@dataclass(frozen=True, slots=True)
class Ratio:
    """One number against another, with its limit if it has one."""

    name: str
    value: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the limit is kept; None without one."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return None if self.at_least is None else self.value >= self.at_least

    @property
    def limit(self) -> str:
        """The limit, in words."""
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        return "" if self.at_least is None else f"at least {self.at_least:g}"


@final
@dataclass(frozen=True, slots=True)
class Measurement:
    """Times in milliseconds (or sizes in MB) and the ratios that matter."""

    name: str  # also of the file
    title: str
    unit: str = "ms"
    measured: Times = field(default_factory=dict)
    ratios: Sequence[Ratio] = ()
    notes: Sequence[str] = ()  # what was left out, and why

    def without_limits(self) -> "Measurement":
        """The same with bare ratios: sizes that no limit was meant for."""
        return replace(self, ratios=[Ratio(r.name, r.value) for r in self.ratios])


def measured_with() -> dict[str, Any]:
    """What a run records of its environment, the day, the processor and JAX."""
    versions = environment()["versions"]
    for package in COMPARED_WITH:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "date": time.strftime("%Y-%m-%d"),
        "versions": versions,
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
    }


def write(found: Measurement, folder: Path, machine: Mapping[str, Any]) -> Path:
    """Write a measurement with its environment as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{found.name}.json"
    tree = asdict(found)
    tree["ratios"] = [asdict(r) | {"holds": r.holds} for r in found.ratios]
    file.write_text(json.dumps({**tree, "machine": dict(machine)}, indent=2) + "\n")
    return file


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [x.partition(":")[2].strip() for x in lines if x.startswith("model name")]
    return names[0] if names else platform.machine()
