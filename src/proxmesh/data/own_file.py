"""A data set from your own file, labels as they come, a test part held out."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxmesh.data import files
from proxmesh.data.dataset import Arrays, Dataset
from proxmesh.data.sparse import is_sparse
from proxmesh.errors import InputError, Notice

__all__ = ["from_file", "standardized"]

UNSCALED = 100  # features beyond this usually make the default step too long


def from_file(
    file: str | Path,
    test: str | Path | None = None,
    label: str | None = None,
    standardize: bool = False,
    test_share: float = 0.2,
    *,
    zero_based: bool = False,
    labels: str | Path | None = None,
    numbers: bool = False,
) -> Dataset:
    r"""Read your own .npz, .csv or LIBSVM file.

    Parameters
    ----------
    file, test
        Training and test data. Without `test` (and without one in the .npz) a share
        `test_share` is held out by a fixed draw.
    label
        Name of the label column of a .csv; the last one if not given.
    standardize
        Give every feature mean 0 and variance 1 on the training part.
    test_share
        Share of the samples to hold out, where no test data is given.
    zero_based
        Whether the first feature of a LIBSVM file has the number 0 in place of 1.
    labels
        An .npz with the labels, for a matrix that `scipy.sparse.save_npz` has saved.
    numbers
        Whether labels are numbers to be predicted, and not classes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     lines = ["height,weight,adult", "1.1,20,no", "1.8,80,yes", "1.2,25,no"]
    ...     _ = file.write("\n".join(lines))
    ...     file.flush()
    ...     from_file(file.name).features
    2
    """
    train, held_out = files.read(
        Path(file), label, zero_based=zero_based, labels=labels
    )
    if test is not None:
        held_out = files.read(Path(test), label, zero_based=zero_based)[0]
    train = _with_labels(Path(file), train, numbers)
    if held_out is not None:
        held_out = _with_labels(Path(test or file), held_out, numbers)
    else:
        train, held_out = _held_out(file, train, test_share)
    train, held_out = files.with_same_width(file, train, held_out)
    classes: tuple[Any, ...] = ()
    if not numbers:
        train, held_out, classes = _by_class(file, train, held_out, test)
    scaling = None
    if standardize:
        train, held_out, scaling = standardized(train, held_out)
    elif (largest := float(abs(train[0]).max())) > UNSCALED:
        warnings.warn(
            f"dataset `{file}` has features up to {largest:.3g}, which may be too "
            "large to train on: `--set data.standardize=true` scales them.",
            Notice,
            stacklevel=2,
        )
    found = Dataset.of(Path(file).stem, train, held_out, classes)
    return replace(found, scaling=scaling)


def _with_labels(file: Path, table: Arrays, numbers: bool) -> Arrays:
    """A table whose labels are what is asked for."""
    x, y = table
    if numbers:
        return x, files.require_numbers(file, y)
    files.require_classes(file, y)
    return table


def _by_class(
    file: str | Path, train: Arrays, held_out: Arrays, test: str | Path | None
) -> tuple[Arrays, Arrays, tuple[Any, ...]]:
    """Labels as numbers of their classes, and the classes."""
    classes, train_labels = np.unique(train[1], return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"dataset `{file}` has only one class, `{classes[0]}`; a classifier needs "
            "two or more."
        )
    only_in_test = set(held_out[1].tolist()) - set(classes.tolist())
    if only_in_test:
        raise InputError(
            f"dataset `{test or file}`: test label `{min(only_in_test)}` does not "
            f"occur in training. Known: {', '.join(map(str, classes[:10]))}."
        )
    held_labels = np.searchsorted(classes, held_out[1])
    train, held_out = (train[0], train_labels), (held_out[0], held_labels)
    return train, held_out, tuple(classes.tolist())


def _held_out(file: str | Path, table: Arrays, share: float) -> tuple[Arrays, Arrays]:
    """Divide a table into a training and a test part."""
    from sklearn.model_selection import train_test_split

    if not 0 < share < 1:
        raise InputError(
            f"dataset `{file}`: `test_share` must be between 0 and 1, got {share}."
        )
    samples = len(table[1])
    if samples < 2:
        raise InputError(f"dataset `{file}` has one sample; training needs more.")
    held = max(1, round(share * samples))
    x, xt, y, yt = train_test_split(*table, test_size=held, random_state=0)
    return (x, y), (xt, yt)


def standardized(
    train: Arrays, test: Arrays
) -> tuple[Arrays, Arrays, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Give every feature mean 0 and variance 1 on the training part.

    Also returns the means and the scales that they had.
    """
    from sklearn.preprocessing import StandardScaler

    if any(is_sparse(x) for x, _ in (train, test)):
        raise InputError(
            "`data.standardize`: a mean of 0 would fill the zeros of a large sparse "
            "table. Scale its features in the file, without moving them."
        )
    scaler = StandardScaler().fit(train[0])
    (x, y), (xt, yt) = train, test
    moved = (scaler.transform(x), y), (scaler.transform(xt), yt)
    return *moved, (scaler.mean_, scaler.scale_)
