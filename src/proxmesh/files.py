"""Files that others wrote: regular ones only, of a bounded size, as text or TOML.

Nothing here trusts what it reads: a device never ends, a pipe never begins, and a small
text can hold a very deep or a very long value.
"""

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

from proxmesh.errors import InputError, shortened
from proxmesh.limits import in_one_line, readable

__all__ = ["open_regular", "parsed_toml", "read_regular", "read_text", "require_flat"]

LARGEST_TEXT = 2**20  # bytes of a file that is written by hand
DEEPEST = 16  # tables in tables; a config has three
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
# The parser takes time quadratic in the parts of a dotted key.
LONG_KEY = re.compile(r"""(?:\.[ \t]*["'\w-]+[ \t]*){64}""")


def open_regular(file: str | Path, who: str) -> BinaryIO:
    """Open a regular file for reading; refuse folders, pipes and devices at once.

    Parameters
    ----------
    file
        Its path.
    who
        What it is to the user, such as ``"config"``.

    Examples
    --------
    >>> open_regular("/dev/null", "config")
    Traceback (most recent call last):
    proxmesh.errors.InputError: config `/dev/null` is a device. Give a regular file.
    """
    name = f"{who} `{shortened(file)}`"
    try:
        # Without O_NONBLOCK, opening a pipe waits for somebody who writes to it.
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{name} cannot be read: {reason}.") from error
    mode = os.fstat(opened).st_mode
    if not stat.S_ISREG(mode):
        os.close(opened)
        kind = next((word for is_kind, word in KINDS if is_kind(mode)), "not a file")
        raise InputError(f"{name} is {kind}. Give a regular file.")
    return os.fdopen(opened, "rb")


def read_regular(file: str | Path, who: str, most: int = LARGEST_TEXT) -> bytes:
    """Read a regular file of at most this many bytes.

    Parameters
    ----------
    file, who
        As for `open_regular`.
    most
        Bytes.
    """
    name = f"{who} `{shortened(file)}`"
    with open_regular(file, who) as opened, in_one_line(name):
        size = os.fstat(opened.fileno()).st_size
        content = b"" if size > most else opened.read(most + 1)
    if max(size, len(content)) > most:
        raise InputError(
            f"{name} has {readable(max(size, len(content)))}, more than the "
            f"{readable(most)} that such a file may have. Is it the right one?"
        )
    return content


def read_text(file: str | Path, who: str, most: int = LARGEST_TEXT) -> str:
    """Read a regular file of text in UTF-8, without its byte-order mark.

    Parameters
    ----------
    file, who, most
        As for `read_regular`.
    """
    try:
        return read_regular(file, who, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{who} `{shortened(file)}` cannot be read: {error}."
        ) from error


def parsed_toml(text: str, who: str) -> dict[str, Any]:
    """Parse TOML that is not nested deeply and has no endless number in it.

    Parameters
    ----------
    text
        What to parse.
    who
        Where it comes from, as the beginning of a sentence.

    Examples
    --------
    >>> parsed_toml("seed = 1", "config `a.toml`")
    {'seed': 1}
    >>> parsed_toml("sizes = " + "[" * 5000, "config `a.toml`")
    Traceback (most recent call last):
    proxmesh.errors.InputError: config `a.toml` is nested too deeply. Write it flatter.
    """
    too_deep = f"{who} is nested too deeply. Write it flatter."
    if LONG_KEY.search(text):
        raise InputError(too_deep)
    try:
        tree = tomllib.loads(text)
    except RecursionError as error:
        raise InputError(too_deep) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{who} is not valid TOML: {shortened(error)}.") from error
    except ValueError as error:  # Python reads no integer of more than 4,300 digits
        raise InputError(
            f"{who} holds a number of thousands of digits. Shorten it."
        ) from error
    require_flat(tree, who)
    return tree


def require_flat(tree: Any, who: str) -> None:
    """Refuse a tree of tables and lists that is deeper than any that is meant.

    Parameters
    ----------
    tree
        What a parser made.
    who
        Where it comes from, as the beginning of a sentence.
    """
    level = [tree]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for branch in level:
            if isinstance(branch, dict):
                below += branch.values()
            elif isinstance(branch, list):
                below += branch
        if not below:
            return
        level = below
    raise InputError(f"{who} is nested too deeply. Write it flatter.")
