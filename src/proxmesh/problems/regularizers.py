"""Convex, possibly nonsmooth penalties h: value and prox side by side, row by row.

All weights are for the objective ``mean_i f_i(x) + h(x)``. What an object needs to be a
regularizer of your own is in `Regularizer`.

Examples
--------
>>> h = L1(0.5)
>>> x = torch.tensor([[3.0, -0.25, -2.0]])
>>> h.value(x), h.prox(x, 1.0)
(tensor([2.6250]), tensor([[ 2.5000,  0.0000, -1.5000]]))
"""

import fnmatch
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeGuard, final, runtime_checkable

import torch
from torch import Tensor

from proxmesh.checks import require_nonnegative, require_positive
from proxmesh.errors import InputError, unknown
from proxmesh.problems.layout import Layout

__all__ = [
    "L1",
    "REGULARIZERS",
    "Box",
    "ElasticNet",
    "GroupLasso",
    "LInfBall",
    "NoRegularizer",
    "NonNegative",
    "Only",
    "Regularizer",
    "Simplex",
    "SquaredL2",
]

ProxStep: TypeAlias = Tensor | float


@runtime_checkable
class Regularizer(Protocol):
    """What a problem asks of h: any object with these two methods will do.

    Optional methods, with u, x and y of the shape ``[rows, p]``:

    - ``distance(u, y)``: the squared distance of u_i to the subdifferential of h at
      y_i, ``[rows]``; the column `kkt` of a history needs it.
    - ``subgrad(x)``: a subgradient of h at x_i, ``[rows, p]``; DSGT needs it.
    - ``bind(layout)``: the regularizer for a model whose parameters lie in the columns
      as a `proxmesh.problems.layout.Layout` says, for one that does not treat all
      columns alike. A problem calls it once.
    """

    def value(self, x: Tensor) -> Tensor:
        """h(x_i) for every row.

        Parameters
        ----------
        x
            Rows of parameters, ``[rows, p]``.

        Returns
        -------
        Tensor
            One value per row, ``[rows]``.
        """
        ...

    def prox(self, z: Tensor, step: ProxStep) -> Tensor:
        """Row-wise ``argmin_v step * h(v) + |v - z|^2 / 2``.

        Parameters
        ----------
        z
            Rows of parameters, ``[rows, p]``.
        step
            A number, a 0-d tensor, or one step per row as ``[rows, 1]``.
        """
        ...


@runtime_checkable
class HasSubgrad(Regularizer, Protocol):
    """A regularizer that offers subgradients, for methods without a prox."""

    def subgrad(self, x: Tensor) -> Tensor:
        """Row i: a subgradient of h at x_i."""
        ...


@runtime_checkable
class HasDistance(Regularizer, Protocol):
    """A regularizer that knows its subdifferential, for the KKT residual."""

    def distance(self, u: Tensor, y: Tensor) -> Tensor | None:
        """Squared distance of u_i to the subdifferential of h at y_i, ``[rows]``."""
        ...


@runtime_checkable
class NeedsLayout(Protocol):
    """Something that becomes a regularizer once it knows a model's layout."""

    def bind(self, layout: Layout) -> Regularizer:
        """Return the regularizer for rows of this layout."""
        ...


def has_subgrad(h: Regularizer) -> TypeGuard[HasSubgrad]:
    """Whether h offers subgradients."""
    if isinstance(h, OnColumns):
        return has_subgrad(h.inner)
    return isinstance(h, HasSubgrad)


def has_distance(h: Regularizer) -> TypeGuard[HasDistance]:
    """Whether h knows distances to its subdifferential."""
    if isinstance(h, OnColumns):
        return has_distance(h.inner)
    return isinstance(h, HasDistance)


@final
@dataclass(frozen=True, slots=True)
class NoRegularizer:
    """``h = 0``; the prox is the identity.

    Examples
    --------
    >>> NoRegularizer().prox(torch.tensor([[3.0, -0.5]]), 1.0)
    tensor([[ 3.0000, -0.5000]])
    """

    def value(self, x: Tensor) -> Tensor:
        """Zero for every row."""
        return x.new_zeros(len(x))

    def prox(self, z: Tensor, step: ProxStep) -> Tensor:
        """A copy of z."""
        del step
        return z.clone()

    def subgrad(self, x: Tensor) -> Tensor:
        """Zero, the only one."""
        return torch.zeros_like(x)

    def distance(self, u: Tensor, y: Tensor) -> Tensor:
        """``|u|^2``: the subdifferential is {0}."""
        del y
        return u.square().sum(1)


@final
@dataclass(frozen=True, slots=True)
class L1:
    """``h(x) = weight |x|_1``; the prox is soft thresholding by ``step * weight``.

    It drives single entries to exactly 0.

    Parameters
    ----------
    weight
        Strength, not negative; 0 is no regularizer.

    Examples
    --------
    >>> L1(1.0).prox(torch.tensor([[3.0, -0.5, -2.0]]), 0.5)
    tensor([[ 2.5000,  0.0000, -1.5000]])
    """

    weight: float

    def __post_init__(self) -> None:
        require_nonnegative("L1", weight=self.weight)

    def value(self, x: Tensor) -> Tensor:
        """``weight sum_j |x_j|``."""
        return self.weight * x.abs().sum(1)

    def prox(self, z: Tensor, step: ProxStep) -> Tensor:
        """``z - clip(z, -t, t)`` with ``t = step * weight``: zeros are exact."""
        threshold: Any = self.weight * step
        return z - z.clamp(-threshold, threshold)

    def subgrad(self, x: Tensor) -> Tensor:
        """``weight sign(x)``, 0 where x is 0."""
        return self.weight * x.sign()

    def distance(self, u: Tensor, y: Tensor) -> Tensor:
        """From ``weight sign(y)``, or from ``[-weight, weight]`` where y is 0."""
        at_zero = (u.abs() - self.weight).clamp(min=0)
        return torch.where(y == 0, at_zero, u - self.weight * y.sign()).square().sum(1)


@final
@dataclass(frozen=True, slots=True)
class SquaredL2:
    """``h(x) = weight/2 |x|^2``; the prox is ``z / (1 + step * weight)``.

    This is weight decay: it shrinks all entries and makes none exactly 0.

    Parameters
    ----------
    weight
        Strength, not negative; 0 is no regularizer.

    Examples
    --------
    >>> SquaredL2(1.0).prox(torch.tensor([[3.0, -0.5]]), 0.5)
    tensor([[ 2.0000, -0.3333]])
    """

    weight: float

    def __post_init__(self) -> None:
        require_nonnegative("SquaredL2", weight=self.weight)

    def value(self, x: Tensor) -> Tensor:
        """``weight/2 |x|^2``."""
        return 0.5 * self.weight * x.square().sum(1)

    def prox(self, z: Tensor, step: ProxStep) -> Tensor:
        """``z / (1 + step * weight)``."""
        return z / (1 + self.weight * step)

    def subgrad(self, x: Tensor) -> Tensor:
        """The gradient, ``weight x``."""
        return self.weight * x

    def distance(self, u: Tensor, y: Tensor) -> Tensor:
        """From the gradient, ``weight y``."""
        return (u - self.weight * y).square().sum(1)


@final
@dataclass(frozen=True, slots=True)
class ElasticNet:
    """``h(x) = l1 |x|_1 + l2/2 |x|^2``; the prox thresholds, then shrinks.

    With soft(z, t) the soft thresholding of `L1`, the prox is
    ``soft(z, step * l1) / (1 + step * l2)``.

    Parameters
    ----------
    l1, l2
        Strengths of the two parts, not negative.

    Examples
    --------
    >>> ElasticNet(1.0, 1.0).prox(torch.tensor([[3.0, -0.5]]), 1.0)
    tensor([[1., 0.]])
    """

    l1: float
    l2: float

    def __post_init__(self) -> None:
        require_nonnegative("ElasticNet", l1=self.l1, l2=self.l2)

    def value(self, x: Tensor) -> Tensor:
        """``l1 |x|_1 + l2/2 |x|^2``."""
        return L1(self.l1).value(x) + SquaredL2(self.l2).value(x)

    def prox(self, z: Tensor, step: ProxStep) -> Tensor:
        """``soft(z, step * l1) / (1 + step * l2)``."""
        return L1(self.l1).prox(z, step) / (1 + self.l2 * step)

    def subgrad(self, x: Tensor) -> Tensor:
        """``l1 sign(x) + l2 x``."""
        return self.l1 * x.sign() + self.l2 * x

    def distance(self, u: Tensor, y: Tensor) -> Tensor:
        """As for `L1`, after the smooth part ``l2 y`` is subtracted from u."""
        return L1(self.l1).distance(u - self.l2 * y, y)


@final
@dataclass(frozen=True, slots=True, eq=False)
class GroupLasso:
    """``h(x) = weight sum_g sqrt(|g|) |x_g|_2``: whole groups become zero together.

    The prox shortens each group, ``z_g max(0, 1 - step * weight sqrt(|g|) / |z_g|)``,
    where ``|g|`` is the number of columns in group g.

    Parameters
    ----------
    weight
        Strength, not negative.
    groups
        ``"rows"``: the weights into each unit (a row of a matrix, a filter of a
        convolution) are a group, and every bias entry is one of its own. Or a tensor
        ``[p]`` with the group number of each column, from 0 without gaps.
    sizes
        Number of columns in each group; counted from `groups`, so leave it out.

    Examples
    --------
    >>> h = GroupLasso(1.0, groups=torch.tensor([0, 0, 1]))
    >>> h.prox(torch.tensor([[3.0, 4.0, 0.5]]), 1.0)
    tensor([[2.1515, 2.8686, 0.0000]])
    """

    weight: float
    groups: Tensor | str = "rows"
    sizes: Tensor | None = None  # [num_groups]

    def __post_init__(self) -> None:
        require_nonnegative("GroupLasso", weight=self.weight)
        if isinstance(self.groups, Tensor):
            object.__setattr__(self, "sizes", _group_sizes(self.groups))
        elif self.groups != "rows":
            raise unknown("value", self.groups, ["rows"], of="`groups` in GroupLasso")

    def bind(self, layout: Layout) -> "GroupLasso":
        """Number the groups of a model's parameters."""
        if isinstance(self.groups, str):
            return GroupLasso(self.weight, layout.row_groups())
        if len(self.groups) != layout.p:
            raise InputError(
                f"GroupLasso: `groups` numbers {len(self.groups)} columns but the "
                f"model has {layout.p} trainable parameters."
            )
        return self

    def value(self, x: Tensor) -> Tensor:
        """``weight sum_g sqrt(|g|) |x_g|``."""
        norms, weights, _ = self._norms(x)
        return (weights * norms).sum(1)

    def prox(self, z: Tensor, step: ProxStep) -> Tensor:
        """``z_g max(0, 1 - step * weight sqrt(|g|) / |z_g|)``."""
        norms, weights, groups = self._norms(z)
        safe = norms.clamp(min=torch.finfo(z.dtype).tiny)
        return z * (1 - step * weights / safe).clamp(min=0)[:, groups]

    def subgrad(self, x: Tensor) -> Tensor:
        """``weight sqrt(|g|) x_g / |x_g|``, 0 for a zero group."""
        norms, weights, groups = self._norms(x)
        safe = norms.clamp(min=torch.finfo(x.dtype).tiny)
        return x * (weights / safe)[:, groups]

    def distance(self, u: Tensor, y: Tensor) -> Tensor:
        """From the gradient of a nonzero group, from the ball of a zero one."""
        norms, weights, groups = self._norms(y)
        off_ball = (self._norms(u)[0] - weights).clamp(min=0).square()
        gap = self._summed((u - self.subgrad(y)).square(), groups, len(weights))
        return torch.where(norms == 0, off_ball, gap).sum(1)

    def _norms(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if not isinstance(self.groups, Tensor) or self.sizes is None:
            raise InputError(
                'GroupLasso: groups="rows" needs a model to know its rows; use it in '
                "a `LearningProblem`, or give the group number of each column."
            )
        groups = self.groups.to(x.device)
        weights = self.weight * self.sizes.to(x.device, x.dtype).sqrt()
        return self._summed(x.square(), groups, len(weights)).sqrt(), weights, groups

    @staticmethod
    def _summed(x: Tensor, groups: Tensor, num_groups: int) -> Tensor:
        return x.new_zeros(len(x), num_groups).index_add(1, groups, x)


@final
@dataclass(frozen=True, slots=True)
class Box:
    """The constraint ``lower <= x <= upper``; the prox is clipping.

    h is 0 inside and infinite outside, so the step does not matter.

    Parameters
    ----------
    lower, upper
        Bounds for every entry; ``-math.inf`` and ``math.inf`` leave a side open.

    Examples
    --------
    >>> Box(-1.0, 2.0).prox(torch.tensor([[3.0, -0.5, -2.0]]), 1.0)
    tensor([[ 2.0000, -0.5000, -1.0000]])
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if math.isnan(self.lower) or not self.lower <= self.upper:
            raise InputError(
                f"Box: `lower` must not exceed `upper`, got {self.lower} and "
                f"{self.upper}."
            )

    def value(self, x: Tensor) -> Tensor:
        """0 inside, infinity outside."""
        return _indicator(((x >= self.lower) & (x <= self.upper)).all(1), x)

    def prox(self, z: Tensor, step: ProxStep) -> Tensor:
        """``clip(z, lower, upper)``."""
        del step
        return z.clamp(self.lower, self.upper)

    def distance(self, u: Tensor, y: Tensor) -> Tensor:
        """From the normal cone: outward directions at a bound, {0} inside."""
        outward = torch.where(y >= self.upper, u.clamp(min=0), 0.0) + torch.where(
            y <= self.lower, u.clamp(max=0), 0.0
        )
        return (u - outward).square().sum(1)


@final
@dataclass(frozen=True, slots=True)
class NonNegative:
    """The constraint ``x >= 0``; the prox is ``max(z, 0)``.

    Examples
    --------
    >>> NonNegative().prox(torch.tensor([[3.0, -0.5]]), 1.0)
    tensor([[3., 0.]])
    """

    def value(self, x: Tensor) -> Tensor:
        """0 inside, infinity outside."""
        return Box(0.0, math.inf).value(x)

    def prox(self, z: Tensor, step: ProxStep) -> Tensor:
        """``max(z, 0)``."""
        return Box(0.0, math.inf).prox(z, step)

    def distance(self, u: Tensor, y: Tensor) -> Tensor:
        """As for `Box`, from the normal cone."""
        return Box(0.0, math.inf).distance(u, y)


@final
@dataclass(frozen=True, slots=True)
class LInfBall:
    """The constraint ``|x|_inf <= radius``; the prox is ``clip(z, -radius, radius)``.

    Parameters
    ----------
    radius
        Largest absolute value of an entry, not negative.

    Examples
    --------
    >>> LInfBall(1.0).prox(torch.tensor([[3.0, -0.5, -2.0]]), 1.0)
    tensor([[ 1.0000, -0.5000, -1.0000]])
    """

    radius: float

    def __post_init__(self) -> None:
        require_nonnegative("LInfBall", radius=self.radius)

    def value(self, x: Tensor) -> Tensor:
        """0 inside, infinity outside."""
        return Box(-self.radius, self.radius).value(x)

    def prox(self, z: Tensor, step: ProxStep) -> Tensor:
        """``clip(z, -radius, radius)``."""
        return Box(-self.radius, self.radius).prox(z, step)

    def distance(self, u: Tensor, y: Tensor) -> Tensor:
        """As for `Box`, from the normal cone."""
        return Box(-self.radius, self.radius).distance(u, y)


@final
@dataclass(frozen=True, slots=True)
class Simplex:
    """The constraint ``x >= 0, sum_j x_j = radius``; the prox is ``max(z - tau, 0)``.

    tau is the number that makes the sum right; sorting once finds it.

    Parameters
    ----------
    radius
        The sum of each row, positive.

    Examples
    --------
    >>> Simplex(1.0).prox(torch.tensor([[0.5, 1.0, -3.0]]), 1.0)
    tensor([[0.2500, 0.7500, 0.0000]])
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        require_positive("Simplex", radius=self.radius)

    def value(self, x: Tensor) -> Tensor:
        """0 inside (up to rounding), infinity outside."""
        slack = x.shape[1] * torch.finfo(x.dtype).eps * self.radius
        on_plane = (x.sum(1) - self.radius).abs() <= slack
        return _indicator((x >= 0).all(1) & on_plane, x)

    def prox(self, z: Tensor, step: ProxStep) -> Tensor:
        """``max(z - tau, 0)`` with the tau that makes the sum right."""
        del step
        ordered, _ = z.sort(dim=1, descending=True)
        excess = ordered.cumsum(1) - self.radius
        counts = torch.arange(1, z.shape[1] + 1, device=z.device)
        last = (ordered * counts > excess).sum(1, keepdim=True)
        tau = excess.gather(1, last - 1) / last
        return (z - tau).clamp(min=0)


@final
@dataclass(frozen=True, slots=True)
class Only:
    """Another regularizer, applied only to the parameters whose names match a pattern.

    Other parameters are not regularized: their value is 0, their prox the identity.

    Parameters
    ----------
    inner
        The regularizer.
    names
        Shell patterns for the names of `named_parameters`, such as ``"*.weight"``; one,
        or a tuple of several.

    Examples
    --------
    >>> from torch import nn
    >>> layout = Layout.of(nn.Linear(2, 1))
    >>> Only(L1(1.0), "weight").bind(layout).prox(torch.ones(1, 3), 0.5)
    tensor([[0.5000, 0.5000, 1.0000]])
    """

    inner: Regularizer | NeedsLayout
    names: str | tuple[str, ...]

    def bind(self, layout: Layout) -> "OnColumns":
        """Find the columns of the matching parameters in a model.

        Parameters
        ----------
        layout
            Which columns belong to which parameter; a problem passes its own.
        """
        patterns = (self.names,) if isinstance(self.names, str) else self.names
        for pattern in patterns:
            if not fnmatch.filter(layout.names, pattern):
                raise unknown("parameter", pattern, layout.names, of="the model")
        chosen = layout.select(
            lambda name: any(fnmatch.fnmatchcase(name, q) for q in patterns)
        )
        inner = bind_to_layout(self.inner, chosen)
        return OnColumns(inner, layout.columns(chosen.names))


@final
@dataclass(frozen=True, slots=True, eq=False)
class OnColumns:
    """A regularizer on some of the columns: what `Only` becomes once it is bound."""

    inner: Regularizer
    columns: Tensor

    def value(self, x: Tensor) -> Tensor:
        """Value on the columns."""
        return self.inner.value(x[:, self.columns.to(x.device)])

    def prox(self, z: Tensor, step: ProxStep) -> Tensor:
        """Prox on the columns, identity elsewhere."""
        columns = self.columns.to(z.device)
        return z.index_copy(1, columns, self.inner.prox(z[:, columns], step))

    def subgrad(self, x: Tensor) -> Tensor:
        """Subgradient on the columns, 0 elsewhere."""
        assert has_subgrad(self.inner)
        columns = self.columns.to(x.device)
        inner = self.inner.subgrad(x[:, columns])
        return torch.zeros_like(x).index_copy(1, columns, inner)

    def distance(self, u: Tensor, y: Tensor) -> Tensor | None:
        """Distance on the columns plus |u|^2 elsewhere; None if the inner has none."""
        if not has_distance(self.inner):
            return None
        columns = self.columns.to(u.device)
        inner = self.inner.distance(u[:, columns], y[:, columns])
        if inner is None:
            return None
        elsewhere = u.index_fill(1, columns, 0).square().sum(1)
        return inner + elsewhere


REGULARIZERS: Mapping[str, type[Any]] = {
    "none": NoRegularizer,
    "l1": L1,
    "squared-l2": SquaredL2,
    "elastic-net": ElasticNet,
    "group-lasso": GroupLasso,
    "box": Box,
    "non-negative": NonNegative,
    "l-inf-ball": LInfBall,
    "simplex": Simplex,
}
"""Every regularizer by its command-line name."""


def bind_to_layout(
    regularizer: Regularizer | NeedsLayout, layout: Layout
) -> Regularizer:
    """Tell a regularizer the model's layout if it needs it; refuse anything else."""
    if isinstance(regularizer, type):
        name = regularizer.__name__
        raise InputError(f"regularizer `{name}` is a class. Build it: `{name}(...)`.")
    if isinstance(regularizer, NeedsLayout):
        return regularizer.bind(layout)
    if not isinstance(regularizer, Regularizer):
        raise InputError(
            f"regularizer `{regularizer}` has no `value` and `prox`. Use `pm.L1(...)` "
            "or another one, or an object with these two methods."
        )
    return regularizer


def _group_sizes(groups: Tensor) -> Tensor:
    whole = groups.ndim == 1 and len(groups) and not groups.is_floating_point()
    sizes = torch.bincount(groups) if whole and groups.min() >= 0 else None
    if sizes is None or (sizes == 0).any():
        raise InputError(
            "GroupLasso: `groups` must give each column a group number 0, 1, 2, ... "
            f"without gaps, got {groups.tolist()[:10]}."
        )
    return sizes


def _indicator(inside: Tensor, like: Tensor) -> Tensor:
    return torch.where(inside, 0.0, math.inf).to(like.dtype)
