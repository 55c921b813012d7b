"""Tables of a comparison: mean and standard deviation over seeds, the best in bold."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import pandas as pd

from proxmesh.metrics import HIGHER_IS_BETTER
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

JUDGED = ("stationarity", "train_loss", "test_accuracy", "density_y")
COSTS = ("iteration", "gradients", "bytes_sent", "seconds")
TITLES = {
    "method": "method",
    "stationarity": "stationarity",
    "train_loss": "training loss",
    "test_accuracy": "test accuracy",
    "density_y": "nonzeros",
    "iteration": "iterations",
    "gradients": "gradients",
    "bytes_sent": "MB sent",
    "seconds": "seconds",
    "runs": "seeds",
}
WIDE = 1e-2  # below it a number is written with an exponent
LONG = 1e15  # and from here on


IN_LATEX = {
    **{letter: f"\\{letter}" for letter in "_%$&#{}"},
    "\\": r"\textbackslash{}",
    "^": r"\^{}",
    "~": r"\~{}",
    "±": r"$\pm$",
    "`": "'",
}


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
    """The table in LaTeX, for booktabs."""
    titles, rows = cells(runs)
    shape = "l" + "r" * (len(titles) - 2) + "l"
    lines = [rf"\begin{{tabular}}{{{shape}}}", r"\toprule"]
    lines += [" & ".join(titles) + r" \\", r"\midrule"]
    for row in rows:
        lines.append(" & ".join(map(_latex, row)) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _best(table: pd.DataFrame, column: str, partial: set[str]) -> object:
    """The best label.

    Labels with a bad seed and references that send nothing over edges do not compete.
    """
    means = table[column, "mean"].dropna()
    means = means.drop(index=[label for label in partial if label in means.index])
    if "bytes_sent" in table:
        sent = table["bytes_sent", "mean"].reindex(means.index)
        means = means[sent > 0] if (sent > 0).any() else means
    if len(means) < 2:
        return None
    return means.idxmax() if column in HIGHER_IS_BETTER else means.idxmin()


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
    if column == "seconds":
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


def _latex(cell: Cell) -> str:
    text = "".join(IN_LATEX.get(letter, letter) for letter in cell.text)
    return rf"\textbf{{{text}}}" if cell.best else text
