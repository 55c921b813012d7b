"""What goes into report.html: true numbers, few enough, and never as HTML."""

import base64
import gzip
import json
import math
import re
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from report.folders import METHODS, write_comparison, write_run, write_tuning

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS
from proxmesh.report.html import LARGEST_PAGE
from proxmesh.report.page_data import document_of, groups_in
from proxmesh.report.palette import (
    DARK,
    LIGHT,
    STANDS_OUT,
    contrast,
    difference,
    lines_of,
)
from proxmesh.report.writing import attempted, report_of_run, report_on

SCRIPT = re.compile(r'<script nonce="[^"]*"( type="text/plain" id="(\w+)")?>')


def document_in(file: Path) -> Any:
    """The document that a page carries."""
    (packed,) = re.findall(r'id="document">([^<]*)<', file.read_text())
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def test_a_page_holds_its_runs_and_asks_for_nothing(tmp_path: Path) -> None:
    file = pm.report(write_comparison(tmp_path / "runs"))
    assert file == tmp_path / "runs" / "report.html"
    page = file.read_text()
    assert len(page) < LARGEST_PAGE
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    found = document_in(file)
    (group,) = found["groups"]
    assert [method["label"] for method in group["methods"]] == [
        "hsm-admm",
        "d-psgd",
        "dsgt",
    ]
    run = next(r for r in group["runs"] if (r["label"], r["seed"]) == ("dsgt", 1))
    assert run["columns"]["stationarity"][:3] == [8, 8, 4]
    assert run["columns"]["bytes_sent"][2] == 20_000
    assert found["t95"][0] == pytest.approx(12.7062)
    (network, *_) = group["agents"]
    assert network["network"]["places"][0] == [0, 0], "a star is drawn as a star"
    about = group["about"][0]
    assert about["command"].startswith("proxmesh run --config")
    assert about["versions"]["torch"] == "2.13"


def test_names_and_numbers_of_a_hostile_folder_stay_data(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><b>ü"
    folder = write_run(
        tmp_path / "run", evil, 0, [1.0, math.nan, math.inf, 1e308, -1.0]
    )
    table = pd.read_csv(folder / "history.csv")
    table["<img src=x onerror=alert(1)>"] = 1.0
    table.to_csv(folder / "history.csv", index=False)
    page = pm.report(folder, title="{{plotly}} <i>").read_text()
    assert "alert(1)" not in page.replace(
        "&lt;/script&gt;&lt;script&gt;alert(1)&lt;", ""
    )
    assert [kind or "ours" for _, kind in SCRIPT.findall(page)] == [
        "document", "plotly", "ours",
    ]  # fmt: skip
    assert "<title>{{plotly}} &lt;i&gt;</title>" in page
    (group,) = document_in(folder / "report.html")["groups"]
    assert group["runs"][0]["label"] == evil
    assert group["runs"][0]["columns"]["stationarity"] == [1, None, None, 1e308, -1]


def test_long_and_many_curves_are_thinned_alike(tmp_path: Path) -> None:
    for seed, rows in enumerate((5000, 4000)):
        write_run(tmp_path / f"dsgt/seed-{seed}", "dsgt", seed, [1.0] * rows)
    (group,) = groups_in([tmp_path])
    long, short = (run["columns"]["iteration"] for run in group["runs"])
    assert group["thinned"] == 2000
    assert len(long) <= 2001
    assert long[-1] == 49_990
    assert short[-1] == 39_990
    assert len(set(short) & set(long)) >= len(short) - 1, "means need common iterations"


def test_the_largest_page_stays_below_the_limit(tmp_path: Path) -> None:
    draw = [math.sin(k * k) ** 2 + 1e-3 for k in range(600)]
    for seed in range(40):
        write_run(tmp_path / f"dsgt/seed-{seed}", "dsgt", seed, draw)
    assert report_on([tmp_path], tmp_path / "r.html").stat().st_size < LARGEST_PAGE


def test_tables_can_be_put_in_any_order(tmp_path: Path) -> None:
    (group,) = groups_in([write_comparison(tmp_path / "runs")])
    table = group["table"]
    assert len(table["rows"]) == len(METHODS)
    for copied in table["copies"].values():
        assert len(copied["rows"]) == len(METHODS)
        assert "hsm-admm" in copied["rows"][0].lower()
    by_title = dict(zip(table["titles"], table["rows"][0]["values"], strict=True))
    assert by_title["stationarity"] == pytest.approx((0.1 + 0.4) / 2)


def test_a_tuning_shows_trials_and_the_best_so_far(tmp_path: Path) -> None:
    found = document_of(groups_in([write_tuning(tmp_path / "tuning")]))
    (group,) = found["groups"]
    dsgt, d_psgd = group["methods"]
    assert dsgt["values"] == [0.5, None, 0.25]
    assert dsgt["best"] == [0.5, 0.5, 0.25]
    assert d_psgd["best"] == [0.1, 0.1, 0.1]
    place = group["table"]["titles"].index("stationarity")
    assert [row["best"][place] for row in group["table"]["rows"]] == [0, 0, 1, 1, 0, 0]
    assert group["command"] == "proxmesh tune --trials 3"


def test_runs_of_two_tasks_are_two_groups(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "dsgt", 0, [1.0, 0.5])
    write_run(tmp_path / "b", "dsgt", 0, [1.0, 0.5], data={"name": "digits"})
    titles = [group["title"] for group in groups_in([tmp_path / "a", tmp_path / "b"])]
    assert [title.split(",")[0] for title in titles] == ["a9a", "digits"]


def test_a_run_without_an_end_is_shown_as_far_as_it_came(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "dsgt", 0, [1.0, 0.5])
    (folder / "summary.json").unlink()
    (group,) = groups_in([folder])
    assert group["runs"][0]["end"] == "killed"
    assert group["runs"][0]["columns"]["stationarity"] == [1, 0.5]


@pytest.mark.parametrize("disk", [100], indirect=True)
def test_a_full_disk_costs_the_page_and_nothing_else(disk: Path) -> None:
    folder = write_run(disk / "run", "dsgt", 0, [1.0, 0.5])
    with pytest.warns(
        pm.Notice, match=r"^report\.html was not written: .*No space"
    ) as told:
        assert report_of_run(folder) is None
    assert "\n" not in str(told[0].message)
    assert not list(folder.glob("report*"))


def test_whatever_goes_wrong_with_a_page_is_one_line() -> None:
    def defect() -> Path:
        raise ZeroDivisionError

    with pytest.warns(pm.Notice, match=r"report\.html was not written: ZeroDivision"):
        assert attempted(defect) is None


def test_colors_stand_out_and_similar_ones_differ_in_their_dash() -> None:
    lines = lines_of([*ALGORITHMS, "mine", "yours"])
    for line in lines.values():
        assert contrast(line.light, LIGHT) >= STANDS_OUT[LIGHT]
        assert contrast(line.dark, DARK) >= STANDS_OUT[DARK]
    labels = list(lines)
    for place, one in enumerate(labels):
        for other in labels[:place]:
            a, b = lines[one], lines[other]
            assert a.dash != b.dash or difference(a.light, b.light) > 8, (one, other)


def test_neither_plotly_nor_matplotlib_is_imported_for_a_page(tmp_path: Path) -> None:
    import subprocess
    import sys

    folder = write_run(tmp_path / "run", "dsgt", 0, [1.0, 0.5])
    program = (
        "import sys, proxmesh as pm\n"
        f"pm.report({str(folder)!r})\n"
        "print(sorted({'plotly', 'matplotlib'} & set(sys.modules)))"
    )
    with warnings.catch_warnings():
        ran = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("given", [(), (3,), (object(),)])
def test_what_is_no_run_is_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(pm.InputError, match="report: "):
        pm.report(*given)
