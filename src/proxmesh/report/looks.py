"""How figures for print, for a talk and for a dark page look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from matplotlib.colors import to_hex, to_rgb

from proxmesh.algorithms import ALGORITHMS
from proxmesh.report.curves import style_of
from proxmesh.report.palette import contrast

__all__ = ["LOOKS", "Look", "line_styles", "settings_of"]

WHITE = "#ffffff"
LEAST_CONTRAST = 3.0  # of a line on its background, as WCAG asks of graphics
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "*")
DASHES: Sequence[Any] = (
    "-",
    (0, (5, 1.6)),
    (0, (1.2, 1.4)),
    (0, (5, 1.5, 1.2, 1.5)),
)  # 9 and 4 have no common divisor: 36 pairs, more than there are methods


@final
@dataclass(frozen=True, slots=True)
class Look:
    """Fonts, sizes in points, and colors."""

    width: str  # of the figure, where none is asked for
    fonts: tuple[str, ...]  # the first that has a letter; all come with matplotlib
    math: str
    size: float  # of axis labels; ticks and legend are a point smaller
    line: float
    marker: float
    ink: str = "#1a1a1a"
    page: str = WHITE
    opacity: float = 0.16  # of bands


LOOKS: Mapping[str, Look] = {
    "paper": Look(
        width="ieee",
        fonts=("STIXGeneral", "DejaVu Sans"),  # goes with Times
        math="stix",
        size=9,
        line=1.1,
        marker=3.2,
    ),
    "talk": Look(
        width="10in",
        fonts=("DejaVu Sans",),
        math="dejavusans",
        size=20,
        line=2.6,
        marker=8,
    ),
    "dark": Look(
        width="6in",
        fonts=("DejaVu Sans",),
        math="dejavusans",
        size=10,
        line=1.6,
        marker=5,
        ink="#e8e8ea",
        page="#14161a",
        opacity=0.25,
    ),
}


def settings_of(look: Look) -> Any:
    """The settings of matplotlib, whatever a user's own file says."""
    small = look.size - 1
    return {
        "font.family": list(look.fonts),
        "font.size": look.size,
        "mathtext.fontset": look.math,
        "text.usetex": False,
        "text.color": look.ink,
        "figure.facecolor": look.page,
        "axes.facecolor": look.page,
        "axes.edgecolor": look.ink,
        "axes.labelcolor": look.ink,
        "axes.labelsize": look.size,
        "axes.linewidth": 0.07 * look.size,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.formatter.use_mathtext": True,
        "axes.formatter.limits": (-3, 5),
        "axes.formatter.useoffset": False,
        "axes.unicode_minus": True,
        "grid.color": look.ink,
        "grid.alpha": 0.15,
        "grid.linewidth": 0.05 * look.size,
        "xtick.color": look.ink,
        "ytick.color": look.ink,
        "xtick.labelsize": small,
        "ytick.labelsize": small,
        "legend.fontsize": small,
        "legend.frameon": False,
        "legend.handlelength": 2.6,
        "legend.columnspacing": 1.2,
        "lines.linewidth": look.line,
        "lines.markersize": look.marker,
        "savefig.bbox": None,  # the size that was asked for, to the point
        "savefig.facecolor": "auto",
        "savefig.transparent": False,
        "pdf.fonttype": 42,  # TrueType, embedded: publishers refuse Type 3
        "pdf.compression": 6,
        "svg.fonttype": "path",  # looks the same where the fonts are missing
        "svg.hashsalt": "proxmesh",  # the same figure is the same file
    }


def line_styles(labels: Sequence[str], look: Look) -> dict[str, dict[str, Any]]:
    """Color, dashes and marker of every label; a method's are always the same.

    Dashes and markers tell methods apart without color.
    """
    own = [label for label in labels if label not in ALGORITHMS]
    order = [*ALGORITHMS, *own]
    return {
        label: {
            "color": _visible(style_of(label, labels)["color"], look.page),
            "ls": DASHES[order.index(label) % len(DASHES)],
            "marker": MARKERS[order.index(label) % len(MARKERS)],
            "markevery": (0.1 + 0.15 * place / len(labels), 0.15),
            "markeredgewidth": 0,
            "zorder": 3 - 0.5 * place / len(labels),
        }
        for place, label in enumerate(labels)
    }


def _visible(color: str, page: str) -> str:
    """On a dark page, mix white into a color until it stands out."""
    if contrast(page, WHITE) < LEAST_CONTRAST:  # a light one
        return color
    share = 0.0
    while contrast(color, page) < LEAST_CONTRAST:
        share += 0.1
        red, green, blue = ((1 - share) * part + share for part in to_rgb(color))
        color = to_hex((red, green, blue))
    return color
