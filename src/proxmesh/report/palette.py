"""Lines that everybody can tell apart: a method's color, and a dash where colors meet.

Colors are those of the registry. Where two of them look alike, to people with normal
sight or to the one in twelve men who does not tell red from green, the later method
gets another dash. On a light or a dark page a color keeps its hue, and is made darker
or lighter until it stands out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias, final

import numpy as np

from proxmesh.algorithms import ALGORITHMS

__all__ = ["Line", "contrast", "difference", "lines_of"]

Rgb: TypeAlias = np.ndarray

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SPARE_COLORS = ("#1f5fb4", "#d1661a", "#0b7a75", "#b5179e", "#7a5c00", "#5b4bb3")
LIGHT, DARK = "#ffffff", "#15171c"  # backgrounds of the page
STANDS_OUT = {LIGHT: 3.0, DARK: 4.5}  # WCAG 2 asks for 3; thin lines glow less on dark
FAR_ENOUGH = 16.0  # distance in CIE Lab at which thin lines are told apart

# What is left of linear RGB without one kind of cone: full deutan and protan sight, as
# Machado, Oliveira and Fernandes (2009) model them.
SIGHTS = (
    np.eye(3),
    np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
)
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


@final
@dataclass(frozen=True, slots=True)
class Line:
    """How the curves of a method look: on light, on dark, and in which dash."""

    light: str
    dark: str
    dash: str
    width: float


def lines_of(labels: Sequence[str]) -> dict[str, Line]:
    """The line of each label; a method's is the same in whatever company.

    Examples
    --------
    >>> lines = lines_of(["dsgt", "mine"])
    >>> lines["dsgt"] == lines_of(["hsm-admm", "dsgt"])["dsgt"]
    True
    """
    known = _of_methods()
    found = {label: known[label] for label in labels if label in known}
    taken = [(known[label].light, known[label].dash) for label in found]
    own = [label for label in dict.fromkeys(labels) if label not in known]
    for place, label in enumerate(own):
        color = SPARE_COLORS[place % len(SPARE_COLORS)]
        dash = _dash(color, taken, DASHES)
        found[label] = _line(color, dash, 1.8)
        taken.append((found[label].light, dash))
    return {label: found[label] for label in labels}


@cache
def _of_methods() -> dict[str, Line]:
    found: dict[str, Line] = {}
    taken: list[tuple[str, str]] = []
    for name, method in ALGORITHMS.items():
        dashes = DASHES[1:] if method.server else DASHES
        color = _legible(method.color, LIGHT)
        dash = _dash(color, taken, dashes)
        found[name] = _line(method.color, dash, 2.6 if name == "hsm-admm" else 1.8)
        taken.append((color, dash))
    return found


def _dash(color: str, taken: Sequence[tuple[str, str]], dashes: Sequence[str]) -> str:
    """The first dash that no line of a similar color has, or the most distant one."""

    def nearest(dash: str) -> float:
        return min((difference(color, c) for c, d in taken if d == dash), default=1e9)

    return next(
        (d for d in dashes if nearest(d) >= FAR_ENOUGH), max(dashes, key=nearest)
    )


def _line(color: str, dash: str, width: float) -> Line:
    return Line(_legible(color, LIGHT), _legible(color, DARK), dash, width)


def _legible(color: str, background: str) -> str:
    """The color, moved away from the background until it stands out."""
    target = np.zeros(3) if background == LIGHT else np.ones(3)
    for share in np.linspace(0, 1, 41):
        mixed = _hex((1 - share) * _rgb(color) + share * target)
        if contrast(mixed, background) >= STANDS_OUT[background]:
            return mixed
    raise AssertionError("black and white stand out")


def contrast(one: str, other: str) -> float:
    """The contrast of two colors, from 1 to 21, as WCAG 2 defines it.

    Examples
    --------
    >>> contrast("#ffffff", "#000000")
    21.0
    """
    low, high = sorted((_luminance(one), _luminance(other)))
    return round((high + 0.05) / (low + 0.05), 2)


def difference(one: str, other: str) -> float:
    """How far apart two colors are in CIE Lab, to the sight that tells them least.

    Examples
    --------
    >>> difference("#c01722", "#c01722")
    0.0
    """
    return float(np.linalg.norm(_seen(one) - _seen(other), axis=1).min())


@cache
def _seen(color: str) -> np.ndarray:
    """Its place in CIE Lab, to each sight."""
    return np.stack([_lab(sight @ _linear(_rgb(color))) for sight in SIGHTS])


@cache
def _luminance(color: str) -> float:
    return float(TO_XYZ[1] @ _linear(_rgb(color)))


def _rgb(color: str) -> Rgb:
    return np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def _hex(rgb: Rgb) -> str:
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in rgb)


def _linear(rgb: Rgb) -> Rgb:
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def _lab(linear: Rgb) -> Rgb:
    white = TO_XYZ.sum(1)
    x, y, z = np.cbrt(np.clip(TO_XYZ @ linear, 0, None) / white)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
