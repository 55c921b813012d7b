"""Which columns of a history are drawn, against which, and how they are labeled."""

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import final

from proxmesh.errors import unknown

__all__ = ["AXES", "PANELS", "Panel", "in_units", "panel_of"]


@final
@dataclass(frozen=True, slots=True)
class Panel:
    """One column of the histories, and how it is drawn."""

    column: str
    label: str
    log: bool = False
    scale: float = 1.0  # values are divided by it


PANELS = (
    Panel("stationarity", "stationarity", log=True),
    Panel("train_loss", "training loss"),
    Panel("test_accuracy", "test accuracy"),
    Panel("density_y", "share of nonzeros"),
)
AXES = (
    Panel("iteration", "iterations"),
    Panel("gradients", "gradients per agent"),
    Panel("bytes_sent", "MB sent, all edges", scale=1e6),
    Panel("seconds", "seconds of computing"),
    Panel("simulated_seconds", "seconds on this network"),
)
OTHERS = (
    Panel("vectors_sent", "vectors to each neighbor"),
    Panel("norm", "proximal gradient, squared norm", log=True),
    Panel("consensus", "consensus error", log=True),
    Panel("objective", "objective"),
    Panel("test_loss", "test loss"),
    Panel("train_accuracy", "training accuracy"),
    Panel("train_rmse", "training error (RMSE)"),
    Panel("test_rmse", "test error (RMSE)"),
    Panel("test_r2", "test R2"),
    Panel("density", "share of nonzeros, average model"),
    Panel("kkt", "KKT residual", log=True),
)
KNOWN: Mapping[str, Panel] = {p.column: p for p in (*PANELS, *AXES, *OTHERS)}
ALIASES: Mapping[str, str] = {
    "iterations": "iteration",
    "bytes": "bytes_sent",
    "vectors": "vectors_sent",
    "loss": "train_loss",
    "accuracy": "test_accuracy",
    "nonzeros": "density_y",
    "network": "simulated_seconds",
}
BYTES: Mapping[float, str] = {1e9: "GB", 1e6: "MB", 1e3: "kB"}


def panel_of(name: str, columns: Collection[str]) -> Panel:
    """How a column, or an alias of one, is drawn; only `columns` are there.

    Examples
    --------
    >>> panel_of("bytes", ["iteration", "bytes_sent"]).label
    'MB sent, all edges'
    >>> panel_of("largest", ["iteration", "largest"])
    Panel(column='largest', label='largest', log=False, scale=1.0)
    >>> panel_of("los", ["iteration", "train_loss"])
    Traceback (most recent call last):
    proxmesh.errors.InputError: unknown column `los`. Did you mean `loss`? Known: ...
    """
    column = name if name in columns else ALIASES.get(name, name)
    if column not in columns:
        short = [alias for alias, whole in ALIASES.items() if whole in columns]
        raise unknown("column", name, [*columns, *short])
    return KNOWN.get(column) or Panel(column, column.replace("_", " "))


def in_units(panel: Panel, largest: float) -> Panel:
    """Bytes in the unit that suits the largest of them; other columns as they are."""
    if panel.column != "bytes_sent":
        return panel
    scale = next((size for size in BYTES if largest >= size), 1e3)
    label = panel.label.replace("MB", BYTES[scale])
    return dataclasses.replace(panel, label=label, scale=scale)
