"""A data set from your own file, labels as they come, a test part held out."""

import warnings
from pathlib import Path

import numpy as np

from proxmesh.data import files
from proxmesh.data.dataset import Arrays, Dataset
from proxmesh.errors import InputError, Notice

__all__ = ["from_file", "standardized"]

UNSCALED = 100  # features beyond this usually make the default step too long


def from_file(
    file: str | Path,
    test: str | Path | None = None,
    label: str | None = None,
    standardize: bool = False,
    test_share: float = 0.2,
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
    train, held_out = files.read(Path(file), label)
    if test is not None:
        held_out = files.read(Path(test), label)[0]
    if held_out is None:
        train, held_out = _held_out(file, train, test_share)
    train, held_out = files.with_same_width(file, train, held_out)
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
    if standardize:
        train, held_out = standardized(train, held_out)
    elif (largest := float(np.abs(train[0]).max())) > UNSCALED:
        warnings.warn(
            f"dataset `{file}` has features up to {largest:.3g}, which may be too "
            "large to train on: `--set data.standardize=true` scales them.",
            Notice,
            stacklevel=2,
        )
    return Dataset.of(Path(file).stem, train, held_out)


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


def standardized(train: Arrays, test: Arrays) -> tuple[Arrays, Arrays]:
    """Give every feature mean 0 and variance 1 on the training part."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(train[0])
    return (scaler.transform(train[0]), train[1]), (
        scaler.transform(test[0]),
        test[1],
    )
