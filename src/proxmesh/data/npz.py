"""Arrays from an .npz that somebody else made: no pickles, and nothing that swells.

A header is read before its array: only the arrays that are asked for are unpacked, and
only if they are as large as the archive says and fit.
"""

import lzma
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from proxmesh.errors import InputError, shortened
from proxmesh.files import open_regular
from proxmesh.limits import readable, require_memory

__all__ = ["Archive"]

LARGE = 2**28  # bytes from which an array is suspected to be a bomb
SWELLS = 200  # times that one has when it is unpacked; images have 2 to 10
LONGEST_HEADER = 2**16
LISTED = 20  # names in a message
BROKEN = (  # what zipfile, its decompressors and numpy raise for damaged files
    EOFError,
    KeyError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    lzma.LZMAError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@final
class Archive:
    """The arrays of an .npz file by name, each read when it is asked for.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_regular(path, "dataset")
        if not zipfile.is_zipfile(self._file):
            self._file.close()
            raise self._refusal("it is no zip archive")
        try:
            self._zip = zipfile.ZipFile(self._file)
        except BROKEN as error:
            self._file.close()
            raise self._refusal(error) from error
        self._members = {
            info.filename.removesuffix(".npy"): info for info in self._zip.infolist()
        }

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def names(self) -> str:
        """What it holds, for messages."""
        listed = [shortened(name) for name in list(self._members)[:LISTED]]
        return ", ".join(listed) or "none"

    def first(self, names: Iterable[str]) -> str | None:
        """The first of these names that it holds."""
        return next((name for name in names if name in self), None)

    def array(self, name: str) -> NDArray[Any]:
        """Read one array."""
        member = self._members[name]
        try:
            with self._zip.open(member) as stream:
                shape, dtype = _header(stream)
                self._require_honest(name, member, shape, dtype)
            with self._zip.open(member) as stream:
                found: NDArray[Any] = npy.read_array(
                    stream, allow_pickle=False, max_header_size=LONGEST_HEADER
                )
        except InputError:
            raise
        except BROKEN as error:
            raise self._refusal(error) from error
        return found

    def _require_honest(
        self, name: str, member: zipfile.ZipInfo, shape: tuple[int, ...], dtype: Any
    ) -> None:
        """Refuse pickles, sizes that the archive does not hold, and zip bombs."""
        if dtype.hasobject:
            raise self._refusal(f"`{name}` holds Python objects, not numbers")
        count = math.prod(shape)
        size = count * dtype.itemsize
        if size > member.file_size or min(shape, default=0) < 0:
            told = shortened(shape)
            raise self._refusal(
                f"`{name}` is said to have shape {told}, but is smaller"
            )
        if size > LARGE and size > SWELLS * max(member.compress_size, 1):
            packed = readable(member.compress_size)
            raise InputError(
                f"dataset `{self.path}`: `{name}` swells from {packed} to "
                f"{readable(size)} when it is unpacked. If that is meant, save it with "
                "`np.savez`, without compression."
            )
        used = size + 8 * count  # and two copies in float32
        require_memory(f"dataset `{self.path}`", used, "Give a part of it.")

    def _refusal(self, why: object) -> InputError:
        return InputError(
            f"dataset `{self.path}` is not a plain .npz: {shortened(why) or 'damaged'}."
        )


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], "np.dtype[Any]"]:
    """Shape and type of the array that follows."""
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    if version not in {(1, 0), (2, 0)}:
        raise ValueError(
            f"version {version[0]}.{version[1]} of its format is not known"
        )
    shape, _, dtype = read(stream, max_header_size=LONGEST_HEADER)
    return shape, dtype
