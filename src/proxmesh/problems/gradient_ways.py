"""The exact ways to take the gradients of all agents, and the choice among them."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, final

from torch import Tensor

from proxmesh.data.shards import Samples
from proxmesh.data.sparse import SparseWay
from proxmesh.errors import Notice, unknown
from proxmesh.problems.batch_gradients import BatchGradients
from proxmesh.problems.channels import has_images
from proxmesh.problems.fastest_way import fastest
from proxmesh.problems.fit_check import name_of
from proxmesh.problems.sparse_kernel import has_kernel
from proxmesh.problems.sparse_linear import MOST_DENSE
from proxmesh.problems.stacked_model import LossOfRow, StackedModel, Way

__all__ = ["AskedSparse", "AskedWay", "GradientWays", "Paired", "Vectorize"]

Vectorize: TypeAlias = bool | Literal["auto", "vmap", "channels"]
Paired: TypeAlias = bool | Literal["auto"]
AskedSparse: TypeAlias = Literal["auto"] | SparseWay

VECTORIZE = ("auto", "vmap", "channels", True, False)
PAIRED = ("auto", True, False)
SPARSE = ("auto", "dense", "gather", "kernel")
WORTH_TIMING = 2e7  # parameters x samples of a batch
WORTH_TIMING_ALONE = 2e6  # of one agent: it may keep the machine busy by itself
TOO_LARGE_FOR_PAIRS = 1e9  # a pass is all products then, and a pair needs more memory


@final
@dataclass(frozen=True, slots=True)
class AskedWay:
    """What the user asked for; `LearningProblem` explains all.

    Parameters
    ----------
    vectorize
        Together, in the channels of images, or agent by agent.
    paired
        Whether the two gradients of a recursive estimator share one pass.
    reason
        Why, where the user has the last word.
    sparse
        How the model multiplies by sparse samples.
    """

    vectorize: Vectorize
    paired: Paired
    reason: str = "as was asked for"
    sparse: AskedSparse = "auto"

    def __post_init__(self) -> None:
        if self.vectorize not in VECTORIZE:
            raise unknown("value", self.vectorize, map(str, VECTORIZE), "`vectorize`")
        if self.paired not in PAIRED:
            raise unknown("value", self.paired, map(str, PAIRED), "`paired`")
        if self.sparse not in SPARSE:
            raise unknown("value", self.sparse, SPARSE, "`sparse`")

    def candidates(
        self, images: bool, work: float, agents: int
    ) -> list[tuple[Way, bool]]:
        """List the ways that may be taken, and whether in pairs.

        Parameters
        ----------
        images
            Whether the model convolves, so that there are two ways to stack agents.
        work
            Parameters times samples of a batch: too little is not worth timing.
        agents
            Whose work that is.
        """
        if self.vectorize is False:
            return [("loop", False)]
        ways: list[Way] = ["vmap"]
        if self.vectorize == "channels":
            ways = ["channels"]
        elif self.vectorize == "auto" and images:
            ways = ["vmap", "channels"]
        pairs = [True, False] if self.paired == "auto" else [bool(self.paired)]
        if len(ways) == 1 and work < WORTH_TIMING:
            pairs = pairs[:1]
        elif work > TOO_LARGE_FOR_PAIRS:
            pairs = pairs[-1:]
        found = [(way, pair) for way in ways for pair in pairs]
        if self.vectorize == "auto" and work > WORTH_TIMING_ALONE * agents:
            found.append(("loop", False))
        return found

    def sparse_ways(self, work: float, like: Tensor) -> list[SparseWay]:
        """List the ways in which a layer may multiply by sparse samples.

        Parameters
        ----------
        work
            Numbers of a batch of all agents, the zeros among them.
        like
            A tensor of the precision and on the device of the rows.
        """
        if self.sparse != "auto":
            return [self.sparse]
        found: list[SparseWay] = ["kernel"] if has_kernel(like) else ["gather"]
        if work <= MOST_DENSE:
            found += ["dense"] if found == ["gather"] else ["gather", "dense"]
        return found


@final
@dataclass(frozen=True, slots=True, eq=False)
class GradientWays:
    """All ways for one model.

    Parameters
    ----------
    of_row
        What is evaluated at every row.
    chunk_size
        Samples in flight at once.
    """

    of_row: LossOfRow
    chunk_size: int

    def by(
        self,
        way: Way,
        paired: bool = False,
        reason: str = "",
        sparse: SparseWay = "gather",
    ) -> BatchGradients:
        """Take one of them."""
        stacked = StackedModel(self.of_row, way, sparse)
        return BatchGradients(stacked, paired, self.chunk_size, reason)

    def possible(self, asked: AskedWay, batch: Samples) -> AskedWay:
        """Try whether `vmap` takes the model, unless the user says so.

        Parameters
        ----------
        asked
            What to return if it does.
        batch
            To try it on.
        """
        if asked.vectorize != "auto":
            return asked
        model = self.of_row.model
        rows = self.of_row.layout.flatten(model).repeat(len(batch), 1)
        try:
            self.by("vmap").model.grads(rows, batch)
        except Exception as error:  # vmap's refusals have many types
            reason = str(error).strip().splitlines()[0][:120]
            warnings.warn(
                f"model `{type(model).__name__}` runs agent by agent, since vmap "
                f"cannot take it: {reason}",
                Notice,
                stacklevel=4,
            )
            reason = f"vmap cannot take the model: {reason}"
            return AskedWay(False, False, reason, asked.sparse)
        return asked

    def choose(
        self,
        asked: AskedWay,
        work: float,
        agents: int,
        example: Callable[[], tuple[Tensor, Samples]],
    ) -> BatchGradients:
        """Take what was asked for; of several ways the fastest, timed and remembered.

        Parameters
        ----------
        asked
            What the user asked for, if it is possible.
        work, agents
            Parameters times samples of a batch, and how many agents share that.
        example
            Makes the rows and the batch to time two gradients on, if need be.
        """
        candidates = asked.candidates(has_images(self.of_row.model), work, agents)
        features, row = self.of_row.fit.features, self.of_row.layout
        sparse_ways: list[SparseWay] = ["gather"]
        if features is not None:
            candidates = [c for c in candidates if c[0] != "loop"] or candidates
            like = row.flatten(self.of_row.model)
            sparse_ways = asked.sparse_ways(work / row.p * features, like)
        reason = asked.reason
        number = len(candidates) * len(sparse_ways)
        if len(candidates) > 1 or (number > 1 and asked.vectorize == "auto"):
            reason = f"the fastest of {number} ways on this machine"
        elif asked.vectorize == "auto":
            reason = "vmap takes the model, and its work is too little to time others"
        ways = {
            f"{way}, paired {pair}, {sparse}": self.by(way, pair, reason, sparse)
            for sparse in sparse_ways
            for way, pair in candidates
        }
        if len(ways) == 1:
            return next(iter(ways.values()))
        x, batch = example()
        trials = {n: partial(way.grad_pair, x, x, batch) for n, way in ways.items()}
        shapes = [tuple(x.shape), tuple(batch.targets.shape), *batch.shapes]
        of_row = self.of_row
        facts = [x.dtype, x.device, self.chunk_size, name_of(of_row.loss), shapes]
        if of_row.autocast is not None:
            facts.append(of_row.autocast)
        if batch.table is not None:  # entries of a row, about
            facts.append(round(len(batch.table.columns) / len(batch.table), 1))
        return ways[fastest(trials, repr(of_row.model), *map(str, facts))]
