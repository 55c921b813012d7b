"""Data sets by name: inside the package, fetched, made on the spot, or your own file.

Examples
--------
>>> data = a9a()
>>> data.inputs.shape, data.num_classes
(torch.Size([32561, 123]), 2)
>>> [len(targets) for _, targets in data.split(8)][:2]
[4070, 4070]
"""

import hashlib
import lzma
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proxmesh.construct import construct
from proxmesh.data import download, files
from proxmesh.data.partition import partition
from proxmesh.errors import InputError, Notice, unknown

__all__ = [
    "DATASETS",
    "Dataset",
    "a9a",
    "breast_cancer",
    "digits",
    "fashion_mnist",
    "from_file",
    "load",
    "mnist",
    "synthetic",
    "verify",
]

A9A_ROWS = {"a9a": 32_561, "a9a.t": 16_281}
A9A_SHA256 = {
    "a9a": "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
    "a9a.t": "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
}
UNSCALED = 100  # features beyond this usually make the default step too long
PIXEL_MEAN_STD = {"mnist": (0.1307, 0.3081), "fashion-mnist": (0.2860, 0.3530)}

Arrays = tuple[NDArray[Any], NDArray[Any]]


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dataset:
    """A labeled training set, with a test set where there is one."""

    name: str
    inputs: Tensor  # [N, ...] float32
    targets: Tensor  # [N] int64
    num_classes: int
    test: tuple[Tensor, Tensor] | None = None

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name}: {len(self.inputs):,} training samples of "
            f"{self.features} features, {self.num_classes} classes)"
        )

    @property
    def features(self) -> int:
        """Numbers in one sample."""
        return self.inputs[0].numel()

    def shaped(self, *shape: int) -> "Dataset":
        """Return it with samples of another shape."""

        def viewed(inputs: Tensor) -> Tensor:
            return inputs.reshape(len(inputs), *shape)

        test = None if self.test is None else (viewed(self.test[0]), self.test[1])
        return replace(self, inputs=viewed(self.inputs), test=test)

    def split(
        self, n: int, how: str = "contiguous", **options: Any
    ) -> list[tuple[Tensor, Tensor]]:
        """Deal the training set out to n agents.

        Parameters
        ----------
        n
            Agents.
        how
            ``contiguous`` (the papers' blocks), ``shuffled``, ``by-label``,
            ``dirichlet`` or ``unequal``; see `proxmesh.data.partition`.
        options
            ``seed``, and ``alpha`` for dirichlet, ``sizes`` for unequal.
        """
        rows = partition(self.targets.numpy(), n, how, **options)
        return [(self.inputs[r], self.targets[r]) for r in map(torch.from_numpy, rows)]


def a9a() -> Dataset:
    """UCI Adult in LIBSVM's encoding: who earns above 50,000? 123 binary features."""
    table = _a9a_table()
    train, test = np.split(table, [A9A_ROWS["a9a"]])
    return _dataset("a9a", (train[:, 1:], train[:, 0]), (test[:, 1:], test[:, 0]))


def digits() -> Dataset:
    """8 x 8 images of digits from scikit-learn, standardized, a quarter held out."""
    from sklearn.datasets import load_digits

    return _sklearn("digits", load_digits(return_X_y=True))


def breast_cancer() -> Dataset:
    """Wisconsin breast cancer from scikit-learn, standardized, a quarter held out."""
    from sklearn.datasets import load_breast_cancer

    return _sklearn("breast-cancer", load_breast_cancer(return_X_y=True))


def synthetic(
    samples: int = 4000, features: int = 50, classes: int = 2, seed: int = 0
) -> Dataset:
    """Noisy clusters of which a fifth of the features tell; a fifth is held out."""
    from sklearn.datasets import make_classification
    from sklearn.model_selection import train_test_split

    telling = max(features // 5, classes.bit_length() + 1)
    if not (samples >= 10 and classes >= 2 and telling <= features):
        raise InputError(
            "dataset `synthetic` needs samples >= 10, classes >= 2 and enough "
            f"features, got samples={samples}, classes={classes}, features={features}."
        )
    x, y = make_classification(
        n_samples=samples,
        n_features=features,
        n_informative=telling,
        n_redundant=0,
        n_classes=classes,
        n_clusters_per_class=1,
        random_state=seed % 2**32,
    )
    x, xt, y, yt = train_test_split(x, y, test_size=0.2, random_state=0)
    return _dataset("synthetic", (x, y), (xt, yt))


def mnist(data_dir: str | Path | None = None) -> Dataset:
    """Handwritten digits, 60,000 + 10,000 images; see `download` for where from."""
    return _images("mnist", data_dir)


def fashion_mnist(data_dir: str | Path | None = None) -> Dataset:
    """Zalando's clothes in MNIST's format, 60,000 + 10,000 images."""
    return _images("fashion-mnist", data_dir)


def from_file(
    file: str | Path,
    test: str | Path | None = None,
    label: str | None = None,
    standardize: bool = False,
    test_share: float = 0.2,
) -> Dataset:
    """Read an own .npz, .csv or LIBSVM file.

    Parameters
    ----------
    file, test
        Training and test data. Without `test` (and without one in the .npz) a share
        `test_share` is held out by a fixed draw.
    label
        Name of the label column of a .csv; the last one if not given.
    standardize
        Give every feature mean 0 and variance 1 on the training part.
    """
    from sklearn.model_selection import train_test_split

    train, held_out = files.read(Path(file), label)
    if test is not None:
        held_out = files.read(Path(test), label)[0]
    if held_out is None:
        if not 0 < test_share < 1:
            raise InputError(
                f"dataset `{file}`: `test_share` must be between 0 and 1, "
                f"got {test_share}."
            )
        if len(train[1]) < 2:
            raise InputError(f"dataset `{file}` has one sample; training needs more.")
        held = max(1, round(test_share * len(train[1])))
        x, xt, y, yt = train_test_split(*train, test_size=held, random_state=0)
        train, held_out = (x, y), (xt, yt)
    train, held_out = files.with_same_width(file, train, held_out)
    classes, train_labels = np.unique(train[1], return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"dataset `{file}` has one class only, `{classes[0]}`; a classifier needs "
            "two or more."
        )
    strangers = set(held_out[1].tolist()) - set(classes.tolist())
    if strangers:
        raise InputError(
            f"dataset `{test or file}`: test label `{min(strangers)}` does not occur "
            f"in training. Known: {', '.join(map(str, classes[:10]))}."
        )
    held_labels = np.searchsorted(classes, held_out[1])
    train, held_out = (train[0], train_labels), (held_out[0], held_labels)
    if standardize:
        train, held_out = _standardized(train, held_out)
    elif (largest := float(np.abs(train[0]).max())) > UNSCALED:
        warnings.warn(
            f"dataset `{file}` has features up to {largest:.3g}, and training may need "
            "them smaller: `--set data.standardize=true` scales them.",
            Notice,
            stacklevel=2,
        )
    return _dataset(Path(file).stem, train, held_out)


DATASETS: Mapping[str, Callable[..., Dataset]] = {
    "a9a": a9a,
    "breast-cancer": breast_cancer,
    "digits": digits,
    "fashion-mnist": fashion_mnist,
    "mnist": mnist,
    "synthetic": synthetic,
}
"""Every named data set."""


def load(
    name: str,
    data_dir: str | Path | None = None,
    *,
    also_known: Iterable[str] = (),
    **options: Any,
) -> Dataset:
    """Return a data set by name, or from an own file if `name` is a path."""
    who = f"dataset `{name}`"
    if name not in DATASETS:
        if not ("." in name or "/" in name or Path(name).is_file()):
            raise unknown("dataset", name, DATASETS)
        return construct(who, from_file, options, name, also_known=also_known)
    if name in download.SOURCES:
        return construct(who, DATASETS[name], options, data_dir, also_known=also_known)
    return construct(who, DATASETS[name], options, also_known=also_known)


def verify(name: str, data_dir: str | Path | None = None) -> str:
    """Check a data set against its known hash and say what was checked."""
    if name == "a9a":
        table = _a9a_table()
        parts = np.split(table, [A9A_ROWS["a9a"]])
        for part, (file, expected) in zip(parts, A9A_SHA256.items(), strict=True):
            found = hashlib.sha256(_as_libsvm(part)).hexdigest()
            if found != expected:
                raise InputError(
                    f"dataset `a9a` is damaged: sha256 of `{file}` is {found}, "
                    f"expected {expected}. Install the package again."
                )
        return "sha256 of both LIBSVM files as published"
    if name in download.SOURCES:
        download.images(name, data_dir)
        return "sha256 of all four files as published"
    data = load(name)
    return f"{len(data.inputs)} samples loaded; it carries no published hash"


@cache
def _a9a_table() -> NDArray[np.uint8]:
    packed = resources.files("proxmesh.data").joinpath("bundled", "a9a.xz")
    raw = np.frombuffer(lzma.decompress(packed.read_bytes()), np.uint8)
    return np.unpackbits(raw.reshape(-1, 16), axis=1)[:, :124]


def _as_libsvm(table: NDArray[np.uint8]) -> bytes:
    lines = []
    for row in table:
        active = "".join(f"{j}:1 " for j in np.flatnonzero(row[1:]) + 1)
        lines.append(f"{'+1' if row[0] else '-1'} {active}\n")
    return "".join(lines).encode()


def _images(name: str, data_dir: str | Path | None) -> Dataset:
    x, y, xt, yt = download.images(name, data_dir)
    mean, std = PIXEL_MEAN_STD[name]

    def normalized(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        scaled = pixels[:, None].astype(np.float32) / np.float32(255)
        return (scaled - np.float32(mean)) / np.float32(std)

    return _dataset(name, (normalized(x), y), (normalized(xt), yt))


def _sklearn(name: str, table: Arrays) -> Dataset:
    from sklearn.model_selection import train_test_split

    x, y = table
    x, xt, y, yt = train_test_split(x, y, test_size=0.25, random_state=0, stratify=y)
    return _dataset(name, *_standardized((x, y), (xt, yt)))


def _standardized(train: Arrays, test: Arrays) -> tuple[Arrays, Arrays]:
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(train[0])
    return (scaler.transform(train[0]), train[1]), (
        scaler.transform(test[0]),
        test[1],
    )


def _dataset(name: str, train: Arrays, test: Arrays) -> Dataset:
    def tensors(arrays: Arrays) -> tuple[Tensor, Tensor]:
        inputs = torch.from_numpy(np.ascontiguousarray(arrays[0], np.float32))
        return inputs, torch.from_numpy(arrays[1].astype(np.int64))

    inputs, targets = tensors(train)
    return Dataset(name, inputs, targets, int(targets.max()) + 1, tensors(test))
