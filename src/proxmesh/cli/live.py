"""`--live`: the report of a command, served while it goes on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from proxmesh.cli.console import console, tell

__all__ = ["served"]


@contextmanager
def served(
    folders: Sequence[Path], wanted: bool, silent: bool, labels: Sequence[str] = ()
) -> Iterator[None]:
    """Serve the page of some run folders, if wanted, and print where it is."""
    if not wanted:
        yield
        return
    from proxmesh.report.live import LivePage

    with LivePage(folders, labels) as page:
        say = tell if silent else console.print  # stdout is for the result alone
        say(f"live: {page.address}")
        yield
