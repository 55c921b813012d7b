"""Pictures as files: whole or not there, and never the reason why a run is lost."""

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxmesh.errors import InputError, Notice, shortened, unknown
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.reading import one_line

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "draw_what_is_there",
    "drawable",
    "noting_failure",
    "picture_file",
    "plain",
    "save_picture",
]

FORMATS = ("pdf", "svg", "png")

LARGEST, SMALLEST = 1e150, 1e-150  # axes overflow long before numbers do


def draw_what_is_there(folder: Path, title: str = "") -> None:
    """Draw the curves of a run folder; a picture that fails becomes a notice."""
    run = RunFolder(folder)
    with noting_failure("curves.png"):
        if run.is_begun() and len(run.history()) > 1:
            from proxmesh.report.figures import draw_run

            draw_run(folder, title)
    with noting_failure("theory.png"):
        if run.theory() is not None:
            from proxmesh.report.theory import draw_theory

            draw_theory(folder, title)


@contextlib.contextmanager
def noting_failure(picture: str) -> Iterator[None]:
    """Say why a picture was not drawn, and go on: its numbers are kept elsewhere."""
    try:
        yield
    except (OSError, ValueError, ArithmeticError, MemoryError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        told = one_line(reason or str(error) or type(error).__name__).rstrip(".")
        warnings.warn(f"{picture} was not drawn: {told}.", Notice, stacklevel=3)


def picture_file(
    out: str | Path | None, kind: str | None, force: bool, name: str = "figure"
) -> Path:
    """The file for a figure; its suffix and the format that is asked for agree.

    Without `out` it is `name`, without a format a PDF. A file that exists is refused
    unless `force`.
    """
    if kind is not None and kind not in FORMATS:
        raise unknown("format", kind, FORMATS)
    file = Path(name if out is None else out)
    suffix = file.suffix.removeprefix(".").lower()
    if out is None or not suffix:
        file = file.with_name(f"{file.name}.{kind or FORMATS[0]}")
    elif suffix not in FORMATS:
        raise InputError(
            f"picture `{shortened(file)}` has no known format. Use one of: "
            f"{', '.join(f'.{known}' for known in FORMATS)}."
        )
    elif kind not in {None, suffix}:
        raise InputError(
            f"picture `{shortened(file)}` ends in `.{suffix}`, but the format is "
            f"`{kind}`. Give only one of them."
        )
    if os.path.lexists(file) and not force:
        raise InputError(
            f"picture `{shortened(file)}` exists already. Choose another name, or "
            "overwrite it with `--force` (`force=True`)."
        )
    return file


def save_picture(figure: "Figure", file: Path, dpi: int, **options: Any) -> Path:
    """Write a figure aside, then put it in its place: never half a picture."""
    aside = file.with_name(f".drawing-{os.getpid()}{file.suffix}")
    try:
        figure.savefig(aside, dpi=dpi, **options)
        aside.replace(file)
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
    return file


def drawable(values: "pd.Series[float]", log: bool = False) -> "pd.Series[float]":
    """Leave out numbers that are too large or too small for an axis."""
    size = values.abs()
    tiny = values <= SMALLEST if log else (size <= SMALLEST) & (size > 0)
    return values.where((size < LARGEST) & ~tiny)


def plain(text: str) -> str:
    r"""Make matplotlib show a name as it is, not as a formula.

    Examples
    --------
    >>> plain("cost_in_$.csv")
    'cost_in_\\$.csv'
    """
    return shortened(text).replace("$", r"\$")
