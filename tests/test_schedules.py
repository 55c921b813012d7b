"""Step sizes: the two paths agree, the bounds hold, nonsense is refused."""

import math

import pytest
import torch

from proxmesh import schedules
from proxmesh.errors import InputError
from proxmesh.schedules import Constant, Power

ROUNDING = 1e-14  # one `pow` and one product in float64, by two libraries

POWERS = [
    Power(0.25, 1 / 3),
    Power(2.0, -2 / 3, ceiling=1.0),
    Power(1.5, -0.5, offset=7),
    Power(3.0, 0.0),
    Power(0.1, 2.0, offset=1, ceiling=5.0),
]


@pytest.mark.parametrize("schedule", POWERS, ids=repr)
@pytest.mark.parametrize("k", [1, 2, 8, 1000, 10**6])
def test_int_and_tensor_paths_agree(schedule: Power, k: int) -> None:
    by_tensor = schedule(torch.tensor(k))
    by_int = schedule(k)
    assert isinstance(by_int, float)
    assert isinstance(by_tensor, torch.Tensor)
    assert by_tensor.dtype == torch.float64
    assert by_tensor.shape == ()
    assert float(by_tensor) == pytest.approx(by_int, rel=ROUNDING)


def test_tensor_path_is_float64_even_where_float32_is_the_default() -> None:
    torch.set_default_dtype(torch.float32)
    value = Power(1.0, 1 / 3)(torch.tensor(10))
    assert isinstance(value, torch.Tensor)
    assert value.dtype == torch.float64
    assert float(value) == pytest.approx(10 ** (1 / 3), rel=ROUNDING)


@pytest.mark.parametrize(
    ("schedule", "k", "expected"),
    [
        (Power(0.25, 1 / 3), 8, 0.5),
        (Power(1.5, -0.5, offset=7), 9, 1.5 / 4),
        (Power(2.0, -2 / 3), 1, 2.0),
        (Power(2.0, -2 / 3, ceiling=1.0), 1, 1.0),
        (Power(2.0, -2 / 3, ceiling=1.0), 8, 0.5),
        (Power(5.0, 3.0, offset=-1), 3, 40.0),
    ],
    ids=str,
)
def test_values_by_hand(schedule: Power, k: int, expected: float) -> None:
    assert schedule(k) == pytest.approx(expected, rel=ROUNDING)


@pytest.mark.parametrize("k", [0, 1, 10**9])
def test_constant_is_constant(k: int) -> None:
    schedule = schedules.constant(0.3)
    assert schedule == Constant(0.3)
    assert schedule(k) == 0.3
    assert schedule(torch.tensor(k)) == 0.3


def test_power_builds_the_schedule() -> None:
    assert schedules.power(2, -1, offset=3) == Power(2.0, -1.0, 3)
    assert schedules.power(1.25, -0.5)(4) == 0.625


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_numbers_are_refused(bad: float) -> None:
    with pytest.raises(InputError, match=r"constant: `value` must be finite, got"):
        schedules.constant(bad)
    with pytest.raises(InputError, match=r"power: `coefficient` must be finite, got"):
        schedules.power(bad, 1.0)
    with pytest.raises(InputError, match=r"power: `exponent` must be finite, got"):
        schedules.power(1.0, bad)
