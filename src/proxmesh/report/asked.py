"""One interactive page about runs, from a program."""

from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from proxmesh.errors import InputError

__all__ = ["Reported", "report"]


@runtime_checkable
class WithFolder(Protocol):
    """A result or a comparison: it knows where it was written, if it was."""

    @property
    def folder(self) -> Path | None:
        """Where it is."""


Reported: TypeAlias = str | Path | WithFolder


def report(*runs: Reported, out: str | Path | None = None, title: str = "") -> Path:
    """Write report.html about runs: interactive, in one file that needs no other.

    Parameters
    ----------
    runs
        Folders of runs, comparisons or tunings; or results and comparisons that were
        made with ``out=FOLDER``.
    out
        The file. If not given: report.html in the folder of a single one, otherwise
        where the program runs.
    title
        Of the page. If not given: what the runs have in common.

    Returns
    -------
    Path
        The file, to be opened in a browser.

    Examples
    --------
    >>> import tempfile
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(3))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     result = pm.solve(problem, pm.DSGT(0.1), pm.graphs.path(3), steps=5,
    ...                       out=f"{place}/run")
    ...     pm.report(result).name
    'report.html'
    """
    if not runs:
        raise InputError("report: nothing is given. Name a folder, or give a result.")
    from proxmesh.report.writing import REPORT, report_on

    folders = [_folder_of(one) for one in runs]
    usual = folders[0] / REPORT if len(folders) == 1 else Path(REPORT)
    return report_on(folders, usual if out is None else Path(out), title)


def _folder_of(one: Reported) -> Path:
    if isinstance(one, str | Path):
        return Path(one)
    if not isinstance(one, WithFolder):
        raise InputError(
            f"report: expected a folder, a result or a comparison, got {one!r}."
        )
    if one.folder is None:
        kind = type(one).__name__
        raise InputError(
            f"report: this {kind} has no folder. Make it with `out=FOLDER`."
        )
    return one.folder
