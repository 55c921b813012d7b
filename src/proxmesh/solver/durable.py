"""Files that are whole or not there: written aside, brought to the disk, renamed."""

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["appended", "replaced", "sha256_of", "synced", "written"]

ASIDE = ".new"


def written(file: Path, text: str) -> None:
    """Write a text file in one piece.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     written(Path(place) / "note.txt", "done")
    ...     [(f.name, f.read_text()) for f in Path(place).iterdir()]
    [('note.txt', 'done')]
    """
    replaced(file, lambda aside: aside.write_text(text, encoding="utf-8"))


def replaced(file: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make a file aside, then put it in the place of this one.

    Whatever happens on the way, the file holds its old content or the new.
    """
    aside = file.with_name(file.name + ASIDE)
    try:
        write(aside)
        synced(aside)
        aside.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
    synced(file.parent)


def appended(file: Path, text: Callable[[bool], str]) -> None:
    """Add lines to a file at once; where the disk is full, it stays as it was.

    `text` is asked whether the file is empty: it then begins with a header.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     note = Path(place) / "note.txt"
    ...     for _ in range(2):
    ...         appended(note, lambda empty: "first " if empty else "second ")
    ...     note.read_text()
    'first second '
    """
    with file.open("ab", buffering=0) as opened:
        size = opened.tell()
        line = text(not size).encode()
        try:
            cut = opened.write(line) < len(line)
        except OSError:
            opened.truncate(size)
            raise
        if cut:
            opened.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def synced(path: Path) -> None:
    """Wait until a file, or the list of files in a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256_of(file: Path) -> str:
    """The fingerprint of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
