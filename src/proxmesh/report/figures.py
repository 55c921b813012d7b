"""Pictures of single runs, read from their folders, and of topologies."""

from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from proxmesh.errors import InputError, shortened
from proxmesh.graphs import Graph
from proxmesh.report.curves import style_of
from proxmesh.report.layout import placed, wrapping_edges
from proxmesh.report.panels import PANELS, Panel
from proxmesh.report.pictures import drawable, save_picture
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.reading import method_in

__all__ = ["draw_graph", "draw_run"]

BLUE, ORANGE, GRAY = "#2458a6", "#d1661a", "#8a8f98"
FORMATS = (".png", ".svg", ".pdf")
ROOM = 0.15  # for the circles of the outermost agents
ROOM_OF_ARCS = 0.2  # for edges around a torus, which leave the square
LABELED_UP_TO = 64  # agents; above, numbers would hide the picture


def draw_run(folder: Path, title: str = "") -> Path:
    """Draw stationarity, loss, accuracy and sparsity of a run folder to curves.png."""
    run = RunFolder(folder)
    history, color = run.history(), style_of(method_in(run.config()))["color"]
    panels = [panel for panel in PANELS if panel.column in history]
    figure = Figure(figsize=(3.4 * max(1, len(panels)), 2.9), layout="constrained")
    axes = figure.subplots(1, max(1, len(panels)), squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=False):
        _curve(axis, history, panel, color)
    if {"stationarity", "consensus"} <= {*history}:
        consensus = drawable(history["consensus"], log=True)
        axes[0].plot(history["iteration"], consensus, color=GRAY, lw=1, ls="--")
        axes[0].legend(["norm + consensus", "consensus"], frameon=False, fontsize=8)
        both = pd.concat([history["stationarity"], consensus.iloc[1:]])
        _zoom(axes[0], both, True)
    if title:
        figure.suptitle(title, fontsize=10, parse_math=False)
    return save_picture(figure, folder / "curves.png", dpi=150)


def draw_graph(graph: Graph, file: Path) -> Path:
    """Draw a topology; hubs are larger. The suffix of the file decides the format."""
    if file.suffix not in FORMATS:
        raise InputError(
            f"picture `{shortened(file)}` has no known format. Use one of: "
            f"{', '.join(FORMATS)}."
        )
    drawn, positions = graph.to_networkx(), placed(graph)
    around = wrapping_edges(graph, positions)
    figure = Figure(figsize=(5, 5), layout="constrained")
    axis = figure.subplots()
    size = 260 * np.sqrt(graph.degrees / graph.degrees.mean()) * min(1, 24 / graph.n)
    nx.draw_networkx(
        drawn,
        pos=positions,
        edgelist=[e for e in graph.edges if e not in around],
        ax=axis,
        with_labels=graph.n <= LABELED_UP_TO,
        node_size=np.maximum(size, 12).tolist(),
        node_color=BLUE,
        edge_color=GRAY,
        font_color="white",
        font_size=8,
        width=0.8,
    )
    nx.draw_networkx_edges(
        drawn,
        pos=positions,
        ax=axis,
        edgelist=around,
        edge_color=ORANGE,
        width=0.8,
        arrows=True,
        arrowstyle="-",
        connectionstyle="arc3,rad=0.25",
        node_size=12,
    )
    axis.set_title(f"{graph}: {len(graph.edges)} edges", fontsize=10, parse_math=False)
    axis.set_axis_off()
    axis.set_aspect("equal")
    room = ROOM + ROOM_OF_ARCS * bool(around)
    heights = [y for _, y in positions.values()]
    axis.set(
        xlim=(-1 - room, 1 + room), ylim=(min(heights) - room, max(heights) + room)
    )
    try:
        return save_picture(figure, file, dpi=150)
    except OSError as error:
        raise InputError(
            f"picture `{shortened(file)}` cannot be written: {error.strerror}."
        ) from error


def _curve(axis: Axes, history: pd.DataFrame, panel: Panel, color: str) -> None:
    values = drawable(history[panel.column], panel.log)
    axis.plot(history["iteration"], values, color=color, lw=1.6)
    if panel.log:
        axis.set_yscale("log")
    _zoom(axis, values if panel.log else values.iloc[1:], panel.log)
    axis.set_xlabel("iterations")
    axis.set_ylabel(panel.label)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25, lw=0.6)


def _zoom(axis: Axes, values: "pd.Series[float]", log: bool) -> None:
    """Fit the axis to what follows the start, which would flatten everything else."""
    values = drawable(values, log).dropna()
    if len(values) < 2 or values.min() == values.max():
        return
    low, high = float(values.min()), float(values.max())
    if log:
        axis.set_ylim(low / 2, high * 3)
    else:
        axis.set_ylim(low - 0.05 * (high - low), high + 0.15 * (high - low))
