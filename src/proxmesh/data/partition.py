"""Who holds which samples: ways to split a training set over agents."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxmesh.checks import require_positive, require_whole
from proxmesh.construct import construct
from proxmesh.errors import InputError, unknown

__all__ = [
    "SPLITS",
    "by_label",
    "contiguous",
    "dirichlet",
    "partition",
    "shuffled",
    "unequal",
]

Index = NDArray[np.int64]
REDRAWS = 100  # of a Dirichlet split before giving up


def contiguous(labels: Index, n: int, seed: int = 0) -> list[Index]:
    """Cut the rows in order into n blocks of floor(N / n), as the papers do.

    The last N mod n rows are not used.

    Parameters
    ----------
    labels
        Of the training set, ``[N]``.
    n
        Number of agents.
    seed
        Has no effect: nothing is drawn.

    Examples
    --------
    >>> contiguous(np.array([1, 0, 1, 0, 1]), 2)
    [array([0, 1]), array([2, 3])]
    """
    del seed
    return _blocks(np.arange(len(labels)), n)


def shuffled(labels: Index, n: int, seed: int = 0) -> list[Index]:
    """Shuffle, then cut into n blocks of floor(N / n): IID agents.

    Parameters
    ----------
    labels
        Of the training set, ``[N]``.
    n
        Number of agents.
    seed
        Of the shuffle.

    Examples
    --------
    >>> [sorted(part.tolist()) for part in shuffled(np.array([1, 0, 1, 0]), 2)]
    [[0, 2], [1, 3]]
    """
    return _blocks(np.random.default_rng(seed).permutation(len(labels)), n)


def by_label(labels: Index, n: int, seed: int = 0) -> list[Index]:
    """Sort by label, then cut into n blocks: most agents see one or two classes only.

    Parameters
    ----------
    labels
        Of the training set, ``[N]``.
    n
        Number of agents.
    seed
        Has no effect: nothing is drawn.

    Examples
    --------
    >>> by_label(np.array([1, 0, 1, 0]), 2)
    [array([1, 3]), array([0, 2])]
    """
    del seed
    return _blocks(np.argsort(labels, kind="stable"), n)


def dirichlet(labels: Index, n: int, seed: int = 0, alpha: float = 0.5) -> list[Index]:
    """Share out each class by Dirichlet(alpha) proportions: small alpha, more skew.

    Draws that leave an agent without samples are repeated.

    Parameters
    ----------
    labels
        Of the training set, ``[N]``.
    n
        Number of agents.
    seed
        Of the draws.
    alpha
        Concentration: 0.1 leaves most agents a few classes, 100 is almost IID.

    Examples
    --------
    >>> sizes = [len(part) for part in dirichlet(np.arange(60) % 3, 4, alpha=0.3)]
    >>> sum(sizes), max(sizes) > 2 * min(sizes)
    (60, True)
    """
    require_positive("split `dirichlet`", alpha=alpha)
    rng = np.random.default_rng(seed)
    classes = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    for _ in range(REDRAWS):
        parts: list[list[Index]] = [[] for _ in range(n)]
        for rows in classes:
            share = rng.dirichlet(np.full(n, alpha)).cumsum()[:-1]
            cuts = (share * len(rows)).astype(int)
            for part, piece in zip(
                parts, np.split(rng.permutation(rows), cuts), strict=True
            ):
                part.append(piece)
        shards = [np.sort(np.concatenate(part)) for part in parts]
        if all(len(shard) for shard in shards):
            return shards
    raise InputError(
        f"split `dirichlet`: {REDRAWS} draws with alpha={alpha} all left one of {n} "
        "agents without samples. Raise `alpha` or lower the number of agents."
    )


def unequal(
    labels: Index, n: int, seed: int = 0, sizes: Sequence[int] | None = None
) -> list[Index]:
    """Cut shuffled rows into blocks of given sizes, or growing ones 1 : 2 : ... : n.

    Parameters
    ----------
    labels
        Of the training set, ``[N]``.
    n
        Number of agents.
    seed
        Of the shuffle.
    sizes
        Rows of each agent; what is left over belongs to nobody.

    Examples
    --------
    >>> [len(rows) for rows in unequal(np.zeros(60), 3)]
    [10, 20, 30]
    """
    rows = np.random.default_rng(seed).permutation(len(labels))
    if sizes is None:
        ends = (np.arange(1, n + 1).cumsum() * len(rows)) // (n * (n + 1) // 2)
    else:
        if len(sizes) != n or min(sizes) < 1 or sum(sizes) > len(rows):
            raise InputError(
                f"split `unequal`: `sizes` must be {n} positive numbers with a sum of "
                f"at most {len(rows)}, got {list(sizes)}."
            )
        ends = np.cumsum(sizes)
    return [rows[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


SPLITS: Mapping[str, Callable[..., list[Index]]] = {
    "contiguous": contiguous,
    "shuffled": shuffled,
    "by-label": by_label,
    "dirichlet": dirichlet,
    "unequal": unequal,
}
"""Every split by its command-line name."""


def partition(
    labels: Index, n: int, split: str = "contiguous", **options: Any
) -> list[Index]:
    """Return the rows of each agent, by the name of the split.

    Parameters
    ----------
    labels
        Of the training set, ``[N]``.
    n
        Number of agents, at most N.
    split
        One of `SPLITS`.
    options
        Of the split: ``seed``, ``alpha`` for dirichlet, ``sizes`` for unequal.

    Examples
    --------
    >>> partition(np.array([1, 0, 1, 0]), 2, "by-label")
    [array([1, 3]), array([0, 2])]
    """
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    if n > len(labels):
        raise InputError(
            f"split `{split}`: {n} agents but only {len(labels)} training samples; "
            "every agent needs one. Lower the number of agents."
        )
    require_whole(f"split `{split}`", 0, seed=options.get("seed"))
    require_whole(f"split `{split}`", 1, n=n)
    shards = construct(f"split `{split}`", SPLITS[split], options, labels, n)
    for agent, shard in enumerate(shards):
        if not len(shard):
            raise InputError(
                f"split `{split}` leaves agent {agent} without samples. Lower the "
                "number of agents or choose another split."
            )
    return shards


def _blocks(rows: Index, n: int) -> list[Index]:
    size = len(rows) // n
    return [rows[i * size : (i + 1) * size] for i in range(n)]
