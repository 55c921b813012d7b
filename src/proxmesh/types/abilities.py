"""What some problems, states and algorithms can do besides: declared, not sniffed.

An ability is a small protocol and a function that tells whether something has it; the
type checker then knows it too. Wherever an optional method is used, this function
stands before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

from proxmesh.types.protocols import Algorithm, Batch, Evaluation, Problem, State

__all__ = [
    "Analyzable",
    "Branching",
    "Divisible",
    "Evaluated",
    "Facts",
    "FindsConstants",
    "Remedied",
    "ReportsKKT",
    "SparseState",
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
    "branches",
    "can_be_analyzed",
    "can_be_divided",
    "can_be_tested",
    "evaluates_itself",
    "facts_of",
    "finds_constants",
    "has_distance",
    "has_full_gradient",
    "has_hessian",
    "has_models",
    "has_pairs",
    "has_penalty",
    "has_sparse_rows",
    "has_subgradient",
    "has_value",
    "knows_a_remedy",
    "reports_kkt",
    "starts_itself",
]

S = TypeVar("S")


# -- what a problem may be able to do besides ------------------------------------------


class Divisible(Problem, Protocol):
    """A problem of which a process can keep its own agents' part."""

    def local(self, agents: Sequence[int]) -> Problem:
        """Keep these agents only; called once by `proxmesh.prepare`."""
        ...


class StartsItself(Problem, Protocol):
    """A problem that makes initial rows."""

    def x0(self, init: str = "same") -> Tensor:
        """Initial rows, the same for all agents or different ones."""
        ...


class WithPairs(Problem, Protocol):
    """A problem that takes the two gradients of a recursive estimator together."""

    def grad_pair(
        self, x: Tensor, x_old: Tensor, batch: Batch
    ) -> tuple[Tensor, Tensor]:
        """Gradients on one batch at two points."""
        ...


class WithHessian(Problem, Protocol):
    """A problem that multiplies by the Hessians of its losses."""

    def hvp(self, x: Tensor, u: Tensor, batch: Batch) -> Tensor:
        """Row i: Hessian of f_i at x_i on the batch, times u_i."""
        ...


class WithFullGradient(Problem, Protocol):
    """A problem that knows gradients over whole shards."""

    def full_grad(self, x: Tensor) -> Tensor:
        """Row i: gradient of f_i at x_i over the whole shard."""
        ...


class WithValue(Problem, Protocol):
    """A problem that knows losses over whole shards."""

    def value(self, x: Tensor) -> Tensor:
        """f_i(x_i) over the whole shard, ``[n_local]``."""
        ...


class Evaluated(Problem, Protocol):
    """A problem that finds gradient, loss and more in one pass over its shards."""

    def evaluate(self, x: Tensor) -> Evaluation:
        """Look at x_i over the whole shard of every agent."""
        ...


class Tested(Problem, Protocol):
    """A problem with held-out data."""

    def test(self, x_mean: Tensor) -> Mapping[str, float]:
        """Columns of the history taken on held-out data at one row."""
        ...


class WithPenalty(Problem, Protocol):
    """A problem that knows the value of h."""

    def penalty(self, x: Tensor) -> Tensor:
        """h(x_i), ``[rows]``."""
        ...


class Analyzable(WithFullGradient, WithValue, WithPenalty, Protocol):
    """A problem with all that the paper's analysis speaks of."""


class WithSubgradient(Problem, Protocol):
    """A problem whose h has a subgradient."""

    def subgrad(self, x: Tensor) -> Tensor:
        """Row i: a subgradient of h at x_i."""
        ...


class WithDistance(Problem, Protocol):
    """A problem that knows how far a row is from the subdifferential of h."""

    def distance(self, u: Tensor, y: Tensor) -> Tensor | None:
        """Squared distance of u_i to the subdifferential of h at y_i, if h tells."""
        ...


class WithModels(Problem, Protocol):
    """A problem whose rows are the parameters of a model."""

    def module(self, row: Tensor) -> nn.Module:
        """The model behind a row."""
        ...


def can_be_divided(problem: Problem) -> TypeGuard[Divisible]:
    """Whether a process can keep its agents' part: `Divisible`."""
    return _offers(problem, "local")


def starts_itself(problem: Problem) -> TypeGuard[StartsItself]:
    """Whether the problem makes initial rows: `StartsItself`."""
    return _offers(problem, "x0")


def has_pairs(problem: Problem) -> TypeGuard[WithPairs]:
    """Whether two gradients can be taken in one pass: `WithPairs`."""
    return _offers(problem, "grad_pair")


def has_hessian(problem: Problem) -> TypeGuard[WithHessian]:
    """Whether Hessian-vector products are exact: `WithHessian`."""
    return _offers(problem, "hvp")


def has_full_gradient(problem: Problem) -> TypeGuard[WithFullGradient]:
    """Whether gradients over whole shards are known: `WithFullGradient`."""
    return _offers(problem, "full_grad")


def has_value(problem: Problem) -> TypeGuard[WithValue]:
    """Whether losses over whole shards are known: `WithValue`."""
    return _offers(problem, "value")


def evaluates_itself(problem: Problem) -> TypeGuard[Evaluated]:
    """Whether one pass finds gradient, loss and more: `Evaluated`."""
    return _offers(problem, "evaluate")


def can_be_tested(problem: Problem) -> TypeGuard[Tested]:
    """Whether there is held-out data: `Tested`."""
    return _offers(problem, "test")


def has_penalty(problem: Problem) -> TypeGuard[WithPenalty]:
    """Whether the value of h is known: `WithPenalty`."""
    return _offers(problem, "penalty")


def can_be_analyzed(problem: Problem) -> TypeGuard[Analyzable]:
    """Whether gradients, losses and h are known exactly: `Analyzable`."""
    known = (has_full_gradient(problem), has_value(problem), has_penalty(problem))
    return all(known)


def has_subgradient(problem: Problem) -> TypeGuard[WithSubgradient]:
    """Whether h has a subgradient: `WithSubgradient`."""
    return _offers(problem, "subgrad")


def has_distance(problem: Problem) -> TypeGuard[WithDistance]:
    """Whether the distance to the subdifferential of h is known: `WithDistance`."""
    return _offers(problem, "distance")


def has_models(problem: Problem) -> TypeGuard[WithModels]:
    """Whether there is a model behind every row: `WithModels`."""
    return _offers(problem, "module")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a problem tells of itself by attributes of these names; None: nothing."""

    agents: tuple[int, ...] | None = None  # whose shards are open in this process
    batch_size: int | None = None  # samples in a minibatch
    convolves: bool | None = None  # whether the model has convolutions
    device: torch.device | None = None  # of the rows
    dtype: torch.dtype | None = None  # of the rows
    num_agents: int | None = None  # of the whole network
    num_samples: int | None = None  # of the local agents together
    p: int | None = None  # parameters: the width of a row
    regularizer: Any = None  # h
    sample_shape: Any = None  # of one sample's inputs and target
    seed: int | None = None  # of the draws


def facts_of(problem: Problem) -> Facts:
    """What a problem tells of itself."""
    return Facts(**{f.name: getattr(problem, f.name, None) for f in fields(Facts)})


# -- what a state may have besides -----------------------------------------------------


class SparseState(State, Protocol):
    """A state whose rows out of the prox are not x."""

    @property
    def sparse(self) -> Tensor:
        """The rows that come out of the prox, ``[n_local, p]``."""
        ...


class ReportsKKT(State, Protocol):
    """A state with multipliers, which tells how far it is from a saddle point."""

    def kkt_residual(self, problem: Problem) -> Tensor | None:
        """Each agent's part of the residual, ``[n_local]``; None if h does not tell."""
        ...


def has_sparse_rows(state: State) -> TypeGuard[SparseState]:
    """Whether the rows out of the prox are others than x: `SparseState`."""
    return _offers(state, "sparse")


def reports_kkt(state: State) -> TypeGuard[ReportsKKT]:
    """Whether the state has a KKT residual: `ReportsKKT`."""
    return _offers(state, "kkt_residual")


# -- what an algorithm may be able to do besides ---------------------------------------


class FindsConstants(Algorithm[S], Protocol[S]):
    """An algorithm whose constants may be left out, to be found before a run."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the constants that are still to be found."""
        ...

    def with_constants_of(self, earlier: Self) -> Self:
        """The algorithm with what an earlier run of the same kind has found."""
        ...


class Remedied(Algorithm[S], Protocol[S]):
    """An algorithm that knows what to change when a run diverges."""

    def remedy(self) -> str:
        """What to change, in a sentence or two."""
        ...


class Branching(Algorithm[S], Protocol[S]):
    """An algorithm whose step branches on k; each branch is compiled on its own."""

    def at(self, k: int) -> Algorithm[S]:
        """The method that takes the branch of iteration k at every k."""
        ...


def finds_constants(algorithm: Algorithm[S]) -> TypeGuard[FindsConstants[S]]:
    """Whether constants may be left out: `FindsConstants`."""
    return _offers(algorithm, "missing")


def knows_a_remedy(algorithm: Algorithm[S]) -> TypeGuard[Remedied[S]]:
    """Whether it says what to change after a divergence: `Remedied`."""
    return _offers(algorithm, "remedy")


def branches(algorithm: Algorithm[S]) -> TypeGuard[Branching[S]]:
    """Whether its step branches on k: `Branching`."""
    return _offers(algorithm, "at")


def _offers(thing: object, name: str) -> bool:
    # Not isinstance with a runtime protocol: from Python 3.12 on that looks past
    # `__getattr__`, by which wrappers hand on what they wrap.
    return hasattr(thing, name)
