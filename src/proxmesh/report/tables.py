"""Tables of a comparison: mean over seeds and their spread.

For reading there are Markdown, text and HTML: with the standard deviation, the best
mean in bold. For a paper there is LaTeX: with the interval of the mean, and bold only
where a difference is significant.
"""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import pandas as pd

from proxmesh.metrics import HIGHER_IS_BETTER
from proxmesh.report import latex
from proxmesh.report.intervals import FEWEST, half_width, is_lower
from proxmesh.report.names import proper_name
from proxmesh.report.runs import FinishedRun

__all__ = [
    "Cell",
    "as_html",
    "as_latex",
    "as_markdown",
    "as_text",
    "cells",
    "ends_of",
    "last_rows",
    "markdown",
    "summarized",
]

JUDGED = ("stationarity", "train_loss", "test_accuracy", "test_r2", "density_y")
COSTS = ("iteration", "gradients", "bytes_sent", "seconds", "simulated_seconds")
TITLES = {
    "method": "method",
    "stationarity": "stationarity",
    "train_loss": "training loss",
    "test_accuracy": "test accuracy",
    "test_r2": "test R2",
    "density_y": "nonzeros",
    "iteration": "iterations",
    "gradients": "gradients",
    "bytes_sent": "MB sent",
    "seconds": "seconds",
    "simulated_seconds": "network seconds",
    "runs": "seeds",
}
TIMES = ("seconds", "simulated_seconds")
WIDE = 1e-2  # below it a number is written with an exponent
LONG = 1e15  # and from here on
ABOUT_LATEX = (
    r"Needs \usepackage{booktabs}.",
    "Mean over seeds, with its 95 % interval (Student's t) from two seeds on.",
    "Bold: better than every other method in a paired t-test over shared seeds at 5 %,",
    "of logarithms where all values are positive. Methods with a seed that ended",
    "badly, and references on a server, are not compared.",
)


@final
@dataclass(frozen=True, slots=True)
class Cell:
    """One entry of a table, and whether it is the best of its column."""

    text: str
    best: bool = False


def last_rows(runs: Sequence[FinishedRun]) -> pd.DataFrame:
    """One row per run: label, seed, outcome, message and its last numbers."""
    rows = []
    for run in runs:
        last: dict[Any, Any] = {}
        if len(run.history):
            last = run.history.iloc[-1].to_dict()
        about = {"label": run.label, "seed": run.seed, "outcome": run.outcome}
        rows.append({**about, **last, **about, "message": run.message})
    return pd.DataFrame(rows)


def summarized(runs: Sequence[FinishedRun]) -> pd.DataFrame:
    """Mean and standard deviation of the good runs of each label, columns in pairs.

    With one seed the deviation is blank. The order of labels is that of the runs.
    """
    labels = list(dict.fromkeys(run.label for run in runs))
    good = last_rows([run for run in runs if run.is_good])
    columns = [c for c in (*JUDGED, *COSTS) if c in good]
    if good.empty:
        return pd.DataFrame(index=pd.Index(labels, name="label"))
    grouped = good.groupby("label")[columns]
    table = pd.concat({"mean": grouped.mean(), "std": grouped.std()}, axis=1)
    return table.swaplevel(axis=1).reindex(labels)


def cells(
    runs: Sequence[FinishedRun], without: Sequence[str] = ()
) -> tuple[list[str], list[list[Cell]]]:
    """The table for people: titles, and a row of cells for each label."""
    table = summarized(runs)
    have = set(table.columns.get_level_values(0)) - set(without)
    columns = [c for c in (*JUDGED, *COSTS) if c in have]
    titles = [TITLES[c] for c in ("method", *columns, "runs")]
    partial = {run.label for run in runs if not run.is_good}
    best = {c: _best(table, c, partial) for c in columns if c in JUDGED}
    rows = []
    for label in table.index:
        row = [Cell(str(label))]
        for column in columns:
            mean, std = table.loc[label, column]
            row.append(Cell(_spread(column, mean, std), best.get(column) == label))
        row.append(Cell(ends_of([run for run in runs if run.label == label])))
        rows.append(row)
    return titles, rows


def as_markdown(runs: Sequence[FinishedRun], without: Sequence[str] = ()) -> str:
    """The table in Markdown."""
    titles, rows = cells(runs, without)
    return markdown(
        titles, [[f"**{c.text}**" if c.best else c.text for c in row] for row in rows]
    )


def markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Any table in Markdown."""
    quoted = [[text.replace("|", r"\|") for text in row] for row in rows]
    lines = [titles, ["---"] * len(titles), *quoted]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_text(runs: Sequence[FinishedRun]) -> str:
    """The table in columns, for a console."""
    titles, rows = cells(runs)
    lines = [titles, *([cell.text for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    last = len(widths) - 1
    return "\n".join(
        "  ".join(
            text.ljust(width) if i in {0, last} else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def as_html(runs: Sequence[FinishedRun]) -> str:
    """The table in HTML, for a notebook."""
    titles, rows = cells(runs)
    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(map(_in_html, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _in_html(cell: Cell) -> str:
    text = html.escape(cell.text)
    return f"<td>{f'<b>{text}</b>' if cell.best else text}</td>"


def as_latex(runs: Sequence[FinishedRun]) -> str:
    """The table in LaTeX, for booktabs, with what it shows in comments above it."""
    table = summarized(runs)
    columns = [c for c in (*JUDGED, *COSTS) if c in table.columns.get_level_values(0)]
    better, remarks = _significant(runs, table)
    shape = "l" + "r" * len(columns) + "l"
    lines = [*(f"% {remark}" for remark in (*ABOUT_LATEX, *remarks))]
    lines += [rf"\begin{{tabular}}{{{shape}}}", r"\toprule"]
    titles = [TITLES[c] for c in ("method", *columns, "runs")]
    lines += [" & ".join(titles) + r" \\", r"\midrule"]
    good = last_rows([run for run in runs if run.is_good])
    for label in table.index:
        row = [latex.escaped(proper_name(str(label)))]
        for column in columns:
            mean, std = table.loc[label, column]
            count = good.loc[good["label"] == label, column].count()
            text = _latex_cell(column, mean, float(half_width(std, count)))
            row.append(latex.bold(text) if better.get(column) == label else text)
        row.append(latex.escaped(ends_of([run for run in runs if run.label == label])))
        lines.append(" & ".join(row) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _latex_cell(column: str, mean: float, half: float) -> str:
    if column in {"iteration", "gradients"} and not pd.isna(mean):
        return latex.whole_number(mean)
    if column == "bytes_sent" and not pd.isna(mean):
        sent = mean / 1e6
        return latex.whole_number(sent) if sent >= 100 else f"{sent:.3g}"
    return latex.number(mean, half, digits=1 if column in TIMES else 4)


def _significant(
    runs: Sequence[FinishedRun], table: pd.DataFrame
) -> tuple[dict[str, str], list[str]]:
    """By column, the label that beats every other; and why none can, if so."""
    good = last_rows([run for run in runs if run.is_good])
    partial = {run.label for run in runs if not run.is_good}
    better, remarks = {}, []
    for column in (c for c in JUDGED if c in good):
        rivals = [str(label) for label in _competing(table, column, partial).index]
        best = _best(table, column, partial)
        if best is None:
            continue
        by_label = {
            label: good[good["label"] == label].groupby("seed")[column].last()
            for label in rivals
        }
        mine = by_label.pop(str(best))
        few = [
            name for name, other in by_label.items() if _shared(mine, other) < FEWEST
        ]
        if few:
            shared = _shared(mine, by_label[few[0]])
            remarks.append(
                f"No {TITLES[column]} is bold: {best} and {few[0]} share {shared} "
                f"{'seed' if shared == 1 else 'seeds'}, and a test needs {FEWEST}."
            )
        elif all(_beats(column, mine, other) for other in by_label.values()):
            better[column] = str(best)
    return better, remarks


def _shared(first: "pd.Series[float]", second: "pd.Series[float]") -> int:
    return len(first.dropna().index.intersection(second.dropna().index))


def _beats(column: str, first: "pd.Series[float]", second: "pd.Series[float]") -> bool:
    if column in HIGHER_IS_BETTER:
        first, second = second, first
    return is_lower(first, second)


def _best(table: pd.DataFrame, column: str, partial: set[str]) -> object:
    """The label with the best mean, of those that compete."""
    means = _competing(table, column, partial)
    if len(means) < 2:
        return None
    return means.idxmax() if column in HIGHER_IS_BETTER else means.idxmin()


def _competing(
    table: pd.DataFrame, column: str, partial: set[str]
) -> "pd.Series[float]":
    """The means of the labels that compete.

    Labels with a bad seed and references that send nothing over edges do not.
    """
    means = table[column, "mean"].dropna()
    means = means.drop(index=[label for label in partial if label in means.index])
    if "bytes_sent" in table:
        sent = table["bytes_sent", "mean"].reindex(means.index)
        means = means[sent > 0] if (sent > 0).any() else means
    return means


def _spread(column: str, mean: float, std: float) -> str:
    if pd.isna(mean):
        return "-"
    form = _form(column, mean)
    if pd.isna(std) or column in {"iteration", "gradients", "bytes_sent"}:
        return form(mean)
    return f"{form(mean)} ± {form(std)}"


def _form(column: str, mean: float) -> Callable[[float], str]:
    if abs(mean) >= LONG:
        return lambda value: f"{value:.1e}"
    if column in {"iteration", "gradients"}:
        return lambda value: f"{value:,.0f}"
    if column == "bytes_sent":
        return lambda value: f"{value / 1e6:,.0f}"
    if column in TIMES:
        return lambda value: f"{value:.1f}"
    if abs(mean) < WIDE:
        return lambda value: f"{value:.1e}"
    return lambda value: f"{value:.4f}"


def ends_of(runs: Sequence[FinishedRun]) -> str:
    """How many seeds count, and why the others do not."""
    good = sum(run.is_good for run in runs)
    bad = [run.end for run in runs if not run.is_good]
    if not bad:
        return str(good)
    return f"{good} of {len(runs)}; {bad[0]}" + (", ..." if len(set(bad)) > 1 else "")
