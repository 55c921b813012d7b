"""What we say when something is wrong: who, what is wrong, the value, what to do."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["InputError", "LostRankError", "Notice", "unknown"]


class InputError(ValueError):
    """Something the user gave cannot be used; the message is one line and complete."""


class LostRankError(RuntimeError):
    """A process of a distributed run died, froze or cannot be reached.

    Parameters
    ----------
    what
        Which ranks with which agents, and what is known about them.
    remedy
        What to do.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy
        self.iteration: int | None = None  # the last finished one here, if known

    def __str__(self) -> str:
        when = "" if self.iteration is None else f" after iteration {self.iteration}"
        return f"{self.what}{when}. {self.remedy}"


class Notice(UserWarning):
    """One line worth knowing that stops nothing."""


def unknown(kind: str, name: object, known: Iterable[str], of: str = "") -> InputError:
    """Build the error for a name that is not in the table, with the nearest one.

    Examples
    --------
    >>> print(unknown("graph", "rng", ["ring", "star"]))
    unknown graph `rng`. Did you mean `ring`? Known: ring, star.
    """
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f" Did you mean `{near[0]}`?" if near else ""
    place = f" of {of}" if of else ""
    listed = ", ".join(names) or "none"
    return InputError(f"unknown {kind} `{name}`{place}.{hint} Known: {listed}.")
