"""Whether something fits, asked before it is made; and one line where it did not.

It imports neither torch nor numpy, so that the command line can use it at once.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proxmesh.errors import InputError, shortened

__all__ = ["available_memory", "in_one_line", "readable", "require_memory"]

CGROUPS = (  # files of a container, version 2, then 1: what it may use, uses, caches
    ("/sys/fs/cgroup", "memory.max", "memory.current", "file "),
    (
        "/sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_cache ",
    ),
)
ALLOCATORS = (  # how torch says that it found no memory; it has no class of its own
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "size calculation overflowed",
)


def available_memory() -> int | None:
    """Bytes that can still be allocated, also inside a container; None: unknown.

    Examples
    --------
    >>> available_memory() is None or available_memory() > 0
    True
    """
    found = [_of_machine(), *(_of_container(*names) for names in CGROUPS)]
    known = [number for number in found if number is not None]
    return min(known, default=None)


def require_memory(who: str, size: int, remedy: str) -> None:
    """Refuse what needs more bytes than there are, before they are allocated.

    Parameters
    ----------
    who
        What would need them.
    size
        Bytes.
    remedy
        What to do.

    Examples
    --------
    >>> require_memory("model `mlp`", 10**18, "Lower `hidden`.")
    Traceback (most recent call last):
    proxmesh.errors.InputError: model `mlp` needs 1,000,000 TB of memory, but ...
    """
    free = available_memory()
    if free is not None and size > free:
        raise InputError(
            f"{who} needs {readable(size)} of memory, but {readable(free)} is free. "
            f"{remedy}"
        )


def readable(size: float) -> str:
    """Return a number of bytes as people say it.

    Examples
    --------
    >>> readable(3_900_000), readable(4_000_000_000), readable(800)
    ('3.9 MB', '4 GB', '800 bytes')
    """
    size = min(size, 10**30)  # so that it is a float, too
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            number = size / scale
            return f"{number:.2g} {unit}" if number < 10 else f"{number:,.0f} {unit}"
    return f"{size:.0f} bytes"


@contextmanager
def in_one_line(who: str) -> Iterator[None]:
    """Turn what the system refuses into an `InputError`: files, memory, nesting, size.

    Parameters
    ----------
    who
        What was being done, as the beginning of a sentence: ``"config `a.toml`"``.

    Examples
    --------
    >>> with in_one_line("graph file `g.txt`"):
    ...     raise MemoryError
    Traceback (most recent call last):
    proxmesh.errors.InputError: graph file `g.txt`: not enough memory. Make it smaller.
    """
    try:
        yield
    except (OSError, MemoryError, RecursionError, OverflowError, RuntimeError) as error:
        reason = reason_of(error)
        if reason is None:
            raise
        raise InputError(f"{who}: {reason}.") from error


def reason_of(error: BaseException) -> str | None:
    """What the system refused, without the last full stop; None if it was not that.

    Examples
    --------
    >>> reason_of(FileNotFoundError(2, "No such file or directory", "a.toml"))
    'No such file or directory: `a.toml`'
    """
    text = str(error)
    if isinstance(error, RecursionError):
        return "nested too deeply. Write it flatter"
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(a in text for a in ALLOCATORS)
    ):
        return "not enough memory. Make it smaller"
    if isinstance(error, OverflowError):
        return f"a number is too large ({shortened(text)})"
    if isinstance(error, OSError):
        file = "" if error.filename is None else f": `{shortened(error.filename)}`"
        return f"{error.strerror or shortened(text)}{file}"
    return None


def _of_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass  # not Linux
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _of_container(folder: str, limit: str, used: str, cache: str) -> int | None:
    def text(name: str) -> str:
        return Path(folder, name).read_text(encoding="ascii")

    try:
        left = int(text(limit)) - int(text(used))
        for line in text("memory.stat").splitlines():
            if line.startswith(cache):
                left += int(line.split()[1])  # given back when it is needed
    except (OSError, ValueError):  # no container, or one without a limit: `max`
        return None
    return max(left, 0)
