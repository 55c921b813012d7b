"""Names and numbers in LaTeX."""

import math

__all__ = ["bold", "escaped", "number", "whole_number"]

SPECIAL = {
    **{letter: f"\\{letter}" for letter in "_%$&#{}"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": "'",
    "[": "{[}",  # at the beginning of a row `\\` would take it for its own
    "*": "{*}",  # likewise
}
WIDE = 1e-2, 1e4  # outside of these a number is written with a power of ten


def escaped(text: str) -> str:
    r"""Text as LaTeX shows it unchanged.

    Examples
    --------
    >>> print(escaped(r"a_b: 5 % of $x$ \\ {*}"))
    a\_b: 5 \% of \$x\$ \textbackslash{}\textbackslash{} \{{*}\}
    """
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def number(value: float, half: float = math.nan, digits: int = 4) -> str:
    r"""A number, with half of its interval if that is known.

    Examples
    --------
    >>> print(number(1.234e-5), number(1.234e-5, 1.1e-6), number(0.84532, 0.0012))
    $1.23 \times 10^{-5}$ $(1.23 \pm 0.11) \times 10^{-5}$ $0.8453 \pm 0.0012$
    """
    if math.isnan(value):
        return "--"
    if math.isinf(value):
        return r"$\infty$" if value > 0 else r"$-\infty$"
    known = math.isfinite(half)
    if value == 0 or WIDE[0] <= abs(value) < WIDE[1]:
        spread = rf" \pm {half:.{digits}f}" if known else ""
        return f"${value:.{digits}f}{spread}$"
    mantissa, _, power = f"{value:.2e}".partition("e")
    if known:
        mantissa = rf"({mantissa} \pm {half / 10.0 ** int(power):.2f})"
    return rf"${mantissa} \times 10^{{{int(power)}}}$"


def whole_number(value: float) -> str:
    r"""A count, in words of three digits.

    Examples
    --------
    >>> print(whole_number(24752), whole_number(1e15))
    24,752 $1.00 \times 10^{15}$
    """
    if not math.isfinite(value) or abs(value) >= 1e12:
        return number(value)
    return f"{value:,.0f}"


def bold(text: str) -> str:
    """In bold, formulas as well."""
    return rf"{{\bfseries\boldmath {text}}}"
