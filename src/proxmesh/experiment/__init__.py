"""Runs: config, the loop, results."""

from proxmesh.experiment.results import Outcome, Result
from proxmesh.experiment.runner import solve

__all__ = ["Outcome", "Result", "solve"]
