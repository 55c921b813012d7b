"""Shards that stay where they are, of which batches are read when they are drawn."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar, final

import numpy as np
import torch
from torch import Tensor

from proxmesh.data.ahead import Ahead, one_ahead
from proxmesh.data.dataset_shard import DatasetShard
from proxmesh.data.reading_rows import read_rows
from proxmesh.data.shards import Samples, require_same_shape, size_of
from proxmesh.errors import InputError

__all__ = ["LazySamples"]

P = TypeVar("P")
CHUNK_BYTES = 16 * 2**20  # of samples that an evaluation holds at once


@final
class Gathered:
    """Samples of several shards, written one after another into their final place."""

    def __init__(self, size: int) -> None:
        self.tensors: tuple[Tensor, ...] = ()
        self._size = size
        self._filled = 0

    def add(self, part: Samples) -> None:
        """Write more samples behind those that are there."""
        more = (*part.inputs, part.targets)
        if len(part) == self._size:  # nothing else will come
            self.tensors = more
            return
        if not self.tensors:
            self.tensors = tuple(x.new_empty(self._size, *x.shape[1:]) for x in more)
        require_same_shape(self.tensors, more)
        self.tensors = tuple(
            x.to(torch.promote_types(x.dtype, y.dtype))
            for x, y in zip(self.tensors, more, strict=True)
        )
        end = self._filled + len(part)
        for x, y in zip(self.tensors, more, strict=True):
            x[self._filled : end] = y
        self._filled = end


@final
class LazySamples:
    """Samples of several shards, one after another, read by index.

    Datasets are read by one thread at a time: what is under way is waited for first.

    Parameters
    ----------
    shards, names
        The shards, and whose they are, for messages.
    cast
        Gives samples the precision and the device that they are used in.
    """

    def __init__(
        self,
        shards: Sequence[DatasetShard],
        names: Sequence[str],
        cast: Callable[[Samples], Samples],
    ) -> None:
        self.shards = tuple(shards)
        self._names = tuple(names)
        self._cast = cast
        self._ends = np.cumsum([len(shard) for shard in shards])
        self._prefetch = all(shard.prefetch for shard in shards)
        self._ahead = Ahead()
        self._classes: int | None = None
        first = self.take(torch.zeros(1, dtype=torch.int64))
        self.device = first.targets.device
        self.at_once = max(1, CHUNK_BYTES // max(1, size_of(first)))

    def __len__(self) -> int:
        return int(self._ends[-1])

    def expect_labels(self, classes: int) -> None:
        """Refuse a target that is no label of so many classes, once it is read."""
        self._classes = classes

    def take(self, rows: Tensor) -> Samples:
        """Read rows, with nothing random; the result has their shape in front."""
        self._ahead.wait()
        return self._read(rows)

    def draw(
        self, key: Hashable, drawn: Callable[[], tuple[Tensor, Tensor]]
    ) -> Samples:
        """Read the rows and seeds that a function draws, unless `prepare` has."""
        return self._ahead.get(key, lambda: self._read(*drawn()))

    def prepare(
        self, key: Hashable, drawn: Callable[[], tuple[Tensor, Tensor]]
    ) -> None:
        """Begin to read, in a thread, what will be drawn next."""
        if self._prefetch:
            self._ahead.start(key, lambda: self._read(*drawn()))

    def pieces(
        self, pieces: Iterable[P], rows: Callable[[P], Tensor]
    ) -> Iterator[tuple[P, Samples]]:
        """Read many pieces in turn, the next one in a thread while one is used."""
        self._ahead.wait()

        def read(piece: P) -> Samples:
            return self._read(rows(piece))

        if self._prefetch:
            yield from one_ahead(read, pieces)
        else:
            yield from ((piece, read(piece)) for piece in pieces)

    def slices(self, size: int) -> Iterator[Samples]:
        """Read everything in consecutive pieces of at most `size`."""
        size = min(size, self.at_once)
        starts = range(0, len(self), size)
        found = self.pieces(starts, lambda a: torch.arange(a, min(a + size, len(self))))
        return (samples for _, samples in found)

    def stop(self) -> None:
        """Wait for what is under way, and forget it."""
        self._ahead.stop()

    def _read(self, rows: Tensor, seeds: Tensor | None = None) -> Samples:
        flat = rows.reshape(-1).cpu().numpy()
        owners = np.searchsorted(self._ends, flat, side="right")
        drawn = None if seeds is None else seeds.reshape(-1).tolist()
        found = Gathered(len(flat))
        with torch.no_grad():
            for owner, group in groupby(range(len(flat)), owners.__getitem__):
                shard, where = self.shards[owner], list(group)
                begin = self._ends[owner] - len(shard)
                own = (flat[where] - begin).tolist()
                luck = None if drawn is None else [drawn[i] for i in where]
                part = read_rows(shard, own, self._names[owner], luck)
                self._check(part, own, self._names[owner])
                found.add(self._cast(part))
        *inputs, targets = (x.view(*rows.shape, *x.shape[1:]) for x in found.tensors)
        return Samples(tuple(inputs), targets)

    def _check(self, samples: Samples, rows: Sequence[int], who: str) -> None:
        """Refuse what no model can be trained on."""
        for name, parts in (("inputs", samples.inputs), ("target", (samples.targets,))):
            for x in parts:
                if not x.is_floating_point() or bool(torch.isfinite(x.sum())):
                    continue  # the sum takes no memory; finite, it tells all
                bad = ~torch.isfinite(x).reshape(len(x), -1).all(1)
                if bool(bad.any()):
                    index = rows[int(bad.nonzero()[0])]
                    raise InputError(
                        f"{who}, sample {index}: nan or an infinite number in its "
                        f"{name}. Remove or replace it."
                    )
        if self._classes is not None:
            labels = samples.targets
            bad = (labels < 0) | (labels >= self._classes)
            if bool(bad.any()):
                i = int(bad.nonzero()[0])
                raise InputError(
                    f"{who}, sample {rows[i]}: its label is {int(labels[i])} but the "
                    f"model has {self._classes} outputs; labels must be 0 .. "
                    f"{self._classes - 1}."
                )
