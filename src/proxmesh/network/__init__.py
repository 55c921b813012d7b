"""Engines: how rows travel between neighbors."""

from proxmesh.network.connecting import ENGINES, connect
from proxmesh.network.simulated import SimulatedWorld
from proxmesh.network.traffic import CountingNetwork, Traffic

__all__ = ["ENGINES", "CountingNetwork", "SimulatedWorld", "Traffic", "connect"]
