"""A folder is written by one process at a time."""

import contextlib
import errno
import fcntl
import json
import os
import socket
import sys
import warnings
from pathlib import Path
from typing import Any, final

from proxmesh.errors import InputError, Notice

__all__ = ["FolderLock", "holder_of"]

NAME = ".lock"
NO_LOCKS_HERE = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}  # some network disks
IS_HELD = {errno.EAGAIN, errno.EACCES}
MOST_BYTES = 4096


@final
class FolderLock:
    """Holds a folder for this process until it is released, or the process ends.

    The system lets go of the lock when a process ends, however it ends; what is left is
    a file that tells who it was.

    Parameters
    ----------
    folder
        An existing folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     lock = FolderLock(Path(place))
    ...     holder_of(Path(place))["pid"] == os.getpid()
    ...     lock.release()
    ...     holder_of(Path(place)) is None
    True
    True
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / NAME
        self._handle = _held(self._file)
        before = _told(self._file)
        if before is not None and not _is_this_process(before):
            warnings.warn(
                f"folder `{folder}` was being written by {_named(before)}, which is "
                "gone. It is taken over.",
                Notice,
                stacklevel=2,
            )
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, json.dumps(_myself()).encode(), 0)

    def __enter__(self) -> "FolderLock":
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others write; a second time does nothing."""
        if self._handle < 0:
            return
        with contextlib.suppress(OSError):  # the folder may be gone
            self._file.unlink(missing_ok=True)
        os.close(self._handle)
        self._handle = -1


def holder_of(folder: Path) -> dict[str, Any] | None:
    """Who is writing a folder at this moment: ``pid``, ``host``, ``command``."""
    try:
        handle = os.open(folder / NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return _told(folder / NAME) if error.errno in IS_HELD else None
    finally:
        os.close(handle)
    return None


def _held(file: Path) -> int:
    """An open file that this process alone has locked."""
    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno in IS_HELD:
                raise _refusal(file) from error
            if error.errno not in NO_LOCKS_HERE:
                raise
            return _held_by_word(file)
        if _is_still(handle, file):
            return handle
        os.close(handle)  # its holder has just removed it: try the next one


def _held_by_word(file: Path) -> int:
    """Where the disk knows no locks: believe what the file says."""
    told = _told(file)
    if told is not None and not _is_this_process(told) and _is_running(told):
        raise _refusal(file)
    return os.open(file, os.O_RDWR | os.O_CREAT, 0o644)


def _is_still(handle: int, file: Path) -> bool:
    """Whether the open file is the one that has this name now."""
    try:
        now, ours = file.stat(), os.fstat(handle)
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (ours.st_dev, ours.st_ino)


def _refusal(file: Path) -> InputError:
    told = _told(file)
    who = "another process" if told is None else _named(told)
    return InputError(
        f"folder `{file.parent}` is being written by {who}. Wait until it has ended, "
        "or choose another folder."
    )


def _named(told: dict[str, Any]) -> str:
    return f"`{told['command']}` (process {told['pid']} on {told['host']})"


def _told(file: Path) -> dict[str, Any] | None:
    """What a lock file says; None if that is nothing, or makes no sense."""
    try:
        with file.open("rb") as opened:
            found = json.loads(opened.read(MOST_BYTES))
        return {
            "pid": int(found["pid"]),
            "host": str(found["host"]),
            "command": str(found["command"]),
            "boot": str(found["boot"]),
            "started": str(found["started"]),
        }
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _myself() -> dict[str, Any]:
    pid = os.getpid()
    name = Path(sys.argv[0]).name or "python"
    return {
        "pid": pid,
        "host": socket.gethostname(),
        "command": " ".join([name, *sys.argv[1:3]])[:200],
        "boot": _boot(),
        "started": _started(pid),
    }


def _is_this_process(told: dict[str, Any]) -> bool:
    pid: int = told["pid"]
    return pid == os.getpid() and str(told["started"]) == _started(pid)


def _is_running(told: dict[str, Any]) -> bool:
    """Whether that very process runs on; of another machine nothing is known."""
    if told["host"] != socket.gethostname():
        return True
    started = _started(told["pid"])
    same_boot = str(told["boot"]) == _boot()
    return same_boot and started != "" and str(told["started"]) == started


def _boot() -> str:
    """Changes when the machine starts again, and with it the meaning of a pid."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _started(pid: int) -> str:
    """When a process was started, in the system's own ticks; empty if it is gone."""
    with contextlib.suppress(OSError, IndexError):
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
        return after_name.split()[19]
    return ""
