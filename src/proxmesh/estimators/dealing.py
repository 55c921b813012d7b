"""Which agent gets which rows of X; every row is somebody's."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from proxmesh.data.partition import partition
from proxmesh.errors import InputError
from proxmesh.limits import readable, require_memory

__all__ = ["Split", "dealt", "dense", "large_and_sparse", "tenths"]

Index: TypeAlias = NDArray[np.int64]
Split: TypeAlias = str | Callable[..., Sequence[Any]]
"""A name, or ``split(labels, agents, seed=seed)``: the rows of each agent."""

LARGEST = 2**30  # bytes that a sparse table may take once it is dense


def dealt(
    who: str, labels: NDArray[Any], agents: int, split: Split, seed: int
) -> list[Index]:
    """The rows of each agent.

    Parameters
    ----------
    who
        The estimator, for messages.
    labels
        Of all rows, ``[N]``.
    agents
        How many. Of fewer rows than agents every agent gets all.
    split
        How.
    seed
        Of the draws.

    Examples
    --------
    >>> [rows.tolist() for rows in dealt("me", np.zeros(5), 2, "contiguous", seed=0)]
    [[0, 1], [2, 3, 4]]
    >>> [rows.tolist() for rows in dealt("me", np.zeros(2), 3, "contiguous", seed=0)]
    [[0, 1], [0, 1], [0, 1]]
    """
    everything = np.arange(len(labels))
    if len(labels) < agents:
        return [everything] * agents
    if callable(split):
        own = [np.asarray(rows) for rows in split(labels, agents, seed=seed)]
        _require_rows(who, own, agents, len(labels))
        return own
    shards = partition(labels, agents, split, seed=seed)
    # Blocks of equal size leave up to agents - 1 rows over: one more for the last ones.
    left = np.setdiff1d(everything, np.concatenate(shards))
    for row, agent in zip(left, range(agents - len(left), agents), strict=True):
        shards[agent] = np.append(shards[agent], row)
    return shards


def tenths(target: NDArray[Any]) -> Index:
    """Labels 0 .. 9 for numbers, by their rank, so that agents can differ in them.

    Parameters
    ----------
    target
        ``[N]``.

    Examples
    --------
    >>> tenths(np.array([3.0, -1.0, 2.0, 9.0, 5.0]))
    array([4, 0, 2, 8, 6])
    """
    ranks = np.argsort(np.argsort(target, kind="stable"), kind="stable")
    return ranks * 10 // len(target)


def large_and_sparse(table: Any) -> bool:
    """Whether a table is sparse, and too large to be made dense.

    Parameters
    ----------
    table
        ``[N, features]``, sparse or not.

    Examples
    --------
    >>> large_and_sparse(sparse.eye_array(2))
    False
    """
    return sparse.issparse(table) and _dense_size(table) > LARGEST


def _dense_size(table: Any) -> int:
    """Bytes that a sparse table takes as a dense one."""
    return int(table.shape[0] * table.shape[1] * table.dtype.itemsize)


def dense(who: str, table: Any) -> NDArray[Any]:
    """A table as an array; a sparse one only if it is small enough.

    Parameters
    ----------
    who
        The estimator, for messages.
    table
        ``[N, features]``, sparse or not.

    Examples
    --------
    >>> dense("me", sparse.eye_array(2))
    array([[1., 0.],
           [0., 1.]])
    """
    if not sparse.issparse(table):
        array: NDArray[Any] = table
        return array
    given: Any = table
    size = _dense_size(given)
    remedy = (
        'Take a model that begins with `pm.models.SparseLinear`, such as "linear" or '
        '"mlp", or fewer columns.'
    )
    name = f"{who}: sparse `X` of {given.shape[0]:,} x {given.shape[1]:,}"
    if size > LARGEST:
        raise InputError(
            f"{name} takes {readable(size)} as the dense array that it is trained on, "
            f"more than {readable(LARGEST)}. {remedy}"
        )
    require_memory(name, size, remedy)
    return given.toarray()  # type: ignore[no-any-return]


def _require_rows(who: str, own: Sequence[Index], agents: int, most: int) -> None:
    """Refuse what a split of the user's own must not return."""
    if len(own) != agents:
        raise InputError(
            f"{who}: `split` must return the rows of {agents} agents, got {len(own)}."
        )
    for agent, rows in enumerate(own):
        right = rows.ndim == 1 and len(rows) and np.issubdtype(rows.dtype, np.integer)
        if not right or rows.min() < 0 or rows.max() >= most:
            raise InputError(
                f"{who}: `split` must give every agent at least one row of 0 .. "
                f"{most - 1}, as an array of whole numbers; not so for agent {agent}."
            )
