"""What we say when something is wrong: who, what is wrong, the value, what to do."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import PurePath

__all__ = ["InputError", "LostRankError", "Notice", "shortened", "unknown"]

SHOWN = 80  # characters of a value that somebody gave
SHOWN_OF_PATH = 200
LONGEST_LINE = 2000  # characters of a message, whatever it quotes


class InputError(ValueError):
    """Something the user gave cannot be used.

    The message is one line: who complains, what is wrong, the value, and what to do. It
    is a `ValueError`; on the command line it becomes exit code 2. Line breaks in what
    it quotes, such as the name of a file, become spaces.

    Parameters
    ----------
    message
        That line.

    Examples
    --------
    >>> import proxmesh as pm
    >>> pm.L1(-1.0)
    Traceback (most recent call last):
    proxmesh.errors.InputError: L1: `weight` must be finite and not negative, got -1.0.
    """

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message, LONGEST_LINE))


class LostRankError(RuntimeError):
    """A process of a distributed run died, froze or cannot be reached.

    Left uncaught it becomes one line and exit code 3. Its attribute `iteration` is the
    last finished iteration of this process, None where it is not known.

    Parameters
    ----------
    what
        Which ranks with which agents, and what is known about them.
    remedy
        What to do.

    Examples
    --------
    >>> error = LostRankError("rank 1 (agents 4-7) was silent for 60 s", "See its log.")
    >>> error.iteration = 310
    >>> print(error)
    rank 1 (agents 4-7) was silent for 60 s after iteration 310. See its log.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy
        self.iteration: int | None = None

    def __str__(self) -> str:
        when = "" if self.iteration is None else f" after iteration {self.iteration}"
        return f"{self.what}{when}. {self.remedy}"


class Notice(UserWarning):
    """One line worth knowing that stops nothing, such as a slower way being taken.

    It is a `UserWarning`: filter it, or turn it into an error, like any other.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", Notice)
    ...     warnings.warn("the step runs uncompiled", Notice)
    """


def shortened(
    value: object, most: int | None = None, write: Callable[[object], str] = str
) -> str:
    r"""Return what somebody gave as text for a message: one line, never a long one.

    Parameters
    ----------
    value
        Anything.
    most
        Characters to keep: 80, or 200 of a path, which people want to see whole. What
        is longer keeps its beginning and end.
    write
        Turns it into text; `repr` puts quotes around strings.

    Examples
    --------
    >>> shortened("a name\nof two lines")
    'a name of two lines'
    >>> shortened("0123456789" * 100_000, most=20)
    '0123456789 ... 56789'
    """
    try:
        text = write(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        text = "a number of thousands of digits"
    except RecursionError:
        text = "something nested too deeply to show"
    if most is None:
        most = SHOWN_OF_PATH if isinstance(value, PurePath) else SHOWN
    if len(text) > most:
        end = (most - 5) // 3
        text = f"{text[: most - 5 - end]} ... {text[-end:]}"
    return "".join(c if c.isprintable() else " " for c in text)


def unknown(kind: str, name: object, known: Iterable[str], of: str = "") -> InputError:
    """Build the error for a name that is not in a table, and suggest the nearest one.

    Parameters
    ----------
    kind
        What the name should have been, such as ``"graph"``.
    name
        What was given.
    known
        The names that would have been right.
    of
        Where it was given; nothing is said if it is empty.

    Examples
    --------
    >>> print(unknown("graph", "rng", ["ring", "star"]))
    unknown graph `rng`. Did you mean `ring`? Known: ring, star.
    """
    names = sorted(set(known))
    given = shortened(name)
    near = get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f" Did you mean `{near[0]}`?" if near else ""
    place = f" of {of}" if of else ""
    listed = ", ".join(names) or "none"
    return InputError(f"unknown {kind} `{given}`{place}.{hint} Known: {listed}.")
