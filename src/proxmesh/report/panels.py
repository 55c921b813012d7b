"""Which columns of a history are drawn, against which, and how they are labeled."""

from dataclasses import dataclass
from typing import final

__all__ = ["AXES", "PANELS", "Panel"]


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
)
