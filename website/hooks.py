"""What the pages need beyond Markdown: formulas, public names, the list of commands.

mkdocs calls these functions (`hooks` in mkdocs.yml). Formulas become MathML while the
site is built, so that a page loads no program to show them and asks nobody for one.
"""

import html
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL
)
HEADING = re.compile(r'<h\d id="proxmesh[^"]*" class="doc doc-heading">.*?</h\d>', re.S)
SIGNATURE = re.compile(r'<div class="[^"]*doc-signature[^"]*".*?</div>', re.DOTALL)
FOLDED = '<details class="mkdocstrings-source"'  # where a page shows code, show it
COMMANDS = "<!-- every command -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the commands and their options where a page asks for them."""
    if COMMANDS not in markdown:
        return markdown
    sys.path.insert(0, str(ROOT / "website"))
    from commands import listing

    return markdown.replace(COMMANDS, listing())


def on_page_content(html: str, page: "Page", **_: Any) -> str:
    """Draw the formulas, and call names as programs do: `pm.solve`."""
    del page
    drawn = FORMULA.sub(lambda found: mathml(found[2], found[1] == "div"), html)
    drawn = drawn.replace(FOLDED, FOLDED.replace("<details", "<details open"))
    for part in (HEADING, SIGNATURE):
        drawn = part.sub(lambda found: called(found[0]), drawn)
    return drawn


def mathml(escaped: str, block: bool) -> str:
    r"""The MathML of a formula that Markdown has escaped.

    >>> mathml("a &lt; b", block=False)[:64]
    '<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline'
    >>> mathml(r"\unheard", block=False)
    Traceback (most recent call last):
    mkdocs.exceptions.PluginError: formula `\unheard`: `\unheard` cannot be drawn
    """
    formula = html.unescape(escaped).strip()
    drawn = convert(formula, display="block" if block else "inline")
    left = re.search(r"\\\w+", drawn)
    if left:
        raise PluginError(f"formula `{formula}`: `{left[0]}` cannot be drawn")
    return f'<div class="formula">{drawn}</div>' if block else drawn


def called(heading: str) -> str:
    """The same with `pm` for the package, as `import proxmesh as pm` has it.

    >>> called("<code>proxmesh.graphs.ring</code>")
    '<code>pm.graphs.ring</code>'
    >>> called("<code>proxmesh.types.protocols.Network</code>")
    '<code>proxmesh.types.protocols.Network</code>'
    """
    from proxmesh import __all__ as public

    def short(found: re.Match[str]) -> str:
        return f">pm{found[1]}" if found[2] in public else found[0]

    apart = r'((?:</span><span class="\w+">)?\.(?:</span><span class="\w+">)?(\w+))'
    return re.sub(rf">proxmesh{apart}", short, heading)
