"""The command line; the only layer that prints.

Modules of this package import torch only inside commands: `--help` answers at once.
"""

from proxmesh.cli.app import main

__all__ = ["main"]
