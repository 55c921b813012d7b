"""Figures, tables and pages from run folders and graphs."""

import sys
from pathlib import Path
from types import ModuleType

from proxmesh.report.asked import Reported, report

__all__ = ["report"]


class _Callable(ModuleType):
    """A package that is also the function of its name.

    ``pm.report(...)`` is what people write, and Python puts this package in that place
    as soon as anything in it is imported.
    """

    def __call__(
        self, *runs: Reported, out: str | Path | None = None, title: str = ""
    ) -> Path:
        return report(*runs, out=out, title=title)


sys.modules[__name__].__class__ = _Callable
