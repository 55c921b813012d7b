"""Runs: config, the loop, results."""

from proxmesh.solver.loop import solve
from proxmesh.solver.result import Outcome, Result

__all__ = ["Outcome", "Result", "solve"]
