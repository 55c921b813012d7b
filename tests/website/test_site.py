"""The site as it is built: complete, and asking nobody for anything."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("source", "src")}
NOT_LOADED = {"canonical", "next", "prev"}  # what a link may say without being fetched

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(folder),
    ]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


class Resources(HTMLParser):
    """Collects what a browser fetches when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("rel") in NOT_LOADED:
            return
        self.found += [
            given[name] or "" for kind, name in LOADED if kind == tag and name in given
        ]


def test_no_page_asks_for_anything_from_outside(site: Path) -> None:
    for page in site.rglob("*.html"):
        resources = Resources()
        resources.feed(page.read_text())
        assert resources.found, page
        outside = [one for one in resources.found if re.match(r"(\w+:)?//", one)]
        assert not outside, f"{page.relative_to(site)} loads {outside}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(\w+:)?//", sheet.read_text()), (
            sheet
        )


def test_formulas_names_and_blocks_are_drawn(site: Path) -> None:
    pages = {page.parent.name: page.read_text() for page in site.rglob("index.html")}
    assert pages["hsm-admm"].count("<math ") > 20
    for name, text in pages.items():
        assert 'class="arithmatex"' not in text, name
    assert ">pm.solve<" in pages["api"]
    assert ">pm.graphs.ring<" in pages["api"]
    assert not re.search(r"<p>[^<]*::</p>", pages["api"] + pages["protocols"])
    assert "proxmesh runs show" in pages["cli"]
    assert pages["idea"].count('<svg class="pic"') == 4
