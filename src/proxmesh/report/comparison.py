"""The report of a comparison: its tables and curves, written into a folder."""

from collections.abc import Sequence
from pathlib import Path

from proxmesh.errors import InputError
from proxmesh.report.curves import draw_grid
from proxmesh.report.runs import FinishedRun, require_one_task
from proxmesh.report.tables import as_latex, as_markdown, last_rows

__all__ = ["write_comparison"]


def write_comparison(
    runs: Sequence[FinishedRun], folder: Path, title: str = ""
) -> list[str]:
    """Write the tables and curves of runs of one task; return the names of the files.

    Runs of different tasks are refused.
    """
    require_one_task(runs)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "table.md").write_text(as_markdown(runs))
        (folder / "table.tex").write_text(as_latex(runs))
        last_rows(runs).to_csv(folder / "runs.csv", index=False)
        draw_grid(runs, folder / "curves.png", title)
    except OSError as error:
        raise InputError(f"folder `{folder}` cannot be written: {error}.") from error
    return ["table.md", "table.tex", "runs.csv", "curves.png"]
