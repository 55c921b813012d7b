"""Every command with its options, as a page shows them: what `--help` prints."""

import contextlib
import io
import re
from unittest.mock import patch

from proxmesh.cli.app import main

__all__ = ["listing"]

WIDTH = "90"  # of what is printed; wider blocks would have to be scrolled


def listing() -> str:
    """Markdown: a section for every command, and below it what its `--help` prints.

    >>> text = listing()
    >>> "## proxmesh runs show" in text, "--steps" in text
    (True, True)
    """
    parts = []
    for path in paths([]):
        printed = re.sub(r"^  -h, --help .*\n?", "", printed_by(path), flags=re.M)
        block = "\n".join(line.rstrip() for line in printed.strip().splitlines())
        parts.append(f"## proxmesh {' '.join(path)}\n\n```text\n{block}\n```")
    return "\n\n".join(parts)


def paths(path: list[str]) -> list[list[str]]:
    """The commands below one, each as the words that call it."""
    _, _, below = printed_by(path).partition("\nCommands:\n")
    found = []
    for name in re.findall(r"^  (\w\S*)", below, re.MULTILINE):
        found += [[*path, name], *paths([*path, name])]
    return found


def printed_by(path: list[str]) -> str:
    """What a command says about itself."""
    out = io.StringIO()
    with (
        patch.dict("os.environ", {"COLUMNS": WIDTH}),
        contextlib.redirect_stdout(out),
        contextlib.suppress(SystemExit),
    ):
        main([*path, "--help"])
    return out.getvalue()
