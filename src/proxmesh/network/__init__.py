"""Engines: how rows travel between neighbors."""

from proxmesh.network.connecting import ENGINES, TIMEOUT, connect
from proxmesh.network.simulated import SimulatedWorld
from proxmesh.network.traffic import CountingNetwork, Traffic

__all__ = [
    "ENGINES",
    "TIMEOUT",
    "CountingNetwork",
    "SimulatedWorld",
    "Traffic",
    "connect",
]
