"""The rows of a history, handed on as the run goes: TensorBoard, Weights & Biases, CSV.

Give loggers among the `callbacks` of `proxmesh.solve`. The root alone logs, every row
from the first one on, and they are closed however the run ends::

    callbacks=[pm.loggers.TensorBoard("logs"), pm.loggers.CSV("rows.csv")]
"""

import csv
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO, final

from proxmesh.errors import InputError

__all__ = ["CSV", "TensorBoard", "WandB"]

Row = Mapping[str, float]


@final
class TensorBoard:
    """Write every column of the history as a scalar that TensorBoard shows.

    Parameters
    ----------
    folder
        For its event files; look at them with ``tensorboard --logdir FOLDER``.

    Examples
    --------
    >>> import proxmesh as pm
    >>> pm.loggers.TensorBoard("logs")
    TensorBoard('logs')
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._made = _needed(
            "torch.utils.tensorboard",
            "TensorBoard",
            "tensorboard",
            "`pip install 'proxmesh[tensorboard]'`",
        )
        self._writer: Any = None

    def __repr__(self) -> str:
        return f"TensorBoard({str(self.folder)!r})"

    def begin(self, rows: Sequence[Row]) -> None:
        """Open the folder; what a run that is gone on from has logged later is hidden.

        Parameters
        ----------
        rows
            The history so far.
        """
        purge = int(rows[-1]["iteration"]) + 1 if rows else None
        self._writer = self._made.SummaryWriter(str(self.folder), purge_step=purge)

    def on_row(self, row: Row) -> None:
        """Write the numbers of one evaluation.

        Parameters
        ----------
        row
            Of the history.
        """
        agent = f"/agent {row['agent']:.0f}" if "agent" in row else ""
        for name, value in row.items():
            if name not in {"agent", "iteration"}:
                self._writer.add_scalar(f"{name}{agent}", value, int(row["iteration"]))
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


@final
class WandB:
    """Log every row of the history to a run of Weights & Biases.

    Parameters
    ----------
    project
        Its name there.
    mode
        ``"online"``, or ``"offline"``: into a folder, for ``wandb sync`` later.
    options
        Further arguments of ``wandb.init``, such as ``name``, ``config`` or ``dir``.

    Examples
    --------
    >>> import proxmesh as pm
    >>> pm.loggers.WandB("my-project", mode="offline", dir="logs")  # doctest: +SKIP
    WandB('my-project', mode='offline')
    """

    def __init__(self, project: str, mode: str = "online", **options: Any) -> None:
        self._wandb = _needed("wandb", "WandB", "wandb", "`pip install wandb`")
        self.options = {"project": project, "mode": mode, **options}
        self._run: Any = None

    def __repr__(self) -> str:
        return f"WandB({self.options['project']!r}, mode={self.options['mode']!r})"

    def begin(self, rows: Sequence[Row]) -> None:
        """Start the run there; give `id` and ``resume="allow"`` to go on in one.

        Parameters
        ----------
        rows
            The history so far.
        """
        del rows
        self._run = self._wandb.init(**self.options)

    def on_row(self, row: Row) -> None:
        """Log the numbers of one evaluation.

        Parameters
        ----------
        row
            Of the history.
        """
        agent = f"/agent {row['agent']:.0f}" if "agent" in row else ""
        numbers = {f"{n}{agent}": v for n, v in row.items() if n != "agent"}
        self._run.log(numbers, step=int(row["iteration"]))

    def close(self) -> None:
        """End the run there."""
        self._run.finish()


@final
class CSV:
    """Write the rows of the history to one file, anywhere; a run folder has its own.

    Parameters
    ----------
    path
        The file. One that is there is refused, unless the run goes on that wrote it.

    Examples
    --------
    >>> import tempfile
    >>> import proxmesh as pm
    >>> logger = pm.loggers.CSV(Path(tempfile.mkdtemp()) / "rows.csv")
    >>> logger.begin([])
    >>> logger.on_row({"iteration": 0, "norm": 0.5})
    >>> logger.close()
    >>> logger.path.read_text().split()
    ['iteration,norm', '0,0.5']
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file: TextIO | None = None
        self._columns: list[str] = []

    def __repr__(self) -> str:
        return f"CSV({str(self.path)!r})"

    def begin(self, rows: Sequence[Row]) -> None:
        """Create the file; for a run that goes on, with the rows that it has.

        Parameters
        ----------
        rows
            The history so far.
        """
        self._columns = []
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("w" if rows else "x", newline="")
        except FileExistsError as error:
            raise InputError(
                f"loggers.CSV: `{self.path}` exists already. Name another file, or "
                "remove it."
            ) from error
        except OSError as error:
            raise InputError(
                f"loggers.CSV: `{self.path}` cannot be written: {error.strerror}."
            ) from error
        for row in rows:
            self.on_row(row)

    def on_row(self, row: Row) -> None:
        """Write one row, at once.

        Parameters
        ----------
        row
            Of the history.
        """
        assert self._file is not None
        writer = csv.writer(self._file, lineterminator="\n")
        if not self._columns:
            self._columns = list(row)
            writer.writerow(self._columns)
        writer.writerow([row.get(name, "") for name in self._columns])
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        assert self._file is not None
        self._file.close()


def _needed(module: str, who: str, package: str, how: str) -> Any:
    """A module that need not be installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"loggers.{who} needs the package {package}: {how}."
        ) from error
