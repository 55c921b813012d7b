"""Tables of a page: what is shown, what it is sorted by, what is copied."""

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from proxmesh.errors import shortened
from proxmesh.report.latex import escaped
from proxmesh.report.runs import FinishedRun
from proxmesh.report.tables import (
    TITLES,
    as_latex,
    as_markdown,
    cells,
    markdown,
    summarized,
)
from proxmesh.report.thinning import rounded

__all__ = ["plain_table", "table_of_runs"]

ABOUT = {
    "stationarity": "squared norm of the proximal gradient step plus consensus error",
    "training loss": "mean over agents of their shard's mean loss",
    "test accuracy": "share of correct labels on the test set",
    "test R2": "share of the test targets' variance that is explained",
    "nonzeros": "share of weights that are not zero",
    "gradients": "sample gradients that each agent has evaluated",
    "MB sent": "over all edges, both directions",
    "seconds": "computing time, without evaluation and compilation",
    "network seconds": "computing and messages on links of this speed, modelled",
    "seeds": "runs that count; mean ± standard deviation is over these",
}
COLUMN_OF = {title: column for column, title in TITLES.items()}


def table_of_runs(runs: Sequence[FinishedRun]) -> dict[str, Any]:
    """The table of a comparison, and each of its rows in LaTeX, Markdown and CSV."""
    titles, rows = cells(runs)
    means = summarized(runs)

    def value(label: str, title: str) -> float | int | None:
        column = COLUMN_OF.get(title)
        if column not in means:
            return None
        of_column: Any = means[column]["mean"]
        return rounded([of_column[label]])[0]

    return {
        "name": "results",
        "titles": titles,
        "about": [ABOUT.get(title, "") for title in titles],
        "rows": [
            {
                "label": row[0].text,
                "texts": [cell.text for cell in row],
                "best": [int(cell.best) for cell in row],
                "values": [value(row[0].text, title) for title in titles],
            }
            for row in rows
        ],
        "copies": {
            "LaTeX": _split(as_latex(runs), len(rows), "\\midrule", "\\bottomrule"),
            "Markdown": _split(as_markdown(runs), len(rows), "| ---", ""),
            "CSV": _split(_as_csv(runs), len(rows), "", ""),
        },
    }


def plain_table(
    table: pd.DataFrame, name: str, best: Collection[tuple[int, str]] = ()
) -> dict[str, Any]:
    """Any table of texts and numbers; `best`: rows and columns in bold."""
    titles = [shortened(title) for title in table]
    texts = [[_text(v) for v in row] for row in table.itertuples(index=False)]
    shape = "l" * len(titles)
    head = [rf"\begin{{tabular}}{{{shape}}}", r"\toprule"]
    head += [" & ".join(map(escaped, titles)) + r" \\", r"\midrule"]
    lines = [" & ".join(map(escaped, row)) + r" \\" for row in texts]
    latex = "\n".join([*head, *lines, r"\bottomrule", r"\end{tabular}", ""])
    return {
        "name": name,
        "titles": titles,
        "about": [""] * len(titles),
        "rows": [
            {
                "label": row[0] if row else "",
                "texts": row,
                "best": [int((number, title) in best) for title in table],
                "values": [_number(v) for v in values],
            }
            for number, (row, values) in enumerate(
                zip(texts, table.itertuples(index=False), strict=True)
            )
        ],
        "copies": {
            "LaTeX": _split(latex, len(texts), "\\midrule", "\\bottomrule"),
            "Markdown": _split(markdown(titles, texts), len(texts), "| ---", ""),
            "CSV": _split(table.to_csv(index=False), len(texts), "", ""),
        },
    }


def _split(text: str, rows: int, before: str, after: str) -> dict[str, list[str]]:
    """Head, one line for each row, and foot: a page puts the rows in its own order.

    Text whose lines are not those of rows is left whole.
    """
    lines = text.splitlines()
    first = next((i + 1 for i, x in enumerate(lines) if before and before in x), 1)
    last = next((i for i, x in enumerate(lines) if after and after in x), len(lines))
    if last - first != rows:
        return {"head": lines, "rows": [], "foot": []}
    return {"head": lines[:first], "rows": lines[first:last], "foot": lines[last:]}


def _as_csv(runs: Sequence[FinishedRun]) -> str:
    """Mean and standard deviation with all their digits."""
    table = summarized(runs)
    names: list[Any] = table.columns.tolist()
    table.columns = pd.Index(["_".join(name) for name in names])
    return table.to_csv(index_label="method")


def _text(value: object) -> str:
    if isinstance(value, float):
        return "" if pd.isna(value) else f"{value:.4g}"
    return "" if value is None else shortened(value)


def _number(value: object) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return rounded([value])[0]
