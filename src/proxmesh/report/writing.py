"""The report of folders, written where people look for it, and never in the way."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from proxmesh.errors import InputError, Notice, shortened
from proxmesh.report.html import LARGEST_PAGE, page_of
from proxmesh.report.page_data import NUMBERS, document_of, groups_in, runs_group
from proxmesh.report.runs import FinishedRun
from proxmesh.solver.durable import replaced
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.reading import one_line

__all__ = ["REPORT", "attempted", "report_of_run", "report_on", "report_on_runs"]

Groups: TypeAlias = Callable[[int], list[dict[str, Any]]]
"""What a page shows, with so many numbers in its curves."""

REPORT = "report.html"
FEWEST_NUMBERS = 1000


def report_on(folders: Sequence[Path], file: Path, title: str = "") -> Path:
    """Write the page of all runs and tunings in and below these folders."""
    if not folders:
        raise InputError("report: no folder is given. Name at least one.")
    return _written(lambda numbers: groups_in(folders, numbers), file, title)


def report_on_runs(
    tasks: Mapping[str, Sequence[FinishedRun]], file: Path, title: str = ""
) -> Path:
    """Write the page of runs that are read already, by the titles of their tasks."""

    def groups(numbers: int) -> list[dict[str, Any]]:
        share = numbers // max(1, len(tasks))
        return [runs_group(runs, name, share) for name, runs in tasks.items()]

    return _written(groups, file, title)


def report_of_run(folder: Path) -> Path | None:
    """Write the page of one run into its folder, unless its agents report apart."""
    if not RunFolder(folder).is_begun():
        return None
    return attempted(lambda: report_on([folder], folder / REPORT))


def attempted(write: Callable[[], Path]) -> Path | None:
    """Write a report at the end of a command; a failure is a notice of one line.

    The runs are made and kept: no defect of a page, whatever it is, may turn that into
    an error.
    """
    try:
        return write()
    except Exception as error:
        told = one_line(str(error) or type(error).__name__).rstrip(".")
        warnings.warn(f"{REPORT} was not written: {told}.", Notice, stacklevel=2)
        return None


def _written(groups: Groups, file: Path, title: str) -> Path:
    """Write a page that is not too large: one that is gets fewer points."""
    numbers = NUMBERS
    page = page_of(document_of(groups(numbers), title))
    while len(page) > LARGEST_PAGE and numbers > FEWEST_NUMBERS:
        numbers //= 2
        page = page_of(document_of(groups(numbers), title))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replaced(file, lambda aside: aside.write_text(page, encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"`{shortened(file)}` cannot be written: {error.strerror}."
        ) from error
    return file
