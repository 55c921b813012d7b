"""Every prox is held to its definition, not to stored numbers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from proxmesh.errors import InputError
from proxmesh.problems import (
    L1,
    Box,
    ElasticNet,
    GroupLasso,
    LInfBall,
    NonNegative,
    NoRegularizer,
    Only,
    Simplex,
    SquaredL2,
)
from proxmesh.problems.layout import Layout
from proxmesh.problems.regularizers import REGULARIZERS, Regularizer, bind_to_layout

ROUNDING = 1e-12  # a few float64 operations on numbers of size 10
SQUARED = 1e-10  # a squared distance of rounding errors divided by a small step
GRID_STEP = 2e-4  # of the brute-force search for the nearest subgradient

P = 8  # columns: Linear(3, 2) has 6 weights and 2 biases
ROWS = 5
LAYOUT = Layout.of(nn.Linear(3, 2))

ZOO: dict[str, Any] = {
    "none": NoRegularizer(),
    "l1": L1(0.7),
    "l1-zero-weight": L1(0.0),
    "squared-l2": SquaredL2(1.3),
    "elastic-net": ElasticNet(0.4, 0.9),
    "group-lasso": GroupLasso(0.5, torch.tensor([0, 0, 1, 2, 1, 2, 2, 0])),
    "group-lasso-rows": GroupLasso(0.5).bind(LAYOUT),
    "box": Box(-0.5, 1.0),
    "box-half-open": Box(-math.inf, 0.3),
    "box-point": Box(0.25, 0.25),
    "non-negative": NonNegative(),
    "l-inf-ball": LInfBall(0.6),
    "simplex": Simplex(),
    "simplex-radius": Simplex(3.0),
    "only-l1": Only(L1(0.7), "weight").bind(LAYOUT),
    "only-elastic-net": Only(ElasticNet(0.4, 0.9), ("bi*", "weight")).bind(LAYOUT),
    "only-group-lasso-rows": Only(GroupLasso(0.8), "weight").bind(LAYOUT),
    "only-box": Only(Box(-0.2, 0.2), "bias").bind(LAYOUT),
    "only-simplex": Only(Simplex(), "weight").bind(LAYOUT),
}
NAMES = sorted(ZOO)
# The normal cone of a simplex is not offered: its prox is checked by inequality.
WITH_DISTANCE = [name for name in NAMES if "simplex" not in name]
WITH_SUBGRAD = [
    name
    for name in WITH_DISTANCE
    if not any(word in name for word in ("box", "non-negative", "ball"))
]
STEPS = [0.05, 1.0, 4.0]


def draws(seed: int, rows: int = ROWS, scale: float = 1.5) -> Tensor:
    return scale * torch.randn(
        rows, P, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def objective(h: Any, v: Tensor, z: Tensor, step: float) -> Tensor:
    """What the prox of step * h minimises, row by row."""
    value: Tensor = step * h.value(v) + 0.5 * (v - z).square().sum(1)
    return value


# -- the prox is what it says ---------------------------------------------------------


@pytest.mark.parametrize("name", WITH_DISTANCE)
@pytest.mark.parametrize("step", STEPS)
def test_prox_leaves_a_subgradient(name: str, step: float) -> None:
    h, z = ZOO[name], draws(1, rows=20)
    y = h.prox(z, step)
    assert (h.distance((z - y) / step, y) < SQUARED).all()
    # And the distance can tell: another point of the same rows is no solution.
    if name not in {"none", "l1-zero-weight", "box-point"}:
        wrong = h.prox(z + 1, step)
        assert (h.distance((z - wrong) / step, wrong) > 0.01 / step**2).any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step", STEPS)
def test_prox_is_the_minimiser_against_perturbations(name: str, step: float) -> None:
    h, z = ZOO[name], draws(2)
    y = h.prox(z, step)
    best = objective(h, y, z, step)
    assert torch.isfinite(best).all()
    for seed in range(100):
        size = 10.0 ** -(seed % 6)
        other = h.prox(y + draws(100 + seed, scale=size), 1e-9)  # keeps feasibility
        # Strong convexity: anything else costs at least half its squared distance.
        margin = 0.5 * (other - y).square().sum(1)
        assert (objective(h, other, z, step) >= best + margin - ROUNDING).all()
        assert (objective(h, y + draws(seed, scale=size), z, step) >= best).all()


@pytest.mark.parametrize("radius", [0.5, 1.0, 10.0])
def test_simplex_by_variational_inequality(radius: float) -> None:
    z = draws(3, rows=20)
    y = Simplex(radius).prox(z, 1.0)
    assert (y >= 0).all()
    assert y.sum(1) == pytest.approx(np.full(20, radius), abs=ROUNDING)
    generator = torch.Generator().manual_seed(0)
    for _ in range(100):
        drawn = torch.rand(20, P, generator=generator).pow(3)
        feasible = radius * drawn / drawn.sum(1, keepdim=True)
        assert (((z - y) * (feasible - y)).sum(1) <= ROUNDING).all()
    corners = radius * torch.eye(P)  # the inequality need only hold at the corners
    worst = ((z - y)[:, None] * (corners - y[:, None])).sum(2)
    assert (worst <= ROUNDING).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step", STEPS)
def test_prox_is_firmly_nonexpansive(name: str, step: float) -> None:
    h = ZOO[name]
    z, w = draws(4, rows=50), draws(5, rows=50)
    moved = h.prox(z, step) - h.prox(w, step)
    assert (moved.square().sum(1) <= (moved * (z - w)).sum(1) + ROUNDING).all()


@pytest.mark.parametrize("name", NAMES)
def test_steps_as_number_scalar_tensor_and_column_agree(name: str) -> None:
    h, z = ZOO[name], draws(6)
    expected = h.prox(z, 0.3)
    for step in (torch.tensor(0.3), torch.full((ROWS, 1), 0.3)):
        found = h.prox(z, step)
        assert found.dtype == z.dtype
        torch.testing.assert_close(found, expected, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("name", NAMES)
def test_rows_do_not_see_each_other(name: str) -> None:
    h, z = ZOO[name], draws(7)
    steps = torch.linspace(0.1, 2, ROWS)[:, None]
    together, values = h.prox(z, steps), h.value(h.prox(z, steps))
    assert values.shape == (ROWS,)
    for i in range(ROWS):
        row = z[i : i + 1]
        alone = h.prox(row, float(steps[i]))
        torch.testing.assert_close(alone, together[i : i + 1], rtol=0, atol=ROUNDING)
        torch.testing.assert_close(h.value(alone), values[i : i + 1])


@pytest.mark.parametrize("name", NAMES)
def test_prox_returns_new_rows_and_keeps_the_old(name: str) -> None:
    z = draws(8)
    before = z.clone()
    y = ZOO[name].prox(z, 0.5)
    assert y.shape == z.shape
    assert y.data_ptr() != z.data_ptr()
    assert torch.equal(z, before)


@pytest.mark.parametrize("name", NAMES)
def test_float32_stays_float32(name: str) -> None:
    h, z = ZOO[name], draws(9).float()
    for step in (0.5, torch.tensor(0.5, dtype=torch.float64)):
        assert h.prox(z, step).dtype == torch.float32
    assert h.value(h.prox(z, 0.5)).dtype == torch.float32
    assert torch.isfinite(h.value(h.prox(z, 0.5))).all()


# -- Moreau's identity: z = prox_{t h}(z) + t prox_{h* / t}(z / t) ---------------------


@pytest.mark.parametrize("step", STEPS)
def test_moreau_identity_of_l1(step: float) -> None:
    z, weight = draws(10), 0.7
    conjugate = (z / step).clamp(-weight, weight)  # projection on the dual ball
    recovered = L1(weight).prox(z, step) + step * conjugate
    torch.testing.assert_close(recovered, z, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("step", STEPS)
def test_moreau_identity_of_squared_l2(step: float) -> None:
    z, weight = draws(11), 1.3
    # h*(u) = |u|^2 / (2 weight), so its prox shrinks by 1 / (1 + 1 / (step weight)).
    conjugate = SquaredL2(1 / weight).prox(z / step, 1 / step)
    recovered = SquaredL2(weight).prox(z, step) + step * conjugate
    torch.testing.assert_close(recovered, z, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("step", STEPS)
def test_moreau_identity_of_box(step: float) -> None:
    z, lower, upper = draws(12), -0.5, 1.0
    # h*(u) = upper max(u, 0) + lower min(u, 0): a soft threshold with two sides.
    u = z / step
    conjugate = (u - upper / step).clamp(min=0) + (u - lower / step).clamp(max=0)
    recovered = Box(lower, upper).prox(z, step) + step * conjugate
    torch.testing.assert_close(recovered, z, rtol=0, atol=ROUNDING)


# -- values and zeros ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("none", lambda _: 0.0),
        ("l1", lambda x: 0.7 * sum(map(abs, x))),
        ("squared-l2", lambda x: 1.3 / 2 * sum(v * v for v in x)),
        (
            "elastic-net",
            lambda x: sum(0.4 * abs(v) + 0.45 * v * v for v in x),
        ),
        (
            "group-lasso",
            lambda x: (
                0.5
                * (
                    math.sqrt(3) * math.hypot(x[0], x[1], x[7])
                    + math.sqrt(2) * math.hypot(x[2], x[4])
                    + math.sqrt(3) * math.hypot(x[3], x[5], x[6])
                )
            ),
        ),
        (
            "group-lasso-rows",
            lambda x: (
                0.5
                * (
                    math.sqrt(3) * (math.hypot(*x[:3]) + math.hypot(*x[3:6]))
                    + abs(x[6])
                    + abs(x[7])
                )
            ),
        ),
        ("box", lambda x: 0.0 if all(-0.5 <= v <= 1 for v in x) else math.inf),
        ("non-negative", lambda x: 0.0 if min(x) >= 0 else math.inf),
        ("l-inf-ball", lambda x: 0.0 if max(map(abs, x)) <= 0.6 else math.inf),
        (
            "simplex",
            lambda x: 0.0 if min(x) >= 0 and abs(sum(x) - 1) < 1e-14 else math.inf,
        ),
        ("only-l1", lambda x: 0.7 * sum(map(abs, x[:6]))),
        (
            "only-group-lasso-rows",
            lambda x: 0.8 * math.sqrt(3) * (math.hypot(*x[:3]) + math.hypot(*x[3:6])),
        ),
    ],
)
def test_values_by_formula(name: str, formula: Callable[[list[float]], float]) -> None:
    h = ZOO[name]
    x = torch.cat([draws(13), draws(14, scale=0.2), draws(14, scale=0.2).abs()])
    x = torch.cat([x, x.abs() / x.abs().sum(1, keepdim=True)])
    found = h.value(x).tolist()
    expected = [formula(row) for row in x.tolist()]
    assert found == pytest.approx(expected, rel=ROUNDING)
    if name in {"box", "simplex"}:
        assert set(found) == {0.0, math.inf}  # both sides were tried


def test_l1_prox_gives_exact_zeros() -> None:
    z = torch.tensor([[0.1, -0.1, 0.3, -0.3, 0.30000001, 2.0, -5.0, 0.0]])
    for dtype in (torch.float64, torch.float32):
        y = L1(3.0).prox(z.to(dtype), 0.1 + 1e-9)
        assert (y[0, [0, 1, 2, 3, 7]] == 0).all()
        assert y[0, 5:7].tolist() == pytest.approx([1.7, -4.7], abs=1e-6)


def test_group_lasso_removes_whole_groups_exactly() -> None:
    h = GroupLasso(1.0, torch.tensor([0, 0, 1, 1]))
    y = h.prox(torch.tensor([[0.6, 0.6, 3.0, 4.0], [0.0, 0.0, 0.0, 1.0]]), 1.0)
    shrunk = 1 - math.sqrt(2) / 5
    assert y[0, :2].tolist() == [0, 0]
    assert y[0, 2:].tolist() == pytest.approx([3 * shrunk, 4 * shrunk], abs=ROUNDING)
    assert y[1].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("weight", [nn.Linear(3, 2), nn.Conv2d(2, 3, 2)], ids=str)
def test_rows_of_a_model_are_its_units(weight: nn.Module) -> None:
    layout = Layout.of(weight)
    groups = GroupLasso(1.0).bind(layout).groups
    assert isinstance(groups, Tensor)
    parts = layout.unflatten(groups)
    units = len(parts["bias"])
    per_unit = parts["weight"].reshape(units, -1)
    assert (per_unit == torch.arange(units)[:, None]).all()
    assert parts["bias"].tolist() == list(range(units, 2 * units))


def test_only_leaves_the_other_columns_alone() -> None:
    z = draws(15)
    y = ZOO["only-l1"].prox(z, 1.0)
    assert torch.equal(y[:, 6:], z[:, 6:])
    assert torch.equal(y[:, :6], L1(0.7).prox(z[:, :6], 1.0))


# -- distances to the subdifferential --------------------------------------------------


def subdifferential_of_l1(y: float) -> tuple[float, float]:
    return (0.7 * math.copysign(1, y),) * 2 if y else (-0.7, 0.7)


def subdifferential_of_elastic_net(y: float) -> tuple[float, float]:
    low, high = (0.4 * math.copysign(1, y),) * 2 if y else (-0.4, 0.4)
    return low + 0.9 * y, high + 0.9 * y


def subdifferential_of_box(y: float) -> tuple[float, float]:
    return -math.inf if y == -0.5 else 0.0, math.inf if y == 1.0 else 0.0


@pytest.mark.parametrize(
    ("name", "interval", "points"),
    [
        ("l1", subdifferential_of_l1, [-2.0, -1e-9, 0.0, 0.3]),
        ("elastic-net", subdifferential_of_elastic_net, [-2.0, 0.0, 0.3]),
        ("box", subdifferential_of_box, [-0.5, 0.2, 1.0]),
    ],
)
def test_distance_by_brute_force_in_one_dimension(
    name: str, interval: Callable[[float], tuple[float, float]], points: list[float]
) -> None:
    for y in points:
        low, high = (min(max(end, -10), 10) for end in interval(y))
        candidates = np.linspace(low, high, int((high - low) / GRID_STEP) + 2)
        for u in (-3.0, -0.7, -0.2, 0.0, 0.5, 2.5):
            expected = float(np.min((candidates - u) ** 2))
            found = ZOO[name].distance(torch.tensor([[u]]), torch.tensor([[y]]))
            error = 2 * abs(math.sqrt(expected)) * GRID_STEP + GRID_STEP**2
            assert found.tolist() == pytest.approx([expected], abs=error)


def test_distance_of_group_lasso_by_hand() -> None:
    h = GroupLasso(1.0, torch.tensor([0, 0, 1]))
    # Group 0 is zero: a ball of radius sqrt(2); group 1 is not: the one point 1.
    y = torch.tensor([[0.0, 0.0, 2.0]])
    u = torch.tensor([[3.0, 4.0, 0.5]])
    expected = (5 - math.sqrt(2)) ** 2 + 0.5**2
    assert h.distance(u, y).tolist() == pytest.approx([expected], rel=ROUNDING)
    inside = torch.tensor([[1.0, -1.0, 1.0]])
    assert h.distance(inside, y).tolist() == pytest.approx([0], abs=ROUNDING)


def test_distance_of_only_counts_the_other_columns() -> None:
    u = torch.zeros(1, P)
    u[0, 6] = 3.0
    assert ZOO["only-l1"].distance(u, torch.zeros(1, P)).tolist() == [9.0]


@pytest.mark.parametrize("name", WITH_SUBGRAD)
def test_subgrad_lies_in_the_subdifferential(name: str) -> None:
    h, x = ZOO[name], draws(16)
    x[:, ::3] = 0
    x[0] = 0
    subgradient = h.subgrad(x)
    assert (h.distance(subgradient, x) < SQUARED).all()
    for seed in range(20):  # h(v) >= h(x) + <s, v - x>
        v = draws(200 + seed)
        bound_below = h.value(x) + (subgradient * (v - x)).sum(1)
        assert (h.value(v) >= bound_below - ROUNDING).all()


# -- any shape, any numbers ------------------------------------------------------------

numbers = st.floats(-100, 100, allow_subnormal=False)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, Tensor, float]:
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 9)))
    size = shape[0] * shape[1]
    pair = draw(st.lists(numbers, min_size=2 * size, max_size=2 * size))
    z, w = torch.tensor(pair, dtype=torch.float64).view(2, *shape)
    return z, w, draw(st.floats(1e-3, 1e3))


def any_shape(columns: int) -> list[Any]:
    return [
        NoRegularizer(),
        L1(0.3),
        SquaredL2(2.0),
        ElasticNet(0.3, 2.0),
        GroupLasso(0.3, torch.arange(columns) // 2),
        Box(-1.0, 2.0),
        NonNegative(),
        LInfBall(1.5),
        Simplex(2.0),
    ]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cases())
def test_prox_properties_on_any_shape(case: tuple[Tensor, Tensor, float]) -> None:
    z, w, step = case
    for h in any_shape(z.shape[1]):
        y, v = h.prox(z, step), h.prox(w, step)
        assert y.shape == z.shape
        shift, moved = z - w, y - v
        slack = ROUNDING * (1 + float(z.abs().max() + w.abs().max()) ** 2)
        assert (moved.square().sum(1) <= (moved * shift).sum(1) + slack).all(), h
        assert torch.isfinite(h.value(y)).all(), h
        # v is feasible, so the minimiser y is at least as good.
        excess = objective(h, y, z, step) - objective(h, v, z, step)
        assert (excess <= slack * (1 + step)).all(), h


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cases())
def test_moreau_and_zeros_on_any_shape(case: tuple[Tensor, Tensor, float]) -> None:
    z, _, step = case
    y = L1(0.3).prox(z, step)
    assert torch.equal(y == 0, z.abs() <= 0.3 * step)
    recovered = y + step * (z / step).clamp(-0.3, 0.3)
    torch.testing.assert_close(recovered, z, rtol=0, atol=1e-11)


# -- what is refused -------------------------------------------------------------------


def test_every_named_regularizer_is_tested_and_fits_the_protocol() -> None:
    assert set(REGULARIZERS) <= set(ZOO)
    for name, kind in REGULARIZERS.items():
        assert isinstance(ZOO[name], kind)
    for h in ZOO.values():
        assert isinstance(h, Regularizer)


def test_bound_passes_on_what_needs_no_layout() -> None:
    h = L1(1.0)
    assert bind_to_layout(h, LAYOUT) is h


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: L1(-1.0), "L1: `weight` must be finite and not negative, got -1.0."),
        (
            lambda: L1(math.inf),
            "L1: `weight` must be finite and not negative, got inf.",
        ),
        (
            lambda: SquaredL2(math.nan),
            "SquaredL2: `weight` must be finite and not negative, got nan.",
        ),
        (
            lambda: ElasticNet(0.1, -2.0),
            "ElasticNet: `l2` must be finite and not negative, got -2.0.",
        ),
        (
            lambda: ElasticNet(-0.1, 2.0),
            "ElasticNet: `l1` must be finite and not negative, got -0.1.",
        ),
        (
            lambda: GroupLasso(-3.0),
            "GroupLasso: `weight` must be finite and not negative, got -3.0.",
        ),
        (
            lambda: LInfBall(-1.0),
            "LInfBall: `radius` must be finite and not negative, got -1.0.",
        ),
        (
            lambda: Box(1.0, -1.0),
            "Box: `lower` must not exceed `upper`, got 1.0 and -1.0.",
        ),
        (
            lambda: Box(math.nan, 1.0),
            "Box: `lower` must not exceed `upper`, got nan and 1.0.",
        ),
        (
            lambda: Box(0.0, math.nan),
            "Box: `lower` must not exceed `upper`, got 0.0 and nan.",
        ),
        (
            lambda: Simplex(0.0),
            "Simplex: `radius` must be positive and finite, got 0.0.",
        ),
        (
            lambda: Simplex(math.inf),
            "Simplex: `radius` must be positive and finite, got inf.",
        ),
        (
            lambda: GroupLasso(1.0, torch.tensor([0, 2])),
            "GroupLasso: `groups` must give each column a group number 0, 1, 2, ... "
            "without gaps, got [0, 2].",
        ),
        (
            lambda: GroupLasso(1.0, torch.tensor([0, 0, 1])).bind(LAYOUT),
            "GroupLasso: `groups` numbers 3 columns but the model has 8 trainable "
            "parameters.",
        ),
        (
            lambda: GroupLasso(1.0).value(torch.zeros(1, 3)),
            'GroupLasso: groups="rows" needs a model to know its rows; use it in a '
            "`LearningProblem`, or give the group number of each column.",
        ),
    ],
)
def test_refusals(build: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value) == message


def test_unknown_names_come_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"`row`.* Did you mean `rows`\?"):
        GroupLasso(1.0, "row")
    with pytest.raises(InputError, match=r"`weights`.* Did you mean `weight`\?"):
        Only(L1(1.0), "weights").bind(LAYOUT)
    with pytest.raises(InputError, match=r"`nothing\*`"):
        Only(L1(1.0), ("weight", "nothing*")).bind(LAYOUT)
