"""The paper's experiments, and the ones it should have had."""

from proxmesh.paper.figures import FIGURES

__all__ = ["FIGURES"]
