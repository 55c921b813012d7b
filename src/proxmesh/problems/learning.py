"""Any `nn.Module` and loss as local objectives f_i, with a regularizer h."""

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, final

import torch
from torch import Tensor, nn

from proxmesh.checks import require_whole
from proxmesh.data.shards import (
    Samples,
    Shard,
    Shards,
    Stored,
    concatenate,
    open_shard,
)
from proxmesh.errors import InputError, Notice, unknown
from proxmesh.problems.channels import has_images
from proxmesh.problems.fastest_way import fastest
from proxmesh.problems.fit_check import Loss, fits_as_classifier, name_of
from proxmesh.problems.layout import Layout
from proxmesh.problems.regularizers import NoRegularizer, bound
from proxmesh.problems.sampling import Sampler, derived_seed
from proxmesh.problems.stacked import StackedModel, Way
from proxmesh.problems.stateful_layers import refuse_stateful
from proxmesh.types import Evaluation

__all__ = ["LearningProblem"]

INITS = ("same", "different")
VECTORIZE = ("auto", "vmap", "channels", True, False)
EVALUATION_WIDTH = 256  # samples of an agent in a pass, when many agents share it
CALIBRATED_WORK = 2e7  # parameters x samples of a batch; less is not worth timing


@final
class LearningProblem:
    """Train a model on shards that stay with their agents.

    Row i of every stacked tensor holds the trainable parameters of agent i's copy of
    the model; ``f_i`` is the mean loss over its shard.

    Parameters
    ----------
    model
        Any module; its frozen parameters stay as they are and out of the rows.
        Running statistics and dropout are refused: f_i must be a function of x.
    loss
        ``loss(outputs, targets)``, reduced by the mean; like the model, a pure
        function, of which the gradient is recorded once and replayed.
    shards
        One ``(inputs, targets)`` or map-style Dataset an agent: a sequence, a mapping
        from agent ids, or a callable ``agent -> shard`` that is opened when needed.
        Inputs are a tensor or a tuple of tensors (the model's positional arguments).
    test
        Held-out data in the same form, for the test columns of the history.
    regularizer
        h; see `proxmesh.problems.regularizers`.
    batch_size, seed
        Samples a minibatch, drawn with replacement; the seed of the draws.
    vectorize, paired
        How the gradients of all agents are taken: together in one `torch.func.vmap`
        (``"vmap"`` or True), by rules that keep them in the channels of images
        (``"channels"``), or agent by agent (False); and whether the two gradients of a
        recursive estimator share one pass. ``"auto"``: the fastest that the model
        allows, timed once and remembered; all are exact.
    chunk_size
        Samples in flight at once: bounds the memory of activations.

    Examples
    --------
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
        regularizer: Any = None,
        batch_size: int = 16,
        seed: int = 0,
        vectorize: bool | Literal["auto", "vmap", "channels"] = "auto",
        paired: bool | Literal["auto"] = "auto",
        chunk_size: int = 4096,
    ) -> None:
        who = "LearningProblem"
        require_whole(who, 1, batch_size=batch_size, chunk_size=chunk_size)
        require_whole(who, 0, seed=seed)
        if vectorize not in VECTORIZE:
            raise unknown("value", vectorize, map(str, VECTORIZE), "`vectorize`")
        if paired not in {True, False, "auto"}:
            raise unknown("value", paired, ["True", "False", "auto"], "`paired`")
        refuse_stateful(model)
        self.layout = Layout.of(model)
        self.p = self.layout.p
        self.batch_size = batch_size
        self.seed = seed
        self.chunk_size = chunk_size
        self.regularizer = bound(regularizer or NoRegularizer(), self.layout)
        self._model = copy.deepcopy(model)
        self._loss = loss
        self._shards = shards if callable(shards) else None
        self._vectorize = vectorize
        self._paired = paired
        row = self.layout.flatten(model)
        self.dtype, self.device = row.dtype, row.device
        self._test = None
        if test is not None:
            self._test = open_shard(test, "test set").cast(self.dtype, self.device)
        self.num_agents = _number_of_agents(shards)
        if not callable(shards):
            self._open(_agents_of(shards), shards.__getitem__)

    def __repr__(self) -> str:
        held = f"{len(self.agents)} agents" if hasattr(self, "agents") else "not opened"
        return (
            f"LearningProblem({type(self._model).__name__} with {self.p:,} parameters, "
            f"{held}, batch_size={self.batch_size}, {self.regularizer})"
        )

    # -- the agents of this process ----------------------------------------------

    def local(self, agents: Sequence[int]) -> "LearningProblem":
        """Return the problem of these agents alone, opening their shards only."""
        agents = tuple(agents)
        if agents == getattr(self, "agents", None):
            return self
        if not callable(self._shards):
            missing = set(agents) - set(self.agents)
            if missing:
                raise InputError(
                    f"LearningProblem: `shards` has no agent {min(missing)}; it holds "
                    f"{len(self.agents)} agents."
                )
        mine = copy.copy(self)
        mine._open(agents, self._shards if callable(self._shards) else self._shard)
        return mine

    def _open(self, agents: tuple[int, ...], get: Callable[[int], Shard]) -> None:
        opened = [open_shard(get(agent), f"agent {agent}") for agent in agents]
        sizes = [len(samples) for samples in opened]
        self.agents = agents
        samples = concatenate(opened).cast(self.dtype, self.device)
        self._samples = Stored.of(samples)
        self._sampler = Sampler.over(self.seed, agents, sizes, self.device)
        self._check_sizes(sizes)
        self._classifies = fits_as_classifier(
            self._model, self._loss, samples, self._test
        )
        self._all: StackedModel | None = None  # made when its way is chosen
        self._stackable = self._vectorize is not False and self._can_stack()

    def _shard(self, agent: int) -> Shard:
        """One agent's part of the stacked samples."""
        i = self.agents.index(agent)
        start, size = (int(t[i]) for t in (self._sampler.offsets, self._sampler.sizes))
        rows = torch.arange(start, start + size, device=self.device)
        part = self._samples.take(rows)
        return part.inputs, part.targets

    # -- the problem that an algorithm sees ------------------------------------------

    @property
    def convolves(self) -> bool:
        """Whether the model has convolutions, which take most of its time."""
        return has_images(self._model)

    @property
    def num_samples(self) -> int:
        """Training samples of the local agents."""
        return len(self._samples)

    @property
    def sample_shape(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of one sample's inputs and target."""
        first = torch.zeros(1, 1, dtype=torch.int64, device=self.device)
        one = self._samples.take(first)
        return tuple(tuple(t.shape[2:]) for t in (*one.inputs, one.targets))

    def sample(
        self, k: int | Tensor, size: int | None = None, stream: int = 0
    ) -> Samples:
        """Draw the minibatch of iteration k for every local agent."""
        self._require_open()
        rows = self._sampler.indices(k, size or self.batch_size, stream)
        return self._samples.take(rows)

    def grad(self, x: Tensor, batch: Samples) -> Tensor:
        """Row i: gradient of the mean loss at x_i on agent i's part of the batch."""
        width = batch.targets.shape[1]
        if width > self.chunk_size:
            out = torch.zeros_like(x)
            for piece in self._columns(batch):
                out += self.grad(x, piece) * (piece.targets.shape[1] / width)
            return out
        parts = self._chunks(len(x), batch)
        if len(parts) == 1:
            return self.stacked.grads(x, batch)
        out = torch.empty_like(x)
        for part in parts:
            out[part] = self.stacked.grads(x[part], batch.at(part))
        return out

    def grad_pair(
        self, x: Tensor, x_old: Tensor, batch: Samples
    ) -> tuple[Tensor, Tensor]:
        """Both gradients of a recursive estimator in one pass of twice the rows."""
        if not self.paired or len(self._chunks(2 * len(x), batch)) > 1:
            return self.grad(x, batch), self.grad(x_old, batch)
        both = self.stacked.grads(torch.cat([x, x_old]), batch.doubled())
        return both[: len(x)], both[len(x) :]

    def hvp(self, x: Tensor, u: Tensor, batch: Samples) -> Tensor:
        """Row i: Hessian of the mean loss at x_i on the batch, times u_i."""
        width = batch.targets.shape[1]
        out = torch.zeros_like(x)
        for part in self._chunks(len(x), batch):
            for piece in self._columns(batch.at(part)):
                share = piece.targets.shape[1] / width
                out[part] += self.stacked.products(x[part], u[part], piece) * share
        return out

    def prox(self, z: Tensor, step: Tensor | float) -> Tensor:
        """Row-wise prox of ``step * h``."""
        result: Tensor = self.regularizer.prox(z, step)
        return result

    # -- what a run starts from and ends with ----------------------------------------

    def x0(self, init: str = "same") -> Tensor:
        """Return initial rows: the model's own values, or fresh ones for each agent.

        ``"different"`` calls `reset_parameters` of every layer under a seed of its
        own for each agent, the same on every engine.
        """
        self._require_open()
        if init not in INITS:
            raise unknown("init", init, INITS)
        if init == "same":
            return self.layout.flatten(self._model).repeat(len(self.agents), 1)
        return torch.stack([self._fresh(agent) for agent in self.agents])

    def module(self, row: Tensor) -> nn.Module:
        """Return a copy of the model with the parameters of a row."""
        model = copy.deepcopy(self._model)
        weights = dict(model.named_parameters())
        with torch.no_grad():
            for name, value in self.layout.unflatten(row).items():
                weights[name].copy_(value)
        return model

    # -- whole shards, for metrics ---------------------------------------------------

    def full_grad(self, x: Tensor) -> Tensor:
        """Row i: gradient of f_i at x_i over the whole shard."""
        gradient = self.evaluate(x).grad
        assert gradient is not None
        return gradient

    def value(self, x: Tensor) -> Tensor:
        """f_i(x_i) over the whole shard, ``[n_local]``."""
        loss = self.evaluate(x).loss
        assert loss is not None
        return loss

    def evaluate(self, x: Tensor) -> Evaluation:
        """Gradient, loss and accuracy over whole shards in one pass, in chunks."""
        gradient = torch.zeros_like(x)
        loss = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        hits = torch.zeros_like(loss)
        for agents, rows in self._sweep():
            weight = rows.shape[1] / self._sampler.sizes[agents, 0].to(torch.float64)
            grads, values, correct = self.stacked.measures(
                x[agents], self._samples.take(rows)
            )
            gradient.index_add_(0, agents, grads * weight[:, None].to(x.dtype))
            loss.index_add_(0, agents, values.to(loss.dtype) * weight)
            hits.index_add_(0, agents, correct.to(loss.dtype) * weight)
        scores = {"train_accuracy": hits} if self._classifies else {}
        return Evaluation(grad=gradient, loss=loss, metrics=scores)

    def test(self, x_mean: Tensor) -> Mapping[str, float]:
        """Loss and accuracy on the test set at one row; empty without a test set."""
        if self._test is None:
            return {}
        loss = hits = 0.0
        with torch.no_grad():
            for part in self._test.slices(self.chunk_size):
                value, correct = self.stacked.scored(x_mean, part.inputs, part.targets)
                loss += float(value) * len(part)
                hits += float(correct) * len(part)
        result = {"test_loss": loss / len(self._test)}
        if self._classifies:
            result["test_accuracy"] = hits / len(self._test)
        return result

    def penalty(self, x: Tensor) -> Tensor:
        """h(x_i), ``[rows]``."""
        values: Tensor = self.regularizer.value(x)
        return values

    def subgrad(self, x: Tensor) -> Tensor:
        """Row i: a subgradient of h at x_i, if h has one."""
        subgrad = getattr(self.regularizer, "subgrad", None)
        found: Tensor | None = None if subgrad is None else subgrad(x)
        if found is None:
            kind = type(self.regularizer).__name__
            raise InputError(f"regularizer `{kind}` offers no subgradient.")
        return found

    def distance(self, u: Tensor, y: Tensor) -> Tensor | None:
        """Squared distance of u_i to the subdifferential of h at y_i, if h tells."""
        distance = getattr(self.regularizer, "distance", None)
        return None if distance is None else distance(u, y)

    # -- pieces of a batch and of the shards -----------------------------------------

    def _chunks(self, rows: int, batch: Samples) -> list[slice]:
        """Agents that may be in flight together."""
        at_once = max(1, self.chunk_size // batch.targets.shape[1])
        return [slice(a, a + at_once) for a in range(0, rows, at_once)]

    def _columns(self, batch: Samples) -> Iterator[Samples]:
        """Cut every agent's part of a batch into pieces of at most `chunk_size`."""
        for a in range(0, batch.targets.shape[1], self.chunk_size):
            part = slice(a, a + self.chunk_size)
            yield Samples(
                tuple(x[:, part] for x in batch.inputs), batch.targets[:, part]
            )

    def _sweep(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Walk over all local samples once: agents [a] and their sample rows [a, m].

        Agents whose shard has the same number of samples left go together.
        """
        sizes, offsets = self._sampler.sizes[:, 0], self._sampler.offsets
        longest = int(sizes.max())
        together = min(len(sizes), max(1, self.chunk_size // EVALUATION_WIDTH))
        width = min(longest, self.chunk_size // together)
        agents_at_once = max(1, self.chunk_size // width)
        for start in range(0, longest, width):
            left = (sizes - start).clamp(0, width)
            for count in torch.unique(left).tolist():
                if count == 0:
                    continue
                group = (left == count).nonzero()[:, 0]
                column = torch.arange(start, start + count, device=sizes.device)
                for agents in group.split(agents_at_once):
                    yield agents, offsets[agents] + column

    def _fresh(self, agent: int) -> Tensor:
        model = copy.deepcopy(self._model)
        owners: list[Any] = [
            m for m in model.modules() if hasattr(m, "reset_parameters")
        ]
        reachable = {id(w) for m in owners for w in m.parameters()}
        for name, weight in model.named_parameters():
            if weight.requires_grad and id(weight) not in reachable:
                raise InputError(
                    f'LearningProblem: init="different" cannot draw `{name}`: its '
                    "module has no `reset_parameters`. Add one, or pass own rows."
                )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(self.seed, "init", agent))
            for module in owners:
                module.reset_parameters()
        return self.layout.flatten(model)

    # -- checks, once, when the shards are opened ------------------------------------

    def _require_open(self) -> None:
        if not hasattr(self, "agents"):
            raise InputError(
                "LearningProblem: `shards` is a callable, so the agents are not known "
                "yet. Use `problem = problem.local(world.agents)` first."
            )

    def _check_sizes(self, sizes: list[int]) -> None:
        if self.batch_size > sum(sizes) and len(sizes) == self.num_agents:
            raise InputError(
                f"LearningProblem: `batch_size` is {self.batch_size} but the whole "
                f"training set has {sum(sizes)} samples. Lower it."
            )
        smallest = min(range(len(sizes)), key=sizes.__getitem__)
        if self.batch_size > sizes[smallest]:
            warnings.warn(
                f"batch_size {self.batch_size} exceeds the {sizes[smallest]} samples "
                f"of agent {self.agents[smallest]}: samples repeat within a batch.",
                Notice,
                stacklevel=4,
            )

    # -- all agents at once ----------------------------------------------------------

    def in_way(
        self, vectorize: Literal["vmap", "channels"], paired: bool
    ) -> "LearningProblem":
        """The same problem with its gradients taken together in another way."""
        other = copy.copy(self)
        other._vectorize, other._paired, other._all = vectorize, paired, None
        other._stackable = True
        return other

    @property
    def stacked(self) -> StackedModel:
        """The model with all agents' rows, in the way that is used."""
        if self._all is None:
            self._all, self._paired_now = self._chosen()
        return self._all

    @property
    def paired(self) -> bool:
        """Whether two gradients on one batch are taken in one pass."""
        return self.stacked.way != "loop" and self._paired_now

    def _in_way(self, way: Way) -> StackedModel:
        return StackedModel(self._model, self._loss, self.layout, self._classifies, way)

    def _chosen(self) -> tuple[StackedModel, bool]:
        """The way to go, and whether in pairs: what was asked for, or the fastest."""
        if not self._stackable:
            return self._in_way("loop"), False
        ways: list[Way] = ["vmap"]
        if self._vectorize == "channels":
            ways = ["channels"]
        elif self._vectorize == "auto" and self.convolves:
            ways = ["vmap", "channels"]
        pairs = [True, False] if self._paired == "auto" else [bool(self._paired)]
        work = len(self.agents) * self.batch_size * self.p
        if len(ways) == 1 and work < CALIBRATED_WORK:
            pairs = pairs[:1]
        ready = {
            f"{way}, paired {pair}": (self._in_way(way), pair)
            for way in ways
            for pair in pairs
        }
        return ready[self._fastest(ready) if len(ready) > 1 else next(iter(ready))]

    def _fastest(self, ready: Mapping[str, tuple[StackedModel, bool]]) -> str:
        batch, x = self.sample(0), self.x0()

        def trial(stacked: StackedModel, pair: bool) -> Callable[[], object]:
            problem = copy.copy(self)
            problem._all, problem._paired_now = stacked, pair
            return lambda: problem.grad_pair(x, x, batch)

        trials = {name: trial(*choice) for name, choice in ready.items()}
        shapes = [tuple(t.shape) for t in (x, batch.targets, *batch.inputs)]
        facts = (self.dtype, self.device, self.chunk_size, name_of(self._loss), shapes)
        return fastest(trials, repr(self._model), *map(str, facts))

    def _can_stack(self) -> bool:
        if self._vectorize != "auto":
            return True
        rows = self.layout.flatten(self._model).repeat(2, 1)
        first = torch.zeros(2, 2, dtype=torch.int64, device=self.device)
        try:
            self._in_way("vmap").grads(rows, self._samples.take(first))
        except Exception as error:  # vmap's refusals have many types
            reason = str(error).strip().splitlines()[0][:120]
            warnings.warn(
                f"model `{type(self._model).__name__}` runs agent by agent, since vmap "
                f"cannot take it: {reason}",
                Notice,
                stacklevel=4,
            )
            return False
        return True


def _number_of_agents(shards: Any) -> int | None:
    """Agents of the whole network, unless only some of them may be here."""
    return None if callable(shards) or isinstance(shards, Mapping) else len(shards)


def _agents_of(shards: Any) -> tuple[int, ...]:
    if not len(shards):
        raise InputError("LearningProblem: `shards` is empty; every agent needs one.")
    if isinstance(shards, Mapping):
        strange = [agent for agent in shards if not isinstance(agent, int)]
        if strange:
            raise InputError(
                f"LearningProblem: `shards` has the key {strange[0]!r}; agents are "
                "numbered from 0."
            )
        return tuple(sorted(shards))
    return tuple(range(len(shards)))
