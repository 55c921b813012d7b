"""A prepared run, the one loop, and what it leaves behind."""

from proxmesh.solver.outcome import Outcome
from proxmesh.solver.preparation import prepare, solve
from proxmesh.solver.result import Result
from proxmesh.solver.run import Run
from proxmesh.solver.settings import Settings

__all__ = ["Outcome", "Result", "Run", "Settings", "prepare", "solve"]
