"""Figures for papers: their size, their fonts, their bands, and what is refused."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from run_folders import write
from scipy import stats

import proxmesh as pm
from proxmesh.algorithms import ALGORITHMS
from proxmesh.cli import main
from proxmesh.report.curves import mean_curve
from proxmesh.report.looks import LOOKS, line_styles
from proxmesh.report.runs import collect

VALUES = {  # by method and seed; of the last two iterations
    "dsgt": ([0.2, 0.1], [0.4, 0.3], [0.3, 0.15]),
    "hsm-admm": ([0.3, 0.002], [0.2, 0.001], [0.4, 0.003]),
}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_runs(Path("runs"))


def write_runs(top: Path) -> None:
    for method, seeds in VALUES.items():
        for seed, values in enumerate(seeds):
            write(top / method / f"seed-{seed}", [9.0, *values])


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


def texts(figure: Figure) -> list[str]:
    [legend] = figure.legends
    return [text.get_text() for text in legend.get_texts()]


# -- sizes and fonts -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "size"),
    [("ieee", 3.5), ("neurips", 5.5), ("252.945pt", 3.5)],
)
def test_a_pdf_has_the_width_that_was_asked_for_and_its_fonts(
    width: Any, size: float
) -> None:
    figure = pm.plot("runs", x="bytes", width=width, out="figure.pdf")
    page = Path("figure.pdf").read_bytes()
    [box] = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", page)
    assert float(box[0]) == pytest.approx(72 * size, abs=0.01)
    assert float(box[1]) == pytest.approx(72 * figure.get_figheight(), abs=0.01)
    assert b"STIXGeneral" in page
    assert page.count(b"/FontFile2") == page.count(b"/Type /FontDescriptor") > 0
    assert b"/Type3" not in page


def test_svg_and_png_have_that_size_and_need_no_fonts() -> None:
    assert (
        call("plot", "runs", "--width", "ieee", "--height", "2in", "--out", "a.svg")
        == 0
    )
    picture = Path("a.svg").read_text()
    assert re.search(r'<svg [^>]*width="252pt" height="144pt"', picture)
    assert "<text" not in picture
    assert (
        call("plot", "runs", "--width", "2in", "--height", "1.5in", "--out", "a.png")
        == 0
    )
    with Image.open("a.png") as pixels:
        assert pixels.size == (600, 450)


def test_the_same_figure_is_the_same_file_whatever_matplotlib_is_told() -> None:
    pm.plot("runs", out="first.pdf")
    with mpl.rc_context(
        {
            "font.size": 30,
            "pdf.fonttype": 3,
            "savefig.bbox": "tight",
            "font.family": "monospace",
        }
    ):
        pm.plot("runs", out="second.pdf")
    assert Path("first.pdf").read_bytes() == Path("second.pdf").read_bytes()


@pytest.mark.parametrize("style", LOOKS)
def test_nothing_is_cut_off(style: str) -> None:
    long = "a name that somebody made up for a method, longer than the figure is wide"
    labels = {"dsgt": f"{long} or than a page, even in large letters"}
    figure = pm.plot("runs", y=["stationarity", "accuracy"], style=style, labels=labels)
    width, height = figure.bbox.size
    for artist in [*figure.axes, *figure.legends]:
        box = artist.get_tightbbox()
        assert box is not None
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height
    boxes = [axis.get_tightbbox() for axis in figure.axes]
    assert not boxes[0].overlaps(boxes[1])  # type: ignore[union-attr, arg-type]
    assert not boxes[0].overlaps(figure.legends[0].get_tightbbox())  # type: ignore[union-attr, arg-type]


def test_panels_are_stacked_where_the_page_is_narrow() -> None:
    two = ["stationarity", "accuracy"]
    narrow = pm.plot("runs", y=two, width="ieee").axes
    figure = pm.plot("runs", y=two, width="ieee-wide")
    wide = figure.axes
    assert figure.get_figwidth() == 7.16
    assert narrow[0].get_position().y0 > narrow[1].get_position().y1
    assert wide[0].get_position().x1 < wide[1].get_position().x0


# -- lines and bands -------------------------------------------------------------------


def band_of(figure: Figure, place: int, at: float) -> tuple[float, float]:
    """The ends of a band over one x."""
    vertices = figure.axes[0].collections[place].get_paths()[0].vertices
    heights = [y for x, y in np.asarray(vertices) if x == at]
    return min(heights), max(heights)


def test_the_line_is_the_mean_and_the_band_its_interval() -> None:
    last = np.array([values[-1] for values in VALUES["dsgt"]])
    half = stats.t.ppf(0.975, 2) * last.std(ddof=1) / np.sqrt(3)
    figure = pm.plot("runs", x="bytes", y_scale="linear", methods=["dsgt"])
    [line] = figure.axes[0].get_lines()
    end = np.asarray(line.get_xydata())[-1]
    assert end == pytest.approx([4.0, last.mean()])  # megabytes
    assert band_of(figure, 0, 4.0) == pytest.approx(
        (last.mean() - half, last.mean() + half)
    )
    figure = pm.plot("runs", x="bytes", methods=["dsgt"])  # logarithmic
    ratio = np.exp(half / last.mean())
    assert band_of(figure, 0, 4.0) == pytest.approx(
        (last.mean() / ratio, last.mean() * ratio)
    )
    figure = pm.plot("runs", x="bytes", methods=["dsgt"], band="range")
    assert band_of(figure, 0, 4.0) == pytest.approx((0.1, 0.3))
    bare = pm.plot("runs", band="none", legend="none")
    assert not bare.axes[0].collections
    assert not bare.legends


def test_seeds_are_drawn_beside_their_mean() -> None:
    figure = pm.plot("runs", seeds=True)
    lines = figure.axes[0].get_lines()
    assert len(lines) == 2 + 6
    thin = [line for line in lines[2:] if line.get_color() == lines[1].get_color()]
    ends = sorted(float(np.asarray(line.get_ydata())[-1]) for line in thin)
    assert ends == [0.1, 0.15, 0.3]


def test_a_single_seed_has_no_band() -> None:
    runs = [run for run in collect([Path("runs/dsgt")]) if run.seed == 0]
    curve = mean_curve(runs, "stationarity", "iteration", "ci", log=True)
    assert curve["low"].tolist() == curve["mean"].tolist() == curve["high"].tolist()


def test_scales_and_limits_are_those_that_were_asked_for() -> None:
    figure = pm.plot(
        "runs",
        x="gradients",
        y=["stationarity", "accuracy"],
        x_scale="log",
        y_scale=["linear", "log"],
        ylim=[(0.0, 2.0), (0.5, 1.0)],
    )
    first, second = figure.axes
    assert (first.get_xscale(), first.get_yscale()) == ("log", "linear")
    assert second.get_yscale() == "log"
    assert first.get_ylim() == (0.0, 2.0)
    assert second.get_ylim() == (0.5, 1.0)
    assert first.get_xlabel() == "gradients per agent"
    assert second.get_ylabel() == "test accuracy"


# -- names, colors, markers ------------------------------------------------------------


def test_methods_have_their_names_colors_and_order() -> None:
    figure = pm.plot("runs")
    assert texts(figure) == ["HSM-ADMM", "DSGT"]
    assert figure.axes[0].get_lines()[0].get_color() == ALGORITHMS["hsm-admm"].color
    turned = pm.plot("runs", methods=["dsgt", "hsm-admm"], labels=["ours", "theirs"])
    assert texts(turned) == ["ours", "theirs"]
    assert turned.axes[0].get_lines()[0].get_color() == ALGORITHMS["dsgt"].color
    inside = pm.plot("runs", legend="inside", labels={"dsgt": "b"})
    assert not inside.legends
    legend = inside.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["HSM-ADMM", "b"]


HOSTILE = r"_5 % of $\alpha_$ \frac{ {\x} ~^#&"


def test_a_label_is_shown_as_it_is() -> None:
    figure = pm.plot("runs", methods=["dsgt"], labels=[HOSTILE], out="a.pdf")
    assert texts(figure) == [HOSTILE]
    [text] = figure.legends[0].get_texts()
    assert not text.get_parse_math()
    plain = pm.plot("runs", methods=["dsgt"], labels=["x"])
    assert text.get_window_extent().width > 5 * (
        plain.legends[0].get_texts()[0].get_window_extent().width
    )


def test_letters_that_no_font_has_are_named_once() -> None:
    with pytest.warns(pm.Notice, match="letters are in no font here: Glyph") as notices:
        pm.plot("runs", methods=["dsgt"], labels=["\N{CJK UNIFIED IDEOGRAPH-7DB2}"])
    assert len(notices) == 1


def test_every_method_can_be_told_apart_without_color() -> None:
    styles = line_styles(list(ALGORITHMS), LOOKS["paper"]).values()
    pairs = [(str(style["ls"]), style["marker"]) for style in styles]
    assert len(set(pairs)) == len(ALGORITHMS)


KINDS = {  # Machado, Oliveira and Fernandes (2009), complete lack of one kind of cone
    "protan": [
        [0.1523, 1.0526, -0.2049],
        [0.1145, 0.7863, 0.0992],
        [-0.0039, -0.0481, 1.0520],
    ],
    "deutan": [
        [0.3673, 0.8606, -0.2280],
        [0.2801, 0.6725, 0.0474],
        [-0.0118, 0.0429, 0.9689],
    ],
    "tritan": [
        [1.2555, -0.0767, -0.1788],
        [-0.0784, 0.9308, 0.1476],
        [0.0047, 0.6914, 0.3039],
    ],
}
TO_XYZ = np.array(
    [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8730]]
)
CLEARLY_APART = 15.0  # in CIE Lab, where 2.3 can just be seen side by side


def seen_as(color: str, kind: str) -> np.ndarray:
    """The color in CIE Lab, as a color-blind person sees it."""
    part = np.array(mpl.colors.to_rgb(color))
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(
        np.maximum(TO_XYZ @ np.clip(KINDS[kind] @ linear, 0, 1), 0.008856)
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("kind", KINDS)
def test_the_color_blind_can_tell_the_usual_methods_apart(kind: str) -> None:
    paper = [name for name, method in ALGORITHMS.items() if method.in_paper]
    usual = [*paper, "prox-dasa", "d-psgd", "dsgt"]
    for one, other in itertools.combinations(usual, 2):
        first, second = (seen_as(ALGORITHMS[n].color, kind) for n in (one, other))
        assert np.linalg.norm(first - second) > CLEARLY_APART, f"{one} and {other}"


def test_dark_methods_stand_out_on_a_dark_page() -> None:
    styles = line_styles(["prox-storm", "hsm-admm"], LOOKS["dark"])
    assert styles["prox-storm"]["color"] != ALGORITHMS["prox-storm"].color
    assert np.mean(mpl.colors.to_rgb(styles["prox-storm"]["color"])) > 0.3


# -- what is left out, and what is refused ---------------------------------------------


def test_runs_that_ended_badly_are_left_out_and_named() -> None:
    write(Path("runs/sppdm/seed-0"), [9.0], "diverged", "at iteration 37.")
    with pytest.warns(
        pm.Notice, match="1 of 1 runs of `SPPDM` are left out: diverged at k"
    ):
        assert texts(pm.plot("runs")) == ["HSM-ADMM", "DSGT"]


def test_a_server_has_no_bytes() -> None:
    write(Path("runs/prox-sgd/seed-0"), [9.0, 0.2])
    file = Path("runs/prox-sgd/seed-0/history.csv")
    file.write_text(file.read_text().replace("2000000", "0"))
    with pytest.warns(
        pm.Notice, match="`Prox-SGD` is left out: it has no `stationarity`"
    ):
        assert texts(pm.plot("runs", x="bytes")) == ["HSM-ADMM", "DSGT"]
    assert len(texts(pm.plot("runs"))) == 3


def refused() -> Iterator[tuple[str, str]]:
    yield (
        "--y stationary",
        "unknown column `stationary`. Did you mean `stationarity`? Known: a",
    )
    yield (
        "--x byte",
        "Did you mean `bytes`? Known: accuracy, bytes, bytes_sent, gradients, ",
    )
    yield (
        "--methods hsm-adm",
        "unknown method `hsm-adm` of these runs. Did you mean `hsm-admm`",
    )
    yield "--labels a", "1 labels are given for 2 methods (hsm-admm, dsgt)"
    yield "--labels sgd=a", "unknown method `sgd` of `labels`"
    yield (
        "--width 3.5inches",
        "`width` must be ieee, ieee-wide, neurips, or a length such as",
    )
    yield "--width 1..5in", "got `1..5in`"
    yield "--width 0in", "`width` must be positive and finite, got 0.0"
    yield "--height 9999in", "`height` must be at most 100 inches"
    yield "--width 0.3in", "legend do not fit into a figure of this size"
    yield "--style papr", "unknown style `papr`. Did you mean `paper`?"
    yield "--band cl", "unknown band `cl`"
    yield "--legend left", "unknown legend `left`"
    yield "--x-scale loglog", "unknown scale `loglog`"
    yield (
        "--y loss,norm --y-scale log,log,log",
        "3 scales are given for 2 columns of `y`",
    )
    yield "--y ,", "`y` is empty"
    yield "--methods ,", "`methods` is empty"
    yield "--ylim 1", "`--ylim` must be LOW,HIGH, got `1`"
    yield "--ylim 2,1", "two numbers, the smaller first, got (2.0, 1.0)"
    yield "--ylim 0,1", "`ylim` of the logarithmic `stationarity` must be positive"
    yield "--ylim 1,2 --ylim 1,2", "`ylim` has 2 pairs for 1 columns"
    yield "--format jpg", "unknown format `jpg`"
    yield (
        "--out a.jpg",
        "picture `a.jpg` has no known format. Use one of: .pdf, .svg, .png.",
    )
    yield "--out a.pdf --format svg", "ends in `.pdf`, but the format is `svg`"
    yield "--out old.pdf", "picture `old.pdf` exists already"
    yield (
        "--out no/a.pdf",
        "picture `no/a.pdf` cannot be written: No such file or directory",
    )


@pytest.mark.parametrize(("arguments", "message"), list(refused()))
def test_mistakes_are_one_line(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("old.pdf").write_text("mine")
    assert call("plot", "runs", *arguments.split()) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1
    assert Path("old.pdf").read_text() == "mine"
    assert [file.name for file in Path().iterdir() if file.is_file()] == ["old.pdf"]


def test_folders_without_runs_and_other_tasks_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("empty").mkdir()
    assert call("plot", "empty") == 2
    assert "folder `empty` holds no run that has ended" in capsys.readouterr().err
    assert call("plot", "nowhere") == 2
    assert "`nowhere` is not a folder" in capsys.readouterr().err
    write(Path("other/dsgt/seed-0"), [9.0, 0.2], agents=16)
    assert call("plot", "runs", "other") == 2
    assert "runs of different tasks: `graph.agents`" in capsys.readouterr().err
    with pytest.raises(pm.InputError, match="no folder is given"):
        pm.plot([])
    with pytest.raises(pm.InputError, match="Give `out`, too"):
        pm.plot("runs", format="pdf")


def test_a_column_without_numbers_is_refused() -> None:
    for file in Path("runs").rglob("history.csv"):
        file.write_text(re.sub(r"0\.8\d*(?=\n)", "-1.0", file.read_text()))
    with pytest.raises(
        pm.InputError, match="no run has a positive number in `test_acc"
    ):
        pm.plot("runs", y="accuracy", y_scale="log")
    assert pm.plot("runs", y="accuracy").axes


def test_an_existing_file_is_overwritten_only_by_force(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("plot", "runs", "--x", "bytes", "--format", "svg") == 0
    assert re.match(
        r"stationarity-by-bytes.svg: 3.50 x 2.\d\d in", capsys.readouterr().out
    )
    Path("stationarity-by-bytes.svg").write_text("mine")
    assert call("plot", "runs", "--x", "bytes", "--format", "svg") == 2
    assert Path("stationarity-by-bytes.svg").read_text() == "mine"
    assert call("plot", "runs", "--x", "bytes", "--format", "svg", "--force") == 0
    assert "<svg" in Path("stationarity-by-bytes.svg").read_text()
