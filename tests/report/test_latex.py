"""LaTeX tables: bold only what is significant, numbers and names as in papers."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from proxmesh.algorithms import ALGORITHMS
from proxmesh.report.intervals import half_width, is_lower
from proxmesh.report.latex import escaped, number
from proxmesh.report.names import proper_name
from proxmesh.report.runs import FinishedRun
from proxmesh.report.tables import as_latex

NOISE = np.array([1.0, 1.3, 0.8, 1.1, 0.9])


def ended(
    label: str,
    values: Sequence[float],
    column: str = "stationarity",
    sent: float = 3e6,
    outcome: str = "finished",
) -> list[FinishedRun]:
    """One run per value, with seeds from 0 on."""
    return [
        FinishedRun(
            label=label,
            seed=seed,
            folder=Path(label) / f"seed-{seed}",
            config={},
            history=pd.DataFrame({"iteration": [9], "bytes_sent": [sent], column: [v]}),
            outcome=outcome,
            message="at iteration 4." if outcome == "diverged" else "9 iterations.",
        )
        for seed, v in enumerate(values)
    ]


def row_of(name: str, table: str) -> str:
    [row] = [line for line in table.splitlines() if line.startswith(f"{name} &")]
    return row


def bold_rows(table: str) -> list[str]:
    return [line.split(" &")[0] for line in table.splitlines() if r"\boldmath" in line]


def test_numbers_are_means_with_their_interval() -> None:
    values = 1e-5 * NOISE
    half = stats.t.ppf(0.975, 4) * values.std(ddof=1) / math.sqrt(5)
    table = as_latex(ended("deepstorm-v2", list(values)))
    cell = rf"$({values.mean() * 1e5:.2f} \pm {half * 1e5:.2f}) \times 10^{{-5}}$"
    assert row_of("DEEPSTORM v2", table) == rf"DEEPSTORM v2 & {cell} & 9 & 3 & 5 \\"
    assert float(half_width(values.std(ddof=1), 5)) == pytest.approx(half, rel=1e-12)
    alone = as_latex(ended("dsgt", [2e-3]))
    assert row_of("DSGT", alone) == r"DSGT & $2.00 \times 10^{-3}$ & 9 & 3 & 1 \\"
    for rule in ("toprule", "midrule", "bottomrule"):
        assert table.count(rf"\{rule}") == 1


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (9.999e-4, math.nan, r"$1.00 \times 10^{-3}$"),
        (-2.5e7, 1e6, r"$(-2.50 \pm 0.10) \times 10^{7}$"),
        (0.0, math.nan, "$0.0000$"),
        (math.nan, math.nan, "--"),
        (math.inf, math.nan, r"$\infty$"),
        (0.91, math.inf, "$0.9100$"),
    ],
)
def test_odd_numbers_have_a_form(value: float, half: float, text: str) -> None:
    assert number(value, half) == text


def test_bold_is_what_beats_every_other_method() -> None:
    low = ended("hsm-admm", list(1e-5 * NOISE))
    far = ended("dsgt", list(3e-5 * NOISE[::-1]))
    assert bold_rows(as_latex([*low, *far])) == ["HSM-ADMM"]
    near = ended("sppdm", list(1.05e-5 * NOISE[::-1]))  # lower in some seeds only
    assert bold_rows(as_latex([*low, *far, *near])) == []
    always = ended("sppdm", list(1.05e-5 * NOISE * (1 + 0.001 * NOISE)))  # paired: yes
    assert bold_rows(as_latex([*low, *far, *always])) == ["HSM-ADMM"]


def test_higher_accuracy_is_better() -> None:
    runs = [
        *ended("dsgt", list(0.8 + 0.01 * NOISE), "test_accuracy"),
        *ended("d-psgd", list(0.7 + 0.02 * NOISE), "test_accuracy"),
    ]
    assert bold_rows(as_latex(runs)) == ["DSGT"]


def test_nothing_is_bold_with_fewer_than_three_shared_seeds() -> None:
    runs = [*ended("hsm-admm", [1e-5, 2e-5]), *ended("dsgt", [1e-2, 2e-2, 3e-2])]
    table = as_latex(runs)
    assert bold_rows(table) == []
    reason = "hsm-admm and dsgt share 2 seeds, and a test needs 3."
    assert f"% No stationarity is bold: {reason}" in table.splitlines()
    assert "paired t-test over shared seeds at 5 %" in table


def test_bad_ends_and_servers_do_not_compete() -> None:
    low = ended("hsm-admm", list(1e-5 * NOISE))
    high = ended("dsgt", list(1e-3 * NOISE))
    server = ended("prox-sgd", list(1e-7 * NOISE), sent=0.0)
    broken = ended("sppdm", list(1e-8 * NOISE))
    diverged = ended("sppdm", [1.0], outcome="diverged")
    table = as_latex([*low, *high, *server, *broken, *diverged])
    assert bold_rows(table) == ["HSM-ADMM"]
    assert r"5 of 6; diverged at k = 4 \\" in table


def test_the_paired_test_is_scipy_s_on_logarithms() -> None:
    draw = np.random.default_rng(0)
    outcomes = set()
    for shift in np.linspace(-1.0, 1.0, 40):
        first = pd.Series(np.exp(draw.normal(0, 0.5, 6)), index=range(6))
        second = pd.Series(np.exp(shift + draw.normal(0, 0.5, 6)), index=range(6))
        test = stats.ttest_rel(np.log(first), np.log(second))
        expected = bool(test.pvalue < 0.05 and test.statistic < 0)
        assert is_lower(first, second) == expected
        outcomes.add(expected)
    assert outcomes == {True, False}


def test_equal_gaps_and_signs_are_no_trouble() -> None:
    ones = pd.Series([1.0, 1.0, 1.0])
    assert is_lower(0.5 * ones, ones)
    assert not is_lower(ones, ones)
    assert is_lower(-ones, 0 * ones)  # not positive: compared as they are
    assert not is_lower(ones, np.inf * ones)
    assert not is_lower(1e308 * ones, -1e308 * ones)
    assert not is_lower(ones, pd.Series([2.0, 2.0, 2.0], index=[2, 3, 4]))  # one shared


def test_names_are_escaped() -> None:
    table = as_latex(ended(r"[a_b] $x^2$ 5 % \ & #", [1.0]))
    start = r"{[}a\_b] \$x\textasciicircum{}2\$ 5 \% \textbackslash{} \& \# &"
    assert start in table
    assert escaped("*~{}") == r"{*}\textasciitilde{}\{\}"


def test_every_method_has_a_name_of_its_own() -> None:
    titles = [method.title for method in ALGORITHMS.values()]
    assert len(set(titles)) == len(titles)
    for label, method in ALGORITHMS.items():
        plain = [letter for letter in label if letter.isalnum()]
        shown = [letter for letter in method.title.lower() if letter.isalnum()]
        assert plain == shown
        assert proper_name(f"{label} (a/b)") == f"{method.title} (a/b)"
