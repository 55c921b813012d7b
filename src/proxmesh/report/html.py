"""report.html: one file that needs nothing else, made of a document and our page.

Everything that comes from run folders is inside the page as compressed JSON in base64:
none of it is ever HTML or JavaScript, whatever the names in a folder are. The script
that draws puts it on the page as text.
"""

import base64
import gzip
import html
import importlib.resources
import importlib.util
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from proxmesh.errors import InputError

__all__ = ["LARGEST_PAGE", "data_of", "page_of"]

LARGEST_PAGE: Final = 3_000_000  # bytes
SCRIPTS = (
    "start.js",
    "state.js",
    "statistics.js",
    "parts.js",
    "tables.js",
    "curves.js",
    "network.js",
    "layer.js",
    "tuning.js",
    "about.js",
    "main.js",
)


def page_of(document: Mapping[str, Any]) -> str:
    """The page, with plotly's own bundle and our style and scripts inside."""
    nonce = secrets.token_urlsafe(16)  # no script but ours runs, should one get in
    parts = {
        "title": html.escape(str(document["title"])),
        "nonce": nonce,
        "connect": "'self'" if document["live"] else "'none'",
        "style": _ours("report.css"),
        "scripts": "\n".join(_ours(name) for name in SCRIPTS),
        "tables": "".join(_static(group["table"]) for group in document["groups"]),
        "document": packed(data_of(document)),
        "plotly": plotly_bundle(),
    }
    # In one pass: what is put in is not looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m[1]], _ours("template.html"))


def packed(text: bytes) -> str:
    """Compressed, in letters that mean nothing in HTML.

    Examples
    --------
    >>> gzip.decompress(base64.b64decode(packed(b"</script>")))
    b'</script>'
    """
    return base64.b64encode(gzip.compress(text, mtime=0)).decode("ascii")


@cache
def plotly_bundle() -> str:
    """The bundle in plotly's Python package, compressed; plotly is not imported."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or spec.origin is None:
        raise InputError("plotly is not installed. Run `pip install plotly`.")
    file = Path(spec.origin).parent / "package_data" / "plotly.min.js"
    try:
        return packed(file.read_bytes())
    except OSError as error:
        raise InputError(
            f"`{file}` cannot be read: {error.strerror}. Install plotly again."
        ) from error


def data_of(document: Mapping[str, Any]) -> bytes:
    """A document as JSON."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8")


@cache
def _ours(name: str) -> str:
    folder = importlib.resources.files("proxmesh.report") / "page"
    return (folder / name).read_text(encoding="utf-8")


def _static(table: Mapping[str, Any]) -> str:
    """A table for readers without scripts."""

    def line(tag: str, texts: Sequence[str]) -> str:
        row = "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)
        return f"<tr>{row}</tr>"

    body = "".join(line("td", row["texts"]) for row in table["rows"])
    return f"<table>{line('th', table['titles'])}{body}</table>"
