"""What some problems can do besides: declared, not sniffed.

An ability is a small protocol and a function that tells whether something has it; the
type checker then knows it too. Wherever an optional method is used, this function
stands before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeGuard

import torch
from torch import Tensor, nn

from proxmesh.types.protocols import Batch, Evaluation, Problem

__all__ = [
    "Analyzable",
    "Divisible",
    "Evaluated",
    "Facts",
    "StartsItself",
    "Tested",
    "WithDistance",
    "WithFullGradient",
    "WithHessian",
    "WithModels",
    "WithPairs",
    "WithPenalty",
    "WithSubgradient",
    "WithValue",
    "WithWays",
    "can_be_analyzed",
    "can_be_divided",
    "can_be_tested",
    "chooses_a_way",
    "evaluates_itself",
    "facts_of",
    "has_distance",
    "has_full_gradient",
    "has_hessian",
    "has_models",
    "has_pairs",
    "has_penalty",
    "has_subgradient",
    "has_value",
    "starts_itself",
]


class Divisible(Problem, Protocol):
    """A problem of which a process can keep its own agents' part."""

    def local(self, agents: Sequence[int]) -> Problem:
        """Keep these agents only; called once by `proxmesh.prepare`.

        Parameters
        ----------
        agents
            Their ids.
        """
        ...


class StartsItself(Problem, Protocol):
    """A problem that makes initial rows."""

    def x0(self, init: str = "same") -> Tensor:
        """Initial rows, the same for all agents or different ones.

        Parameters
        ----------
        init
            ``"same"`` or ``"different"``.
        """
        ...


class WithPairs(Problem, Protocol):
    """A problem that takes the two gradients of a recursive estimator together."""

    def grad_pair(
        self, x: Tensor, x_old: Tensor, batch: Batch
    ) -> tuple[Tensor, Tensor]:
        """Gradients on one batch at two points.

        Parameters
        ----------
        x, x_old
            The two points, ``[n_local, p]`` each.
        batch
            What `sample` drew.
        """
        ...


class WithWays(Problem, Protocol):
    """A problem that measures which of several ways to compute is the fastest."""

    @property
    def taken(self) -> dict[str, Any]:
        """The choices that were made, as plain values."""
        ...

    def taken_in(self, ways: Mapping[str, Any]) -> Problem:
        """The same problem with these choices: other ways round differently.

        Parameters
        ----------
        ways
            What `taken` has told; nothing: to be chosen.
        """
        ...


class WithHessian(Problem, Protocol):
    """A problem that multiplies by the Hessians of its losses."""

    def hvp(self, x: Tensor, u: Tensor, batch: Batch) -> Tensor:
        """Row i: Hessian of f_i at x_i on the batch, times u_i.

        Parameters
        ----------
        x
            Where, ``[n_local, p]``.
        u
            Directions, ``[n_local, p]``.
        batch
            What `sample` drew.
        """
        ...


class WithFullGradient(Problem, Protocol):
    """A problem that knows gradients over whole shards."""

    def full_grad(self, x: Tensor) -> Tensor:
        """Row i: gradient of f_i at x_i over the whole shard.

        Parameters
        ----------
        x
            Rows, one for each local agent: ``[n_local, p]``.
        """
        ...


class WithValue(Problem, Protocol):
    """A problem that knows losses over whole shards."""

    def value(self, x: Tensor) -> Tensor:
        """f_i(x_i) over the whole shard, ``[n_local]``.

        Parameters
        ----------
        x
            Rows, one for each local agent: ``[n_local, p]``.
        """
        ...


class Evaluated(Problem, Protocol):
    """A problem that finds gradient, loss and more in one pass over its shards."""

    def evaluate(self, x: Tensor) -> Evaluation:
        """Look at x_i over the whole shard of every agent.

        Parameters
        ----------
        x
            Rows, one for each local agent: ``[n_local, p]``.
        """
        ...


class Tested(Problem, Protocol):
    """A problem with held-out data."""

    def test(self, x_mean: Tensor) -> Mapping[str, float]:
        """Columns of the history taken on held-out data at one row.

        Parameters
        ----------
        x_mean
            One model, ``[p]``.
        """
        ...


class WithPenalty(Problem, Protocol):
    """A problem that knows the value of h."""

    def penalty(self, x: Tensor) -> Tensor:
        """h(x_i), ``[rows]``.

        Parameters
        ----------
        x
            Any number of rows.
        """
        ...


class Analyzable(WithFullGradient, WithValue, WithPenalty, Protocol):
    """A problem with all that the paper's analysis speaks of."""


class WithSubgradient(Problem, Protocol):
    """A problem whose h has a subgradient."""

    def subgrad(self, x: Tensor) -> Tensor:
        """Row i: a subgradient of h at x_i.

        Parameters
        ----------
        x
            Rows, one for each local agent: ``[n_local, p]``.
        """
        ...


class WithDistance(Problem, Protocol):
    """A problem that knows how far a row is from the subdifferential of h."""

    def distance(self, u: Tensor, y: Tensor) -> Tensor | None:
        """Squared distance of u_i to the subdifferential of h at y_i, if h tells.

        Parameters
        ----------
        u
            Rows that are to lie in it.
        y
            Where it is taken.
        """
        ...


class WithModels(Problem, Protocol):
    """A problem whose rows are the parameters of a model."""

    def module(self, row: Tensor) -> nn.Module:
        """The model behind a row.

        Parameters
        ----------
        row
            Its parameters, ``[p]``.
        """
        ...


def chooses_a_way(problem: Problem) -> TypeGuard[WithWays]:
    """Whether it measures how to compute."""
    return hasattr(problem, "taken_in")


def can_be_divided(problem: Problem) -> TypeGuard[Divisible]:
    """Whether a process can keep its agents' part: `Divisible`."""
    return offers(problem, "local")


def starts_itself(problem: Problem) -> TypeGuard[StartsItself]:
    """Whether the problem makes initial rows: `StartsItself`."""
    return offers(problem, "x0")


def has_pairs(problem: Problem) -> TypeGuard[WithPairs]:
    """Whether two gradients can be taken in one pass: `WithPairs`."""
    return offers(problem, "grad_pair")


def has_hessian(problem: Problem) -> TypeGuard[WithHessian]:
    """Whether Hessian-vector products are exact: `WithHessian`."""
    return offers(problem, "hvp")


def has_full_gradient(problem: Problem) -> TypeGuard[WithFullGradient]:
    """Whether gradients over whole shards are known: `WithFullGradient`."""
    return offers(problem, "full_grad")


def has_value(problem: Problem) -> TypeGuard[WithValue]:
    """Whether losses over whole shards are known: `WithValue`."""
    return offers(problem, "value")


def evaluates_itself(problem: Problem) -> TypeGuard[Evaluated]:
    """Whether one pass finds gradient, loss and more: `Evaluated`."""
    return offers(problem, "evaluate")


def can_be_tested(problem: Problem) -> TypeGuard[Tested]:
    """Whether there is held-out data: `Tested`."""
    return offers(problem, "test")


def has_penalty(problem: Problem) -> TypeGuard[WithPenalty]:
    """Whether the value of h is known: `WithPenalty`."""
    return offers(problem, "penalty")


def can_be_analyzed(problem: Problem) -> TypeGuard[Analyzable]:
    """Whether gradients, losses and h are known exactly: `Analyzable`."""
    known = (has_full_gradient(problem), has_value(problem), has_penalty(problem))
    return all(known)


def has_subgradient(problem: Problem) -> TypeGuard[WithSubgradient]:
    """Whether h has a subgradient: `WithSubgradient`."""
    return offers(problem, "subgrad")


def has_distance(problem: Problem) -> TypeGuard[WithDistance]:
    """Whether the distance to the subdifferential of h is known: `WithDistance`."""
    return offers(problem, "distance")


def has_models(problem: Problem) -> TypeGuard[WithModels]:
    """Whether there is a model behind every row: `WithModels`."""
    return offers(problem, "module")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a problem tells of itself by attributes of these names; None: nothing.

    Parameters
    ----------
    agents
        Whose shards are open in this process.
    architecture
        The model's layers, as text.
    batch_size
        Samples in a minibatch.
    convolves
        Whether the model has convolutions.
    device, dtype
        Of the rows.
    num_agents
        Agents of the whole network.
    num_samples
        Training samples of the local agents together.
    p
        Parameters of the model: the width of a row.
    regularizer
        h.
    sample_shape
        Shapes of one sample's inputs and target.
    seed
        Of the draws.

    Examples
    --------
    >>> Facts(batch_size=16).p is None
    True
    """

    agents: tuple[int, ...] | None = None
    architecture: str | None = None
    batch_size: int | None = None
    convolves: bool | None = None
    device: torch.device | None = None
    dtype: torch.dtype | None = None
    num_agents: int | None = None
    num_samples: int | None = None
    p: int | None = None
    regularizer: Any = None
    sample_shape: Any = None
    seed: int | None = None


def facts_of(problem: Problem) -> Facts:
    """What a problem tells of itself.

    Parameters
    ----------
    problem
        Any; what it does not tell is None.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> shards = [(torch.randn(20, 3), torch.arange(20) % 2) for _ in range(4)]
    >>> problem = pm.LearningProblem(nn.Linear(3, 2), nn.CrossEntropyLoss(), shards)
    >>> facts_of(problem).p, facts_of(problem).num_samples
    (8, 80)
    """
    return Facts(**{f.name: getattr(problem, f.name, None) for f in fields(Facts)})


def offers(thing: object, name: str) -> bool:
    """Whether something has an attribute of this name."""
    # Not isinstance with a runtime protocol: from Python 3.12 on that looks past
    # `__getattr__`, by which wrappers hand on what they wrap.
    return hasattr(thing, name)
