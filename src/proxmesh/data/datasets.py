"""Data sets by name: inside the package, fetched, made on the spot, or your own file.

Examples
--------
>>> data = a9a()
>>> data.inputs.shape, data.num_classes
(torch.Size([32561, 123]), 2)
>>> [len(targets) for _, targets in data.split(8)][:2]
[4070, 4070]
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from proxmesh.construct import construct
from proxmesh.data import adult, download
from proxmesh.data.dataset import Arrays, Dataset
from proxmesh.data.download import Download
from proxmesh.data.own_file import from_file, standardized
from proxmesh.errors import InputError, shortened, unknown
from proxmesh.limits import require_memory

__all__ = [
    "DATASETS",
    "Dataset",
    "Entry",
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


COPIES = 3  # of a synthetic table in memory: drawn, shuffled, split

# -- the catalog -----------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """A named data set: what `proxmesh data list` shows, and how to load it.

    Parameters
    ----------
    build
        Returns the data set; options of the command line are its keywords. If it is
        downloaded, its first parameter is the folder to look in first.
    samples, features, classes, source
        For the listing: how many, and where it comes from.
    download
        Where to fetch it, if it is not here.
    verify
        Checks it against published hashes and says which, if it is not downloaded.

    Examples
    --------
    >>> DATASETS["a9a"].samples, len(DATASETS["digits"]().inputs)
    ('32,561 + 16,281', 1347)
    """

    build: Callable[..., Dataset]
    samples: str
    features: str
    classes: str
    source: str
    download: Download | None = None
    verify: Callable[[], str] | None = None

    def __call__(self, *args: Any, **options: Any) -> Dataset:
        """Load it."""
        return self.build(*args, **options)


DATASETS: dict[str, Entry] = {}
"""Every named data set; `_named` adds them."""

Build = TypeVar("Build", bound=Callable[..., Dataset])


def _named(name: str, **facts: Any) -> Callable[[Build], Build]:
    """Enter a function that loads a data set into the catalog; `facts` as in `Entry`.

    This is all that a new data set needs, besides its row in docs/data.md.
    """

    def enter(build: Build) -> Build:
        DATASETS[name] = Entry(build, **facts)
        return build

    return enter


@_named(
    "a9a",
    samples="32,561 + 16,281",
    features="123",
    classes="2",
    source="inside the package",
    verify=adult.verify,
)
def a9a() -> Dataset:
    """UCI Adult in LIBSVM's encoding: who earns above 50,000? 123 binary features.

    Examples
    --------
    >>> a9a()
    Dataset(a9a: 32,561 training samples of 123 features, 2 classes)
    """
    train, test = np.split(adult.table(), [adult.TRAINING_ROWS])
    return Dataset.of("a9a", (train[:, 1:], train[:, 0]), (test[:, 1:], test[:, 0]))


@_named(
    "digits",
    samples="1,347 + 450",
    features="64",
    classes="10",
    source="scikit-learn's copy",
)
def digits() -> Dataset:
    """8 x 8 images of digits from scikit-learn, standardized, a quarter held out.

    Examples
    --------
    >>> digits()
    Dataset(digits: 1,347 training samples of 64 features, 10 classes)
    """
    from sklearn.datasets import load_digits

    return _from_sklearn("digits", load_digits(return_X_y=True))


@_named(
    "breast-cancer",
    samples="426 + 143",
    features="30",
    classes="2",
    source="scikit-learn's copy",
)
def breast_cancer() -> Dataset:
    """Wisconsin breast cancer from scikit-learn, standardized, a quarter held out.

    Examples
    --------
    >>> breast_cancer()
    Dataset(breast-cancer: 426 training samples of 30 features, 2 classes)
    """
    from sklearn.datasets import load_breast_cancer

    return _from_sklearn("breast-cancer", load_breast_cancer(return_X_y=True))


@_named(
    "synthetic",
    samples="any",
    features="any",
    classes="any",
    source="made from a seed",
)
def synthetic(
    samples: int = 4000, features: int = 50, classes: int = 2, seed: int = 0
) -> Dataset:
    """Noisy clusters; a fifth of the features is informative, a fifth is held out.

    Parameters
    ----------
    samples, features, classes
        How many; the samples include the ones that are held out.
    seed
        Of the draw.

    Examples
    --------
    >>> synthetic(samples=100, features=10)
    Dataset(synthetic: 80 training samples of 10 features, 2 classes)
    """
    from sklearn.datasets import make_classification
    from sklearn.model_selection import train_test_split

    informative = max(features // 5, classes.bit_length() + 1)
    if not (samples >= max(10, classes) >= classes >= 2 and informative <= features):
        raise InputError(
            "dataset `synthetic` needs samples >= 10, classes from 2 to the number of "
            "samples and enough features, got "
            + shortened(f"samples={samples}, classes={classes}, features={features}.")
        )
    require_memory(
        "dataset `synthetic`",
        COPIES * 8 * samples * features,
        "Lower `data.samples` or `data.features`.",
    )
    x, y = make_classification(
        n_samples=samples,
        n_features=features,
        n_informative=informative,
        n_redundant=0,
        n_classes=classes,
        n_clusters_per_class=1,
        random_state=seed % 2**32,
    )
    x, xt, y, yt = train_test_split(x, y, test_size=0.2, random_state=0)
    return Dataset.of("synthetic", (x, y), (xt, yt))


@_named(
    "mnist",
    samples="60,000 + 10,000",
    features="28 x 28",
    classes="10",
    source="folder, mirrors, pip",
    download=download.MNIST,
)
def mnist(data_dir: str | Path | None = None) -> Dataset:
    """Handwritten digits, 60,000 + 10,000 images.

    Parameters
    ----------
    data_dir
        Folder to look in first; see `proxmesh.data.download` for where else.
    """
    return _images(download.MNIST, data_dir, mean=0.1307, std=0.3081)


@_named(
    "fashion-mnist",
    samples="60,000 + 10,000",
    features="28 x 28",
    classes="10",
    source="folder, mirrors, apt",
    download=download.FASHION_MNIST,
)
def fashion_mnist(data_dir: str | Path | None = None) -> Dataset:
    """Zalando's clothes in MNIST's format, 60,000 + 10,000 images.

    Parameters
    ----------
    data_dir
        Folder to look in first; see `proxmesh.data.download` for where else.
    """
    return _images(download.FASHION_MNIST, data_dir, mean=0.2860, std=0.3530)


# -- by name, or from a file -----------------------------------------------------------


def load(name: str, /, data_dir: str | Path | None = None, **options: Any) -> Dataset:
    """Return a data set by name, or from your own file if `name` is a path.

    Parameters
    ----------
    name
        One of `DATASETS`, or the path of a file for `from_file`.
    data_dir
        Folder to look in first, for data sets that are downloaded.
    options
        Of the function that loads it.

    Examples
    --------
    >>> load("synthetic", samples=100)
    Dataset(synthetic: 80 training samples of 50 features, 2 classes)
    """
    return loaded(name, data_dir, options)


def loaded(
    name: str,
    data_dir: str | Path | None,
    options: Mapping[str, Any],
    also_known: Iterable[str] = (),
) -> Dataset:
    """Return a data set as `load` does, from options of any name.

    Parameters
    ----------
    name, data_dir, options
        As for `load`.
    also_known
        Names that may stand beside the options, for the hint after a typo.
    """
    who = f"dataset `{shortened(name if name in DATASETS else Path(name))}`"
    entry = DATASETS.get(name)
    if entry is None:
        if not ("." in name or "/" in name or os.path.isfile(name)):
            raise unknown("dataset", name, DATASETS)
        return construct(who, from_file, options, name, also_known=also_known)
    folder = [] if entry.download is None else [data_dir]
    return construct(who, entry.build, options, *folder, also_known=also_known)


def verify(name: str, data_dir: str | Path | None = None) -> str:
    """Check a data set against its published hash and say what was checked.

    Parameters
    ----------
    name
        As for `load`.
    data_dir
        Folder to look in first, for data sets that are downloaded.

    Examples
    --------
    >>> verify("digits")
    '1347 samples loaded; it carries no published hash'
    """
    entry = DATASETS.get(name)
    if entry is not None and entry.verify is not None:
        return entry.verify()
    if entry is not None and entry.download is not None:
        download.images(entry.download, data_dir)
        return "sha256 of all four files as published"
    data = load(name)
    return f"{len(data.inputs)} samples loaded; it carries no published hash"


def _images(
    source: Download, data_dir: str | Path | None, mean: float, std: float
) -> Dataset:
    x, y, xt, yt = download.images(source, data_dir)

    def normalized(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        scaled = pixels[:, None].astype(np.float32) / np.float32(255)
        return (scaled - np.float32(mean)) / np.float32(std)

    return Dataset.of(source.name, (normalized(x), y), (normalized(xt), yt))


def _from_sklearn(name: str, table: Arrays) -> Dataset:
    from sklearn.model_selection import train_test_split

    x, y = table
    x, xt, y, yt = train_test_split(x, y, test_size=0.25, random_state=0, stratify=y)
    train, test, scaling = standardized((x, y), (xt, yt))
    return replace(Dataset.of(name, train, test), scaling=scaling)
