"""The picture of what the monitor `theory` saw, read from a run folder."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from proxmesh.errors import InputError
from proxmesh.report.figures import BLUE, GRAY, ORANGE
from proxmesh.report.pictures import drawable, save_picture
from proxmesh.solver.folder import RunFolder

__all__ = ["draw_theory"]

GREEN = "#3a8f4d"
Curves = Mapping[str, tuple[str, str, str]]
"""Label, color and line style of each column."""

INEQUALITIES: Mapping[str, Curves] = {
    "Lemma 2: error of the gradient estimate": {
        "lemma2_left": (r"E $|\mathcal{E}|^2$, resampled", BLUE, "-"),
        "lemma2_right": ("its bound", ORANGE, "--"),
        "error": (r"$|\mathcal{E}|^2$ of the run", GRAY, ":"),
    },
    "steps and residual": {
        "step": (r"$|\Delta x|$", BLUE, "-"),
        "residual": (r"$|r|^2$", ORANGE, "-"),
        "kkt": (r"dist$^2(0, \partial \mathcal{L})$", GREEN, "-"),
    },
    r"Lemma 1's step: is $|\Delta\lambda|^2$ below $|A^T \Delta\lambda|^2$?": {
        "dual_change": (r"$|\Delta\lambda|^2$", BLUE, "-"),
        "seen_by_A": (r"$|A^T \Delta\lambda|^2$", ORANGE, "--"),
    },
    "Lemma 1: the bound itself": {
        "dual_change": (r"$|\Delta\lambda|^2$", BLUE, "-"),
        "lemma1_right": ("its bound", ORANGE, "--"),
    },
    "terms of the Lyapunov function": {
        "lagrangian": ("augmented Lagrangian", BLUE, "-"),
        "error_term": (r"$|\mathcal{E}^k|^2/\Gamma$", ORANGE, "-"),
        "past_error_term": (r"$C_{err}|\mathcal{E}^{k-1}|^2/\rho$", GREEN, "-"),
        "step_term": (r"$\beta|\Delta x|^2/2$", GRAY, "-"),
    },
    "Lyapunov function": {
        "lyapunov": (r"$\Phi$", BLUE, "-"),
        "lemma3_left": (r"E $\Phi$, resampled", GRAY, ":"),
        "lemma3_right": ("what Lemma 3 allows", ORANGE, "--"),
    },
}


def draw_theory(folder: Path, title: str = "") -> Path:
    """Draw what the monitor saw in the run of a folder to theory.png."""
    seen = RunFolder(folder).theory()
    if seen is None:
        raise InputError(
            f"folder `{folder}` has no theory.csv. Run it with `--monitor theory`."
        )
    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    for axis, (name, curves) in zip(axes, INEQUALITIES.items(), strict=True):
        _panel(axis, seen, name, curves)
    if title:
        figure.suptitle(title, fontsize=10, parse_math=False)
    return save_picture(figure, folder / "theory.png", dpi=150)


def _panel(axis: Axes, seen: pd.DataFrame, name: str, curves: Curves) -> None:
    for column, (label, color, style) in curves.items():
        if column in seen:
            positive = drawable(seen[column], log=True)
            axis.plot(
                seen["iteration"], positive, color=color, ls=style, lw=1.3, label=label
            )
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    axis.set_ylim(low, high * (high / low) ** 0.4)  # room for the legend
    axis.set_title(name, fontsize=9)
    axis.set_xlabel("iterations", fontsize=8)
    axis.tick_params(labelsize=8)
    if axis.get_lines():
        axis.legend(frameon=False, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
