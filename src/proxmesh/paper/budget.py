"""`fig-budget`: what tuning costs, from the trials of a search."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from proxmesh.paper.comparisons import COMPARISONS
from proxmesh.report.curves import style_of
from proxmesh.report.names import proper_name
from proxmesh.report.tables import markdown
from proxmesh.runs.build import build
from proxmesh.runs.compare import single_threaded
from proxmesh.runs.config import Config, load_config
from proxmesh.runs.spaces import load_spaces
from proxmesh.runs.tune import Budget, Tuning, searches, trial_table

__all__ = ["PaperSearch", "best_so_far"]

COUNTS = (1, 3, 6, 12, 24)  # trials
TUNING_SEED = 1000
FEW = 3  # trials of a small search
SMALL = 64 * 128  # gradients that pay for a look and some steps
AUTOMATIC = "hsm-admm"  # its first trial is the rule that it comes with
METHODS = (
    AUTOMATIC,
    "deepstorm-v2",
    "prox-ed",
    "dpga",
    "prox-gt-sa",
    "sppdm",
    "prox-dasa",
)


@final
@dataclass(frozen=True, slots=True)
class PaperSearch:
    """The same search for every method on the task of a comparison."""

    task: str  # the name of the comparison
    trials: int = max(COUNTS)
    gradients: int = 128_000  # sample gradients per agent in a trial

    def config(self) -> Config:
        """The task of its trials."""
        return load_config(None, {**COMPARISONS[self.task].task, "seed": TUNING_SEED})

    def opened(self, scale: str, folder: Path) -> Tuning:
        """Its trials, those that the folder holds already taken note of."""
        small = scale == "small"
        first = build(single_threaded(self.config()))
        pays = SMALL if small else self.gradients
        found = searches(
            first.tree(),
            METHODS[:2] if small else METHODS,
            load_spaces(None),
            Budget(FEW if small else self.trials, pays),
            shard_size=first.problem.num_samples / first.graph.n,
            out=folder,
        )
        return Tuning(found)

    def write(self, tuning: Tuning, folder: Path) -> list[Path]:
        """Draw the best of the first trials, and write the table; return both."""
        folder.mkdir(parents=True, exist_ok=True)
        best = best_so_far(trial_table(tuning.searches))
        title = (
            f"{COMPARISONS[self.task].title}; trials of {self.gradients:,} gradients"
        )
        figure, table = folder / "figure.png", folder / "table.md"
        _drawn(best, title).savefig(figure, dpi=130)
        counts = [count for count in COUNTS if count <= best.index.max()]
        rows = [
            [proper_name(label), *(f"{best[label][count]:.2e}" for count in counts)]
            for label in map(str, best)
        ]
        table.write_text(markdown(["method", *(f"{c} trials" for c in counts)], rows))
        return [figure, table]


def best_so_far(trials: pd.DataFrame) -> pd.DataFrame:
    """The least stationarity of the first 1, 2, ... trials of every method."""
    by_method = {
        str(label): mine["stationarity"].reset_index(drop=True).cummin()
        for label, mine in trials.groupby("method", sort=False)
    }
    best = pd.DataFrame(by_method)
    return best.set_axis(range(1, len(best) + 1))


def _drawn(best: pd.DataFrame, title: str) -> Figure:
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axis = figure.subplots()
    for label in best:
        style = style_of(str(label))
        name = proper_name(str(label))
        axis.step(best.index, best[label], where="post", label=name, **style)
    if AUTOMATIC in best:
        first = float(best[AUTOMATIC].iloc[0])
        axis.axhline(first, color="black", lw=0.9, ls=":", label="HSM-ADMM as it comes")
    axis.set(xscale="log", yscale="log")
    _mark(axis, [count for count in COUNTS if count <= best.index.max()])
    axis.set_xlabel("trials", fontsize=9)
    axis.set_ylabel("stationarity of the best trial so far", fontsize=9)
    axis.set_title(title, fontsize=9)
    axis.grid(alpha=0.25, lw=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8)
    return figure


def _mark(axis: Axes, counts: Sequence[int]) -> None:
    """Name the counts on a logarithmic axis, and nothing between them."""
    axis.set_xticks(counts, [str(count) for count in counts], fontsize=8)
    axis.set_xticks([], minor=True)
