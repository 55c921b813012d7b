"""report.html in a real browser: every switch, by mouse and by keyboard."""

import base64
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from report.chromium import DRIVER, MISSING, PROGRAM, Page, browser
from report.folders import write_comparison, write_run, write_tuning
from selenium.webdriver.common.keys import Keys

from proxmesh.report.live import LivePage
from proxmesh.report.writing import report_on
from proxmesh.solver.folder import RunFolder

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(not (PROGRAM and DRIVER), reason=MISSING),
]
PLOT = "document.querySelector('.plot')"
LINES = f"{PLOT}.data.filter((trace) => trace.hoverinfo !== 'skip')"


def agents_of(folder: RunFolder) -> pd.DataFrame:
    """Five agents whose disagreement falls by ten at every look."""
    del folder
    return pd.DataFrame(
        [
            {
                "iteration": 50 * look,
                "agent": agent,
                "train_loss": 1.0 - 0.2 * look + 0.01 * agent,
                "consensus": (agent + 1) * 10.0**-look,
            }
            for look in range(3)
            for agent in range(5)
        ]
    )


def layer_of(folder: RunFolder) -> Any:
    """Four cells, of which none, two and three are zero."""
    del folder
    density = np.array([[1.0, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 1]]).reshape(3, 2, 2)
    return SimpleNamespace(iterations=[0, 50, 100], density=density)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind."""
    top = tmp_path_factory.mktemp("pages")
    evil = "</script><img src=x onerror=document.title='broken'><b>&amp;%{x}"
    hostile = write_run(top / "evil", evil, 0, [1.0, float("nan"), 1e308, 0.5])
    falling = write_run(top / "falling", "dsgt", 0, [1.0, 1e-2, 1e-3, 1e-4, 1e-5])
    other = write_run(top / "other", "dsgt", 0, [1.0, 0.5], data={"name": "digits"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "agents", agents_of, raising=False)
        patch.setattr(RunFolder, "first_layer", layer_of, raising=False)
        folders = {
            "comparison": [write_comparison(top / "runs")],
            "tuning": [write_tuning(top / "tuning")],
            "hostile": [hostile],
            "falling": [falling],
            "tasks": [other, hostile],
        }
        return {
            name: report_on(given, top / f"{name}.html")
            for name, given in folders.items()
        }


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _quiet(page: Page) -> Iterator[None]:
    """No test may leave a word on the console, or ask anybody for anything."""
    page.requests()
    yield
    assert page.complaints() == []
    outside = [url for url in page.requests() if not url.startswith(LOCAL)]
    assert outside == []


LOCAL = ("file:", "data:", "blob:", "about:", "chrome:", "http://127.0.0.1:")


def view(page: Page) -> dict[str, str]:
    """The state that the address keeps."""
    return dict(page("[...new URLSearchParams(location.hash.slice(1)).entries()]"))


@pytest.mark.parametrize("kind", ["comparison", "tuning", "hostile", "tasks"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_kind_of_page_draws(
    page: Page, pages: dict[str, Path], kind: str, theme: str
) -> None:
    page.open(pages[kind], f"theme={theme}")
    assert page(f"{PLOT}.data.length") > 0
    assert page("document.documentElement.dataset.theme") == theme
    assert page("document.title") != "broken"


def test_the_mean_and_its_interval_are_those_of_the_logarithms(
    page: Page, pages: dict[str, Path]
) -> None:
    page.open(pages["comparison"])
    assert page(f"{LINES}.map((trace) => trace.name)") == ["hsm-admm", "d-psgd", "dsgt"]
    ours = page(f"{LINES}[0].y")
    assert ours[-1] == pytest.approx(np.sqrt(0.1 * 0.4), rel=1e-4)
    half = 12.7062 * np.log(4) / 2  # Student's t, standard error of two logarithms
    low = page(f"{PLOT}.data[0].y")
    assert low[-1] == pytest.approx(ours[-1] / np.exp(half), rel=1e-3)
    assert "Geometric mean over 2 seeds" in page.text("#curves .caption")
    page.click("#scale [data-value=linear]")
    assert page(f"{LINES}[0].y")[-1] == pytest.approx(0.25, rel=1e-4)
    assert "Student t)" in page.text("#curves .caption")


def test_every_switch_changes_the_plot_and_the_address(
    page: Page, pages: dict[str, Path]
) -> None:
    page.open(pages["comparison"])
    for column, last in (("gradients", 6400), ("bytes_sent", 1e5), ("seconds", 1)):
        page.choose("x", column)
        assert page(f"{LINES}[0].x")[-1] == pytest.approx(last)
        assert view(page)["x"] == column
    page.choose("y", "test_accuracy")
    assert page(f"{PLOT}.layout.yaxis.type") == "linear"
    assert page(f"{LINES}[0].y")[-1] == pytest.approx(0.9 - 0.025, rel=1e-4)
    page.choose("y", "stationarity")
    page.click("#xscale [data-value=log]")
    assert page(f"{PLOT}.layout.xaxis.type") == "log"
    page.click("#seeds [data-value=single]")
    assert page(f"{LINES}.length") == 6
    page.choose("smooth", "best")
    assert view(page)["smooth"] == "best"
    page.choose("smooth", "3")
    assert "3 neighboring points" in page.text("#curves .caption")


def test_a_logarithmic_axis_begins_where_the_curves_do(
    page: Page, pages: dict[str, Path]
) -> None:
    page.open(pages["falling"])
    assert page(f"{LINES}[0].y[0]") == 1
    assert page(f"{PLOT}.layout.yaxis.range[1]") > 0
    page.click("#scale [data-value=linear]")
    assert page(f"{PLOT}.layout.yaxis.range[1]") < 0.1


def test_one_seed_has_no_switch_of_seeds(page: Page, pages: dict[str, Path]) -> None:
    page.open(pages["comparison"])
    assert page("document.querySelectorAll('#seeds').length") == 1
    page.open(pages["hostile"])
    assert page("document.querySelectorAll('#seeds').length") == 0


def test_relative_curves_pair_the_seeds(page: Page, pages: dict[str, Path]) -> None:
    page.open(pages["comparison"])
    page.choose("relative", "hsm-admm")
    names = page(f"{LINES}.map((trace) => trace.name)")
    ratios = dict(
        zip(names, page(f"{LINES}.map((trace) => trace.y.at(-1))"), strict=True)
    )
    assert ratios == pytest.approx({"hsm-admm": 1, "dsgt": 2, "d-psgd": 3}, rel=1e-3)
    page.click("#as [data-value=difference]")
    last = page(f"{LINES}.find((trace) => trace.name === 'dsgt').y.at(-1)")
    assert last == pytest.approx(0.25, rel=1e-3)
    assert "Paired by seed" in page.text("#curves .caption")


def test_methods_go_off_and_on_by_click_and_by_key(
    page: Page, pages: dict[str, Path]
) -> None:
    page.open(pages["comparison"])
    page.click("#method-1")
    assert page(f"{LINES}.map((trace) => trace.name)") == ["hsm-admm", "dsgt"]
    assert page("document.getElementById('method-1').ariaPressed") == "false"
    assert view(page)["off"] == "d-psgd"
    page.press("2", "1")
    assert page(f"{LINES}.map((trace) => trace.name)") == ["d-psgd", "dsgt"]
    page.press("0")
    assert page(f"{LINES}.length") == 3


def test_the_keyboard_reaches_every_control_and_keeps_its_place(
    page: Page, pages: dict[str, Path]
) -> None:
    page.open(pages["comparison"])
    wanted = set(
        page(
            "[...document.querySelectorAll('button, select, input, summary, a')]"
            ".filter((one) => one.checkVisibility())"
            ".map((one, number) => (one.dataset.n = number))"
        )
    )
    reached: set[int] = set()
    for _ in range(3 * len(wanted)):
        page.press(Keys.TAB)
        number = page("document.activeElement.dataset.n")
        reached.add(-1 if number is None else int(number))
    hidden = {number for number in wanted if page.is_skip_link(number)}
    assert wanted - hidden <= reached
    page("document.querySelector('#scale [data-value=linear]').focus()")
    page.press(Keys.SPACE)
    assert page(f"{PLOT}.layout.yaxis.type") == "linear"
    assert page("document.activeElement.dataset.value") == "linear", "focus was lost"


def test_a_shared_address_opens_the_same_view(
    page: Page, pages: dict[str, Path]
) -> None:
    wanted = (
        "x=seconds&y=train_loss&scale=log&seeds=single&off=dsgt&sort=stationarity:down"
    )
    page.open(pages["comparison"], wanted)
    assert page(f"{PLOT}.layout.yaxis.type") == "log"
    assert page(f"{LINES}.length") == 4
    assert page("document.getElementById('x').value") == "seconds"
    assert page.text("#results tbody th").strip() == "d-psgd"
    page.open(pages["comparison"], "x=nonsense&y=%3Cb%3E&task=99&at=-5&relative=nobody")
    assert page(f"{LINES}.length") == 3


def test_tables_are_sorted_and_copied_in_that_order(
    page: Page, pages: dict[str, Path]
) -> None:
    page.open(pages["comparison"])
    page(
        "(window.copied = [], navigator.clipboard.writeText = "
        "async (text) => { window.copied.push(text) })"
    )
    for _ in range(2):
        page.click("#sort-results-1")
    order = ["d-psgd", "dsgt", "hsm-admm"]
    heads = "[...document.querySelectorAll('#results tbody th')]"
    rows = page(f"{heads}.map((one) => one.textContent)")
    assert rows == order
    assert (
        page("document.querySelectorAll('#results thead th')[1].ariaSort")
        == "descending"
    )
    for kind in ("LaTeX", "Markdown", "CSV"):
        page.click(f"#copy-results-{kind}")
    page.wait("window.copied.length === 3")
    latex, table, comma = page("window.copied")
    assert latex.startswith("% Needs \\usepackage{booktabs}")
    assert "\\begin{tabular}" in latex
    assert "\\bottomrule" in latex
    assert table.splitlines()[1].startswith("| ---")
    assert comma.splitlines()[0].startswith("method,stationarity_mean")
    for text in (latex, table, comma):
        places = [text.lower().rindex(name) for name in order]
        assert places == sorted(places)
    assert page.text("#said") == "CSV copied"


def test_the_network_and_the_first_layer_move_in_time(
    page: Page, pages: dict[str, Path]
) -> None:
    page.open(pages["comparison"], "at=0&layerat=0")
    agents = "[...document.querySelectorAll('.agents circle')]"
    assert page(f"{agents}.length") == 5
    assert page(f"{agents}[0].getAttribute('cx')") == "0", "the hub of a star"
    before = page(f"{agents}.map((one) => one.getAttribute('fill'))")
    page("document.getElementById('time').focus()")
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.text("#network output") == "iteration 100"
    after = page(f"{agents}.map((one) => one.getAttribute('fill'))")
    assert len(set(after)) > 1
    assert not set(before) & set(after)
    page.click("#color [data-value=degree]")
    assert "degree 4" in page.text(".agents circle title")
    page.click("#color [data-value=train_loss]")
    assert "training loss" in page.text(".legend .quiet")
    assert page.text("#layer .caption").startswith("100 %")
    page("document.getElementById('layer-time').focus()")
    page.press(Keys.END)
    assert page.text("#layer .caption").startswith("25 %")
    page.wait("new URLSearchParams(location.hash.slice(1)).get('layerat') === '2'")
    pixels = page(
        "((canvas) => { const { width, height } = canvas;"
        "const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);"
        "return [[1, 1], [3, 1], [1, 3], [3, 3]].map(([x, y]) => "
        "data[4 * (Math.floor(y * height / 4) * width + Math.floor(x * width / 4))])"
        "})(document.querySelector('canvas'))"
    )
    assert pixels[0] == pixels[1] == pixels[2] != pixels[3]


def test_every_picture_has_words_and_a_table(
    page: Page, pages: dict[str, Path]
) -> None:
    for kind in ("comparison", "tuning"):
        page.open(pages[kind])
        assert page(
            "[...document.querySelectorAll('[role=img]')].every((one) => one.ariaLabel)"
        )
        pictures = page("document.querySelectorAll('[role=img]').length")
        assert page("document.querySelectorAll('.twin').length") == pictures
        assert page(
            "[...document.querySelectorAll('select, input')].every("
            "(one) => one.labels.length || one.ariaLabel)"
        )
    page.open(pages["comparison"])
    assert "hsm-admm 0.2" in page(f"{PLOT}.ariaLabel")
    cells = page("document.querySelectorAll('#curves .twin td').length")
    assert cells == 3 * 11


def test_trials_of_a_tuning(page: Page, pages: dict[str, Path]) -> None:
    page.open(pages["tuning"])
    assert page(f"{PLOT}.data.map((trace) => trace.mode)") == ["markers", "lines"] * 2
    assert page(
        "[...document.querySelectorAll('#trials strong')].map((one) => one.textContent)"
    ) == ["0.25", "0.1"]
    page.click("#scale [data-value=linear]")
    assert page(f"{PLOT}.layout.yaxis.type") == "linear"
    page.click("#method-0")
    assert page(f"{PLOT}.data.length") == 2


def test_names_from_folders_are_shown_as_they_are(
    page: Page, pages: dict[str, Path]
) -> None:
    page.open(pages["hostile"])
    assert "<img src=x onerror=" in page.text(".chip span")
    assert page("document.querySelectorAll('main b, main img').length") == 0
    assert "onerror" in page("document.querySelector('h1').textContent")


def test_several_tasks_are_chosen_from_a_list(
    page: Page, pages: dict[str, Path]
) -> None:
    page.open(pages["tasks"])
    assert page.text(".chip span") == "dsgt"
    page.choose("task", "1")
    assert "onerror" in page.text(".chip span")
    assert view(page)["task"] == "1"


def test_dark_follows_the_system_until_somebody_chooses(
    page: Page, pages: dict[str, Path]
) -> None:
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    try:
        page.command("Emulation.setEmulatedMedia", features=dark)
        page.open(pages["comparison"])
        assert page("document.documentElement.dataset.theme") == "dark"
        first = page(f"{LINES}[0].line.color")
        page.click("#theme")
        assert page("document.documentElement.dataset.theme") == "light"
        assert page(f"{LINES}[0].line.color") != first
        assert view(page)["theme"] == "light"
    finally:
        page.command("Emulation.setEmulatedMedia", features=[])


@pytest.mark.parametrize("width", [360, 390, 768])
def test_a_narrow_window_shows_everything_without_scrolling_sideways(
    page: Page, pages: dict[str, Path], width: int
) -> None:
    for kind in ("comparison", "tuning", "hostile"):
        page.open(pages[kind], width=width)
        page.wait(f"{PLOT}.querySelector('.main-svg').clientWidth <= {width}")
        assert page("document.documentElement.scrollWidth") <= width


def test_it_prints_light_and_without_controls(
    page: Page, pages: dict[str, Path]
) -> None:
    page.open(pages["comparison"], "theme=dark")
    page(
        "(window.seen = [], addEventListener('beforeprint', "
        "() => window.seen.push(document.documentElement.dataset.theme)))"
    )
    printed = page.command("Page.printToPDF", printBackground=True)
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    assert page.text("#network .on-paper") == "hsm-admm, seed 0, iteration 100"
    assert page("window.seen") == ["light"]
    assert page("document.documentElement.dataset.theme") == "dark"


def test_a_live_page_follows_the_run_to_its_end(page: Page, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "dsgt", 0, [1.0, 0.5])
    (folder / "summary.json").rename(tmp_path / "later")
    with LivePage([folder]) as live:
        page.open(live.address, "seeds=single")
        assert page(f"{LINES}[0].y") == [1, 0.5]
        assert page.text("#live") == "Live"
        page.click("#scale [data-value=linear]")
        history = pd.read_csv(folder / "history.csv")
        row = history.iloc[-1:].assign(iteration=20, stationarity=0.25)
        pd.concat([history, row]).to_csv(folder / "history.csv", index=False)
        page.wait(f"{LINES}[0].y.length === 3")
        assert page(f"{PLOT}.layout.yaxis.type") == "linear", "the view was lost"
        (tmp_path / "later").rename(folder / "summary.json")
    page.wait("document.getElementById('live').textContent.startsWith('Ended')")
    assert page(f"{LINES}[0].y") == [1, 0.5, 0.25]
