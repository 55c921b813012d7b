"""The paper's figures: their comparisons are sound, their numbers are those of runs."""

import dataclasses
import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS
from proxmesh.paper import FIGURES
from proxmesh.paper.budget import best_so_far
from proxmesh.paper.comparisons import COMPARISONS, SCALES
from proxmesh.paper.link_tables import QUADRATICS, link_table, trained
from proxmesh.paper.survival import CONDITIONS
from proxmesh.paper.survival import METHODS as ON_LINKS
from proxmesh.paper.tasks import TASKS
from proxmesh.report.runs import FinishedRun
from proxmesh.report.targets import first_reached, fitted_slope, running_best, spent
from proxmesh.runs.build import build, build_algorithm
from proxmesh.runs.compare import built_method, run_config
from proxmesh.runs.config import Config

K = np.array([0, *np.unique(np.geomspace(1, 1000, 40).astype(int))])
FACTOR = {"hsm-admm": 0.01, "dsgt": 1e3}  # of the stationarity K^(-2/3)


def fabricated(label: str, seed: int, comparison: str) -> FinishedRun:
    plan = COMPARISONS[comparison]
    section = plan.parameters().section(label)
    task = plan.config("small").model_dump()
    config = run_config(task, section, built_method(section), seed)
    decay = FACTOR.get(label, 10.0) * np.maximum(K, 0.5) ** (-2 / 3)
    server = label in {"prox-sgd", "prox-storm"}
    history = pd.DataFrame(
        {
            "iteration": K,
            "gradients": 128 * K + 64,
            "vectors_sent": 0 * K if server else K + 1,
            "bytes_sent": 0 * K if server else 1_000_000 * (K + 1),
            "seconds": 0.01 * K,
            "stationarity": decay * (1 + 0.1 * seed),
            "train_loss": 0.3 + decay,
            "test_accuracy": 0.9 - 0.01 * decay,
            "density_y": 0.5,
            "kkt": 3 * decay,
        }
    )
    bad = label == "none-ring"
    return FinishedRun(
        label=label,
        seed=seed,
        folder=Path(label) / f"seed-{seed}",
        config=config,
        history=history,
        outcome="diverged" if bad else "finished",
        message="at iteration 12, first at agent 0." if bad else "1000 iterations.",
    )


def runs_of(figure: str) -> dict[str, list[FinishedRun]]:
    return {
        name: [fabricated(label, s, name) for label in COMPARISONS[name].labels
               for s in range(2)]
        for name in FIGURES[figure].needs
    }  # fmt: skip


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_comparison_is_sound_at_every_scale(name: str) -> None:
    comparison = COMPARISONS[name]
    parameters = comparison.parameters()
    sizes = [comparison.size(scale) for scale in SCALES]
    assert [s.steps for s in sizes] == sorted(s.steps for s in sizes)
    for label in comparison.labels:
        section = parameters.section(label)
        assert section["name"] in ALGORITHMS
        task = comparison.config("standard").model_dump()
        config = run_config(task, section, built_method(section), 0)
        build_algorithm(Config.model_validate(config))
        left = name.startswith(("hubs", "links", "untuned")) or label == "automatic"
        if not left:  # tuned, not left at its defaults
            assert label in parameters.methods
    if comparison.task["data.name"] == "a9a":  # MNIST may have to be fetched
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pm.Notice)  # a split with tiny shards
            task = build(comparison.config("standard")).tree()
        differing = parameters.differences(task)
        moved = name in {"noniid-dirichlet", "noniid-moved"}
        assert moved or not differing
        assert all("`data." in difference for difference in differing)


def test_the_issue_s_experiments_are_all_here() -> None:
    assert set(FIGURES) == {
        "fig-ring-a9a",
        "fig-random-mnist",
        "fig-hubs",
        "fig-noniid",
        "fig-rate",
        "fig-communication",
        "fig-untuned",
        "fig-budget",
        "table-cost",
        "table-links",
    }
    graphs = {
        (c.task["graph.name"], c.task.get("graph.agents", 8))
        for name, c in COMPARISONS.items()
        if name.startswith("hubs")
    }
    assert graphs == {
        ("star", 8),
        ("star", 32),
        ("star", 128),
        ("barabasi-albert", 32),
    }


DRAWN_FROM_RUNS = [
    name for name, figure in FIGURES.items() if figure.needs and figure.measure is None
]


@pytest.mark.documented
@pytest.mark.parametrize("name", DRAWN_FROM_RUNS)
def test_every_figure_is_made_from_runs(name: str, tmp_path: Path) -> None:
    FIGURES[name].make(runs_of(name), tmp_path)
    assert (tmp_path / "table.md").read_text().startswith(("| ", "sorted"))
    if name.startswith("fig"):
        assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_hubs_show_iterations_to_targets_and_divergence(tmp_path: Path) -> None:
    FIGURES["fig-hubs"].make(runs_of("fig-hubs"), tmp_path)
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert len(lines) == 2 + 4 * 5
    assert lines[0].endswith("| seeds |")
    blind = next(line for line in lines if "no degree" in line)
    assert "diverged at k = 12" in blind
    own = next(line for line in lines if "own degree, tuned" in line)
    assert "not reached" in own  # 10 K^(-2/3) at K = 1000 is 0.1


@pytest.mark.long
def test_bad_ends_are_shown_and_count_as_never_there(tmp_path: Path) -> None:
    found = runs_of("fig-communication")
    runs = found["ring-a9a"]
    ended = {"outcome": "diverged", "message": "at iteration 5, first at agent 1."}
    mine = [
        dataclasses.replace(run, **ended)  # type: ignore[arg-type]
        if run.label == "sppdm" or (run.label == "hsm-admm" and run.seed == 1)
        else run
        for run in runs
    ]
    for name in ("fig-communication", "table-cost", "fig-ring-a9a"):
        FIGURES[name].make({**found, "ring-a9a": mine}, tmp_path)
        table = (tmp_path / "table.md").read_text()
        sppdm = next(row for row in table.splitlines() if row.startswith("| sppdm"))
        assert "not reached" in sppdm or "diverged at k = 5" in sppdm
    row = next(r for r in table.splitlines() if r.startswith("| hsm-admm"))
    assert "1 of 2; diverged at k = 5" in row
    assert "**" not in row  # half of its seeds are gone: it is not the best
    assert spent(mine[:2], "stationarity", 1e-3, "iteration") == (float("inf"), 1)


@pytest.mark.long
def test_a_figure_of_bad_ends_only_is_still_made(tmp_path: Path) -> None:
    ended = {"outcome": "diverged", "message": "at iteration 5, first at agent 1."}
    for name in DRAWN_FROM_RUNS:
        bad = {
            c: [dataclasses.replace(r, **ended) for r in runs]  # type: ignore[arg-type]
            for c, runs in runs_of(name).items()
        }
        FIGURES[name].make(bad, tmp_path)
        table = (tmp_path / "table.md").read_text()
        said = ("diverged at k = 5", "not reached", "blew up")
        assert any(words in table for words in said)


def test_untuned_methods_come_in_the_order_of_their_ratios(tmp_path: Path) -> None:
    FIGURES["fig-untuned"].make(runs_of("fig-untuned"), tmp_path)
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert lines[2].startswith("| HSM-ADMM |")  # fabricated: a thousandth of others'
    assert lines[-1].startswith("| DSGT |")
    assert len(lines[2].split(" | ")) == 1 + len(TASKS)
    runs = runs_of("fig-untuned")
    first = next(iter(runs))
    runs[first] = [run for run in runs[first] if run.label != "hsm-admm"]
    FIGURES["fig-untuned"].make(runs, tmp_path)
    lines = (tmp_path / "table.md").read_text().splitlines()
    ours = next(line for line in lines if line.startswith("| HSM-ADMM |"))
    assert ours.split(" | ")[1] == "blew up"


def test_the_budget_is_the_best_of_the_first_trials() -> None:
    values = {"hsm-admm": [3.0, 5.0, 1.0], "sppdm": [math.inf, 8.0, 9.0]}
    table = pd.DataFrame(
        [
            {"method": label, "trial": i, "stationarity": value}
            for label, mine in values.items()
            for i, value in enumerate(mine)
        ]
    )
    best = best_so_far(table)
    assert best["hsm-admm"].tolist() == [3.0, 3.0, 1.0]
    assert best["sppdm"].tolist() == [math.inf, 8.0, 8.0]
    assert best.index.tolist() == [1, 2, 3]


@pytest.mark.long
def test_the_budget_figure_is_made_from_a_search(tmp_path: Path) -> None:
    search = FIGURES["fig-budget"].search
    assert search is not None
    tuning = search.opened("small", tmp_path / "trials")
    assert tuning.remaining == 3 * 2
    for search_of_one in tuning.searches:  # told, not run
        while (run := search_of_one.next()) is not None:
            final = {"stationarity": 1.0 / (1 + len(search_of_one.trials))}
            search_of_one.tell(run, "finished", final, "8 iterations.")
    figure, written = search.write(tuning, tmp_path / "figure")
    assert figure.stat().st_size > 10_000
    lines = written.read_text().splitlines()
    assert lines[0] == "| method | 1 trials | 3 trials |"
    assert lines[2] == "| HSM-ADMM | 1.00e+00 | 3.33e-01 |"


def test_the_fitted_slope_is_the_slope(tmp_path: Path) -> None:
    assert fitted_slope([1, 10, 100], [1, 1e-2, 1e-4], 0.0) == pytest.approx(-2)
    # Only the last decade counts: a flat start does not change it.
    assert fitted_slope([1, 10, 100], [1, 1, 1e-3], 0.1) == pytest.approx(-3)
    FIGURES["fig-rate"].make(runs_of("fig-rate"), tmp_path)
    rows = (tmp_path / "table.md").read_text().splitlines()[2:]
    assert [row.split(" | ")[2] for row in rows] == ["-0.67"] * 6


def test_what_was_spent_until_a_target_is_read_off_the_first_row_there() -> None:
    runs = [fabricated("hsm-admm", s, "ring-a9a") for s in range(2)]
    target = 1e-3
    k = int(K[(K > 0) & (0.01 * np.maximum(K, 0.5) ** (-2 / 3) <= target)][0])
    row = first_reached(runs[0].history, "stationarity", target)
    assert row is not None
    assert row["iteration"] == k
    assert first_reached(runs[0].history, "stationarity", 1e-9) is None
    assert first_reached(runs[0].history, "nothing", 1.0) is None
    high = first_reached(runs[0].history, "test_accuracy", 0.899)
    assert high is not None
    assert high["test_accuracy"] >= 0.899
    median, count = spent(runs, "stationarity", target, "gradients")
    assert count == 2
    assert median >= 128 * k + 64
    assert spent(runs, "stationarity", 1e-9, "gradients") == (float("inf"), 0)
    best = running_best(pd.DataFrame({"kkt": [9.0, 3.0, 4.0, 1.0]}), "kkt")
    assert best.tolist() == [3.0, 3.0, 1.0]


def test_table_cost_counts_samples_once_and_gradients_twice(tmp_path: Path) -> None:
    FIGURES["table-cost"].make(runs_of("table-cost"), tmp_path)
    lines = (tmp_path / "table.md").read_text().splitlines()
    cells = {row.split(" | ")[0].strip("| "): row.split(" | ") for row in lines[2:]}
    assert "prox-storm" not in cells  # sends nothing over edges
    assert cells["dsgt"][5] == "not reached"
    # HSM-ADMM: one sample for two gradients, one batch of 64 more at the start.
    samples, gradients = (
        float(cell.replace(",", "")) for cell in cells["hsm-admm"][5:7]
    )
    assert samples == pytest.approx((gradients - 64) / 2 + 64)


def test_unknown_scale() -> None:
    with pytest.raises(pm.InputError, match="unknown scale `tiny`"):
        COMPARISONS["rate"].size("tiny")


@pytest.mark.long
def test_paper_on_the_command_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from proxmesh.cli import main
    from proxmesh.paper.comparisons import Size

    few = dataclasses.replace(COMPARISONS["rate"], small=Size(2, 8, 8))
    monkeypatch.setitem(COMPARISONS, "rate", few)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> int:
        with pytest.raises(SystemExit) as stopped:
            main(["paper", *arguments])
        assert isinstance(stopped.value.code, int)
        return stopped.value.code

    assert call() == 0
    assert "fig-hubs" in capsys.readouterr().out
    assert call("fig-rate", "--scale", "small") == 0
    printed = capsys.readouterr().out
    assert "6 runs" in printed
    assert "paper/small/fig-rate/figure.png" in printed
    files = {file.name for file in Path("paper/small/fig-rate").iterdir()}
    assert files == {"figure.png", "report.html", "table.md"}
    files = {file.name for file in Path("paper/small/comparisons").iterdir()}
    assert files == {"rate-methods.toml", "rate-runs.csv", "rate-task.toml"}
    assert call("fig-rate", "--scale", "small") == 0
    assert "6 of them already there" in capsys.readouterr().out
    # What is kept reruns it: the same runs by hand are found to be there.
    kept = "paper/small/comparisons/rate"
    again = ["compare", "--config", f"{kept}-task.toml", "--params",
             f"{kept}-methods.toml", "--algorithms", "hsm-admm,automatic",
             "--seeds", "2", "--out", "paper/small/runs/rate"]  # fmt: skip
    with pytest.raises(SystemExit) as stopped:
        main(again)
    assert stopped.value.code == 0
    assert "4 runs are already in paper/small/runs/rate" in capsys.readouterr().out
    assert call("fig-hub") == 2
    assert "Did you mean `fig-hubs`?" in capsys.readouterr().err
    assert call("fig-rate", "--scale", "tiny") == 2
    assert "unknown scale `tiny`" in capsys.readouterr().err


def test_the_table_shows_both_problems(tmp_path: Path) -> None:
    folder = tmp_path
    rows = [(m, c, "exact", 1e-9) for m in ON_LINKS for c in CONDITIONS]
    rows[5] = (rows[5][0], rows[5][1], "diverges", math.inf)
    table = pd.DataFrame(rows, columns=["method", "links", "verdict", "error"])
    table.to_csv(folder / QUADRATICS, index=False)
    runs = runs_of("table-links")
    del runs["links-delay-5"]  # not made yet
    link_table(runs, folder)
    text = (folder / "table.md").read_text()
    assert text.count("| hsm-admm |") == 2
    assert "diverges" in text
    assert "exact 1e-9" in text
    assert (folder / "figure.png").stat().st_size > 10_000
    learned = trained(runs)
    assert set(learned[learned["links"] == "delay-5"]["verdict"]) == {"?"}
    assert set(FIGURES["table-links"].needs) == {f"links-{c}" for c in CONDITIONS}
