"""Any `nn.Module` and loss as local objectives f_i, with a regularizer h."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from torch import Tensor, nn

from proxmesh.checks import require_whole
from proxmesh.data.opening import Opened, open_all
from proxmesh.data.shards import Samples, Shard, Shards
from proxmesh.data.sparse import SparseWay
from proxmesh.errors import InputError, unknown
from proxmesh.problems.batch_gradients import BatchGradients
from proxmesh.problems.channels import has_images
from proxmesh.problems.differentiated import Differentiated
from proxmesh.problems.fit_check import Loss, check_batch_size, require_fit
from proxmesh.problems.given import require_given
from proxmesh.problems.gradient_ways import (
    AskedSparse,
    AskedWay,
    GradientWays,
    Paired,
    Vectorize,
)
from proxmesh.problems.initial_rows import initial_rows
from proxmesh.problems.layout import Layout
from proxmesh.problems.local_shards import LocalShards, agents_of, number_of_agents
from proxmesh.problems.regularized import Regularized
from proxmesh.problems.regularizers import (
    NeedsLayout,
    NoRegularizer,
    Regularizer,
    bind_to_layout,
)
from proxmesh.problems.sparse_form import in_suited_form
from proxmesh.problems.stacked_model import PRECISIONS, LossOfRow, Precision
from proxmesh.problems.stateful_layers import refuse_stateful
from proxmesh.problems.whole_shards import evaluate, held_out_scores
from proxmesh.types import Evaluation

__all__ = ["LearningProblem"]


@final
class LearningProblem(Regularized, Differentiated):
    """Train a model on shards that stay with their agents.

    Row i of every stacked tensor holds the trainable parameters of agent i's copy of
    the model; ``f_i`` is the mean loss over its shard.

    Parameters
    ----------
    model
        Any module; its frozen parameters stay as they are and out of the rows.
        Gradients are taken in the mode it is in, evaluations in eval mode. Dropout
        draws its masks with the batch; BatchNorm that trains is refused, see `pm.nn`.
    loss
        ``loss(outputs, targets)``, reduced by the mean; like the model, a pure
        function, whose gradient is recorded once and replayed.
    shards
        One ``(inputs, targets)`` or map-style Dataset per agent: a sequence, a mapping
        from agent ids, or a callable ``agent -> shard`` that is called when needed.
        Inputs are a tensor, a tuple of tensors (the model's positional arguments), or
        a sparse matrix of scipy, for a model that begins with `pm.models.SparseLinear`.
        `proxmesh.DatasetShard` reads what is larger than memory batch by batch.
    test
        Held-out data in the same form, for the test columns of the history.
    regularizer
        h; see `proxmesh.problems.regularizers`.
    batch_size, seed
        Samples per agent in a minibatch, drawn with replacement; the seed of the draws.
    vectorize, paired
        How the gradients of all agents are taken: together in one `torch.func.vmap`
        (``"vmap"`` or True), by rules that keep them in the channels of images
        (``"channels"``), or agent by agent (False); and whether the two gradients of a
        recursive estimator share one pass. ``"auto"``: the fastest that the model
        allows, timed once and remembered; all are exact.
    chunk_size
        Samples in flight at once: bounds the memory of activations.
    precision
        ``"bfloat16"``: the model computes minibatch gradients in `torch.autocast`;
        rows, loss, curvature and evaluations stay in ``"full"`` precision.
    sparse
        How `pm.models.SparseLinear` multiplies by samples that are mostly 0:
        ``"kernel"``, a small compiled one, ``"gather"`` in torch, or as ``"dense"``
        ones. ``"auto"``: the fastest, timed once and remembered; all are exact.

    Examples
    --------
    >>> import torch
    >>> shards = [(torch.randn(20, 3), torch.arange(20) % 2) for _ in range(4)]
    >>> problem = LearningProblem(nn.Linear(3, 2), nn.functional.cross_entropy, shards)
    >>> x = problem.x0()
    >>> x.shape, problem.grad(x, problem.sample(1)).shape
    (torch.Size([4, 8]), torch.Size([4, 8]))
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        shards: Shards,
        *,
        test: Shard | None = None,
        regularizer: Regularizer | NeedsLayout | None = None,
        batch_size: int = 16,
        seed: int = 0,
        vectorize: Vectorize = "auto",
        paired: Paired = "auto",
        chunk_size: int = 4096,
        precision: Precision = "full",
        sparse: AskedSparse = "auto",
    ) -> None:
        who = "LearningProblem"
        require_whole(who, 1, batch_size=batch_size, chunk_size=chunk_size)
        require_whole(who, 0, seed=seed)
        self._asked = AskedWay(vectorize, paired, sparse=sparse)
        if precision not in PRECISIONS:
            raise unknown("value", precision, PRECISIONS, "`precision`")
        self._autocast = PRECISIONS[precision]
        refuse_stateful(model)
        require_given(loss, shards)
        self.layout = Layout.of(model)
        self.p = self.layout.p
        self.batch_size = batch_size
        self.seed = seed
        self.chunk_size = chunk_size
        self.regularizer = bind_to_layout(regularizer or NoRegularizer(), self.layout)
        self._model = copy.deepcopy(model)
        self._loss = loss
        self.dtype = self.layout.dtype
        self.device = self.layout.flatten(model).device
        self._test = None
        if test is not None:
            self._test = self._opened([test], ["test set"])[0]
        self.agents: tuple[int, ...] = ()  # none until their shards are opened
        self.num_agents = number_of_agents(shards)
        self._get_shard = shards if callable(shards) else None
        if not callable(shards):
            self._open(agents_of(shards), shards.__getitem__)

    def __repr__(self) -> str:
        held = f"{len(self.agents)} agents" if self.agents else "not opened"
        return (
            f"LearningProblem({type(self._model).__name__} with {self.p:,} parameters, "
            f"{held}, batch_size={self.batch_size}, {self.regularizer})"
        )

    # -- the agents of this process --------------------------------------------------

    def local(self, agents: Sequence[int]) -> "LearningProblem":
        """Return the problem of these agents alone, opening their shards only.

        Parameters
        ----------
        agents
            Their ids, in the order of the rows.

        Examples
        --------
        >>> import torch
        >>> shards = [(torch.randn(9, 3), torch.arange(9) % 2) for _ in range(4)]
        >>> model, loss = nn.Linear(3, 2), nn.functional.cross_entropy
        >>> LearningProblem(model, loss, shards, batch_size=4).local([1, 2]).x0().shape
        torch.Size([2, 8])
        """
        agents = tuple(agents)
        if agents == self.agents:
            return self
        mine = copy.copy(self)
        if self._get_shard is not None:
            mine._open(agents, self._get_shard)
            return mine
        missing = set(agents) - set(self.agents)
        if missing:
            raise InputError(
                f"LearningProblem: `shards` has no agent {min(missing)}; it holds "
                f"{len(self.agents)} agents."
            )
        mine._open(agents, self.local_shards.of_agent)
        return mine

    def reseeded(self, seed: int) -> "LearningProblem":
        """The same problem with other draws; the model keeps its values.

        Parameters
        ----------
        seed
            Of the draws, and of initial rows that are different for each agent.
        """
        require_whole("LearningProblem", 0, seed=seed)
        mine = copy.copy(self)
        mine.seed = seed
        if mine.agents:
            mine.local_shards = self.local_shards.reseeded(seed)
        return mine

    def _open(self, agents: tuple[int, ...], get: Callable[[int], Shard]) -> None:
        names = [f"agent {agent}" for agent in agents]
        opened = [get(agent) for agent in agents]
        samples, sizes = self._opened(opened, names)
        check_batch_size(self.batch_size, agents, sizes, self.num_agents)
        self.agents = agents
        self.local_shards = LocalShards.of(agents, sizes, samples, self.seed)
        fit = require_fit(self._model, self._loss, samples, self._test)
        of_row = LossOfRow(self._model, self._loss, self.layout, fit, self._autocast)
        self.ways = GradientWays(of_row, self.chunk_size)
        few = self.local_shards.first(2, 2, fit.draws)
        self._possible = self.ways.possible(self._asked, few)
        self._gradients: BatchGradients | None = None  # made when its way is chosen

    def _opened(
        self, shards: Sequence[Shard], names: Sequence[str]
    ) -> tuple[Opened, list[int]]:
        """Samples in the form that the model takes, and how many of each shard."""
        samples, sizes = open_all(shards, names, self._cast)
        dense = self._asked.sparse == "dense"
        return in_suited_form(self._model, samples, as_they_are=dense), sizes

    def _cast(self, samples: Samples) -> Samples:
        return self.layout.cast(samples, self.device)

    def _require_open(self) -> None:
        if not self.agents:
            raise InputError(
                "LearningProblem: `shards` is a callable, so the agents are not known "
                "yet. Use `problem = problem.local(world.agents)` first."
            )

    # -- the problem that an algorithm sees ------------------------------------------

    @property
    def architecture(self) -> str:
        """The model's layers, as text."""
        return repr(self._model)

    @property
    def convolves(self) -> bool:
        """Whether the model has convolutions, which take most of its time."""
        return has_images(self._model)

    @property
    def lazy(self) -> bool:
        """Whether batches are read when they are drawn; see `DatasetShard`."""
        return bool(self.agents) and self.local_shards.lazy

    def stop_reading(self) -> None:
        """Wait for the batch that is read ahead, if there is one, and forget it."""
        if self.agents:
            self.local_shards.stop()

    @property
    def num_samples(self) -> int:
        """Training samples of the local agents."""
        return len(self.local_shards.samples)

    @property
    def sample_shape(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of one sample's inputs and target."""
        one = self.local_shards.first(1, 1, noise=False)
        return (*(shape[2:] for shape in one.shapes), tuple(one.targets.shape[2:]))

    def sample(
        self, k: int | Tensor, size: int | None = None, stream: int = 0
    ) -> Samples:
        """Draw the minibatch of iteration k for every local agent.

        Parameters
        ----------
        k
            The iteration; the same k draws the same batch.
        size
            Samples per agent; `batch_size` if not given.
        stream
            Another number draws an independent batch.
        """
        self._require_open()
        usual, noise = size is None and stream == 0, self.ways.of_row.fit.draws
        size = size or self.batch_size
        return self.local_shards.draw(k, size, stream, noise=noise, ahead=usual)

    @property
    def sparse(self) -> SparseWay | None:
        """How the model multiplies by sparse samples; None: they are dense."""
        self._require_open()
        sparse = self.ways.of_row.fit.features is not None
        return self.gradients.model.sparse if sparse else None

    # -- what a run starts from and ends with ----------------------------------------

    def x0(self, init: str = "same") -> Tensor:
        """Return initial rows: the model's own values, or fresh ones for each agent.

        Parameters
        ----------
        init
            ``"same"``, or ``"different"``: call `reset_parameters` of every layer under
            a separate seed for each agent, which is the same on every engine.
        """
        self._require_open()
        return initial_rows(self._model, self.layout, self.agents, init, self.seed)

    def module(self, row: Tensor) -> nn.Module:
        """Return a copy of the model with the parameters of a row, in eval mode.

        Parameters
        ----------
        row
            One agent's, or a mean of several, ``[p]``.
        """
        model = copy.deepcopy(self._model).eval()
        self.layout.write(row, model)
        return model

    # -- whole shards, for metrics ---------------------------------------------------

    def full_grad(self, x: Tensor) -> Tensor:
        """Row i: gradient of f_i at x_i over the whole shard.

        Parameters
        ----------
        x
            Rows of the local agents, ``[n_local, p]``.
        """
        gradient = self.evaluate(x).grad
        assert gradient is not None
        return gradient

    def value(self, x: Tensor) -> Tensor:
        """f_i(x_i) over the whole shard, ``[n_local]``.

        Parameters
        ----------
        x
            Rows of the local agents, ``[n_local, p]``.
        """
        loss = self.evaluate(x).loss
        assert loss is not None
        return loss

    def evaluate(self, x: Tensor) -> Evaluation:
        """Gradient, loss and accuracy over whole shards in one pass, in chunks.

        Parameters
        ----------
        x
            Rows of the local agents, ``[n_local, p]``.
        """
        return evaluate(self.gradients.model, self.local_shards, x, self.chunk_size)

    def test(self, x_mean: Tensor) -> Mapping[str, float]:
        """Loss and accuracy on the test set at one row; empty without a test set.

        Parameters
        ----------
        x_mean
            Parameters of one model, ``[p]``.
        """
        if self._test is None:
            return {}
        return held_out_scores(
            self.gradients.model, self._test, x_mean, self.chunk_size
        )

    # -- all agents at once ----------------------------------------------------------

    def taken_in(self, ways: Mapping[str, Any]) -> "LearningProblem":
        """The same problem, its gradients taken in ways that were chosen before.

        Parameters
        ----------
        ways
            What `taken` has told; nothing: they are chosen.
        """
        mine = copy.copy(self)
        if ways:
            mine._asked = AskedWay(**ways)
        if mine.agents:
            few = self.local_shards.first(2, 2, self.ways.of_row.fit.draws)
            mine._possible = self.ways.possible(mine._asked, few)
        return mine

    @property
    def gradients(self) -> BatchGradients:
        """What takes the minibatch gradients, in the way that was chosen."""
        if self._gradients is None:
            work = len(self.agents) * self.batch_size * self.p
            self._gradients = self.ways.choose(
                self._possible,
                work,
                len(self.agents),
                lambda: (self.x0(), self.sample(0)),
            )
        return self._gradients
