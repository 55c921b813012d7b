"""The report of a comparison: its tables and curves, written into a folder."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from proxmesh.errors import InputError, shortened
from proxmesh.report.pictures import noting_failure
from proxmesh.report.runs import FinishedRun, require_one_task
from proxmesh.report.tables import as_latex, as_markdown, last_rows

__all__ = ["write_comparison"]

FILES = ("table.md", "table.tex", "runs.csv", "curves.png")


def write_comparison(
    runs: Sequence[FinishedRun], folder: Path, title: str = ""
) -> list[str]:
    """Write the tables and curves of runs of one task; return the names of the files.

    Runs of different tasks are refused. The files replace those of an earlier report
    together; curves that cannot be drawn become a notice.
    """
    require_one_task(runs)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".report-", dir=folder) as name:
            aside = Path(name)
            (aside / "table.md").write_text(as_markdown(runs), encoding="utf-8")
            (aside / "table.tex").write_text(as_latex(runs), encoding="utf-8")
            last_rows(runs).to_csv(aside / "runs.csv", index=False)
            with noting_failure("curves.png"):
                from proxmesh.report.curves import draw_grid

                draw_grid(runs, aside / "curves.png", title)
            written = [file for file in FILES if (aside / file).exists()]
            with _alone_in(folder):
                for file in written:
                    (aside / file).replace(folder / file)
    except OSError as error:
        raise InputError(
            f"folder `{shortened(folder)}` cannot be written: {error.strerror}."
        ) from error
    return written


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Let two reports replace files one after the other, so that they do not mix."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network disks know no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
