"""Tables and curves of run folders: numbers by hand, bad ends shown."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from run_folders import write

import proxmesh as pm
from proxmesh.report.curves import draw, draw_grid, mean_curve
from proxmesh.report.panels import AXES, PANELS
from proxmesh.report.runs import collect, require_one_task
from proxmesh.report.tables import as_latex, as_markdown, cells, last_rows, summarized


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "dsgt" / "seed-9", [9.0, 0.2, 0.1])
    write(tmp_path / "dsgt" / "seed-10", [9.0, 0.4, 0.3])
    write(tmp_path / "hsm-admm" / "seed-9", [9.0, 0.3, 0.002])
    write(
        tmp_path / "hsm-admm" / "seed-10",
        [9.0],
        "diverged",
        "at iteration 37, first at agent 2. Shorten the step.",
    )
    write(tmp_path / "prox-dasa" / "seed-9", [9.0, 0.2, 0.004])
    write(tmp_path / "prox-dasa" / "seed-10", [9.0, 0.4, 0.004])
    failed = tmp_path / "sppdm" / "seed-9"
    failed.mkdir(parents=True)
    (failed / "failed.txt").write_text("no room left\n")
    return tmp_path


def test_means_and_deviations_are_those_of_the_good_runs(folder: Path) -> None:
    runs = collect([folder])
    assert [run.seed for run in runs if run.label == "dsgt"] == [9, 10]
    table = summarized(runs)
    assert table.loc["dsgt", ("stationarity", "mean")] == pytest.approx(0.2)
    assert table.loc["dsgt", ("stationarity", "std")] == pytest.approx(
        np.std([0.1, 0.3], ddof=1)
    )
    assert table.loc["hsm-admm", ("stationarity", "mean")] == pytest.approx(0.002)
    assert list(last_rows(runs)["outcome"]) == [
        "finished",
        "finished",
        "finished",
        "diverged",
        "finished",
        "finished",
        "failed",
    ]


def test_the_table_shows_the_best_in_bold_and_bad_ends(folder: Path) -> None:
    runs = collect([folder])
    assert as_markdown(runs) == (
        "| method | stationarity | test accuracy | iterations | gradients | MB sent | "
        "seconds | seeds |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| dsgt | 0.2000 ± 0.1414 | **0.8950 ± 0.0071** | 2 | 128 | 4 | 1.0 ± 0.0 | "
        "2 |\n"
        "| hsm-admm | 2.0e-03 | 0.8900 | 2 | 128 | 4 | 1.0 | "
        "1 of 2; diverged at k = 37 |\n"
        "| prox-dasa | **4.0e-03 ± 0.0e+00** | 0.8950 ± 0.0071 | 2 | 128 | 4 | "
        "1.0 ± 0.0 | 2 |\n"
        "| sppdm | - | - | - | - | - | - | 0 of 1; failed: no room left |\n"
    )
    assert as_latex(runs).count(r"\\") == 5


def test_a_comparison_of_failures_only_has_a_table(tmp_path: Path) -> None:
    failed = tmp_path / "sppdm" / "seed-0"
    failed.mkdir(parents=True)
    (failed / "failed.txt").write_text("no room left\n")
    titles, rows = cells(collect([tmp_path]))
    assert titles == ["method", "seeds"]
    assert [cell.text for cell in rows[0]] == [
        "sppdm",
        "0 of 1; failed: no room left",
    ]


def test_runs_that_are_not_seeds_of_one_setting_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path / "a" / "dsgt" / "seed-0", [9.0, 0.2, 0.1])
    write(tmp_path / "a" / "dsgt" / "seed-1", [9.0, 0.2, 0.1])
    write(tmp_path / "b" / "dsgt" / "seed-0", [9.0, 0.2, 0.3])
    once = collect([tmp_path / "a", tmp_path / "a" / "dsgt"])
    assert [(run.label, run.seed) for run in once] == [("dsgt", 0), ("dsgt", 1)]
    both = collect([tmp_path / "a", tmp_path / "b"])
    assert [run.label for run in both] == ["dsgt (a/dsgt)"] * 2 + ["dsgt (b/dsgt)"]
    config = tmp_path / "b" / "dsgt" / "seed-0" / "config.toml"
    config.write_text(config.read_text().replace("seed = 0", "seed = 7"))
    assert len({run.label for run in collect([tmp_path / "a", tmp_path / "b"])}) == 1
    config.write_text(
        config.read_text().replace('"dsgt"', '"dsgt"\nalpha = 0.3'),
    )
    assert len({run.label for run in collect([tmp_path / "a", tmp_path / "b"])}) == 2


def test_runs_of_different_tasks_are_refused_with_the_difference(folder: Path) -> None:
    require_one_task(collect([folder]))
    write(folder / "other" / "seed-0", [9.0, 0.2], agents=16)
    with pytest.raises(pm.InputError, match=r"different tasks: `graph\.agents`"):
        require_one_task(collect([folder]))


def test_folders_without_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(pm.InputError, match="holds no run that has ended"):
        collect([tmp_path])
    with pytest.raises(pm.InputError, match="is not a folder"):
        collect([tmp_path / "nowhere"])


def test_curves_are_the_mean_and_the_range_over_seeds(folder: Path) -> None:
    runs = [run for run in collect([folder]) if run.label == "dsgt"]
    curve = mean_curve(runs, "stationarity", "bytes_sent")
    assert curve["mean"].tolist() == pytest.approx([9.0, 0.3, 0.2])
    assert curve["low"].tolist() == pytest.approx([9.0, 0.2, 0.1])
    assert curve["high"].tolist() == pytest.approx([9.0, 0.4, 0.3])
    assert curve["x"].tolist() == [0, 2e6, 4e6]
    assert mean_curve(runs, "kkt", "iteration").empty
    runs[0].history["iteration"] = [0, 2, 4]  # looked at other iterations: 0 and 2
    curve = mean_curve(runs, "stationarity", "iteration")
    assert curve["x"].tolist() == [0, 2]
    assert curve["mean"].tolist() == pytest.approx([9.0, (0.2 + 0.3) / 2])


def test_a_panel_has_a_line_and_a_band_for_each_good_method(folder: Path) -> None:
    axis = Figure().subplots()
    draw(axis, collect([folder]), PANELS[0], AXES[2])
    lines = {line.get_label(): line for line in axis.get_lines()}
    assert set(lines) == {"DSGT", "HSM-ADMM", "Prox-DASA"}
    assert np.asarray(lines["DSGT"].get_xdata()).tolist() == [0, 2, 4]  # megabytes
    assert len(axis.collections) == 3
    assert axis.get_yscale() == "log"
    assert lines["DSGT"].get_color() != lines["HSM-ADMM"].get_color()


def test_the_grid_is_written(folder: Path) -> None:
    file = draw_grid(collect([folder]), folder / "curves.png", "title")
    assert file.stat().st_size > 10_000
