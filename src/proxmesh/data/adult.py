"""The data set a9a, which lies inside the package: UCI Adult in LIBSVM's encoding."""

import hashlib
import lzma
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from proxmesh.errors import InputError

__all__ = ["TRAINING_ROWS", "table", "verify"]

TRAINING_ROWS = 32_561  # 16,281 test rows follow
SHA256 = {
    "a9a": "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
    "a9a.t": "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
}


@cache
def table() -> NDArray[np.uint8]:
    """Return all rows, training before test: the label, then 123 binary features."""
    packed = resources.files("proxmesh.data").joinpath("bundled", "a9a.xz")
    raw = np.frombuffer(lzma.decompress(packed.read_bytes()), np.uint8)
    return np.unpackbits(raw.reshape(-1, 16), axis=1)[:, :124]


def verify() -> str:
    """Compare with the hashes of the published files and say what was compared."""
    parts = np.split(table(), [TRAINING_ROWS])
    for part, (file, expected) in zip(parts, SHA256.items(), strict=True):
        found = hashlib.sha256(_as_libsvm(part)).hexdigest()
        if found != expected:
            raise InputError(
                f"dataset `a9a` is damaged: sha256 of `{file}` is {found}, "
                f"expected {expected}. Install the package again."
            )
    return "sha256 of both LIBSVM files as published"


def _as_libsvm(rows: NDArray[np.uint8]) -> bytes:
    lines = []
    for row in rows:
        active = "".join(f"{j}:1 " for j in np.flatnonzero(row[1:]) + 1)
        lines.append(f"{'+1' if row[0] else '-1'} {active}\n")
    return "".join(lines).encode()
