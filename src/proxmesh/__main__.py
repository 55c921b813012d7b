"""Run the command line as ``python -m proxmesh``."""

from proxmesh.cli import main

if __name__ == "__main__":  # processes of `compare` import this module, too
    main()
