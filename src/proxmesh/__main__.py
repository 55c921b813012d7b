"""Run the command line as ``python -m proxmesh``."""

from proxmesh.cli import main

main()
