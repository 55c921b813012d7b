"""Compressors: what they let through, what they declare, and how they are written."""

import json
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from zoo import Quadratics

import proxmesh as pm
from proxmesh.compressors import (
    Bits,
    Identity,
    Known,
    Pow2,
    RandomK,
    Sign,
    TopK,
    require_contractive,
)
from proxmesh.errors import InputError
from proxmesh.runs.build import build_algorithm
from proxmesh.runs.config import load_config
from proxmesh.solver.method_as_text import as_written, from_written
from proxmesh.types import Compressor

EVERY: list[Any] = [
    Identity(), TopK(0.1), TopK(1.0), RandomK(0.2), RandomK(0.2, seed=7), Bits(2),
    Bits(8), Bits(4, stochastic=True), Bits(4, block=16), Sign(), Pow2(),
]  # fmt: skip


def rows(p: int, seed: int = 0) -> Tensor:
    """Entries of very different sizes."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(5, p, generator=g) * torch.logspace(-3, 3, p)


@pytest.mark.parametrize("compressor", EVERY, ids=str)
@pytest.mark.parametrize("p", [1, 7, 60])
def test_what_is_declared_is_so(compressor: Any, p: int) -> None:
    drawn = isinstance(compressor, RandomK) or compressor == Bits(4, stochastic=True)
    for seed in range(5):
        u, keys = rows(p, seed), range(400 if drawn else 1)
        lost = torch.stack(
            [(u - compressor.compress(u, key)).square().sum(1) for key in keys]
        ).mean(0)
        bound = (1 - compressor.contraction(p)) * u.square().sum(1)
        # Where one entry has nearly all the size, 400 draws of it differ by a tenth.
        slack = 0.1 * u.square().sum(1) if isinstance(compressor, RandomK) else 0
        assert (lost <= bound * (1 + 1e-9) + slack + 1e-12).all()
    require_contractive("test", compressor, p)


@pytest.mark.parametrize("compressor", EVERY, ids=str)
def test_a_message_is_a_pure_function_and_scales_with_the_vector(
    compressor: Any,
) -> None:
    u = rows(33)
    once, again = (compressor.compress(u, torch.tensor(5)) for _ in range(2))
    assert torch.equal(once, again)
    torch.testing.assert_close(compressor.compress(8 * u, 5), 8 * once)
    assert (compressor.compress(0 * u, 5) == 0).all()
    single = compressor.compress(u.float(), 5)
    assert single.dtype == torch.float32
    keys = torch.arange(5)[:, None]  # one for each agent
    assert compressor.compress(u, keys).shape == u.shape
    assert 0 < compressor.message_bits(33, 32) <= 33 * 38


def test_values_by_hand() -> None:
    u = torch.tensor([[3.0, -1.0, 0.25, -4.0, 0.0]])
    assert TopK(0.4).compress(u, 0).tolist() == [[3, 0, 0, -4, 0]]
    assert Pow2().compress(u, 0).tolist() == [[2, -1, 0.25, -4, 0]]
    assert Sign().compress(u, 0).tolist() == [[1.65, -1.65, 1.65, -1.65, 1.65]]
    assert Bits(3).compress(u, 0)[0].tolist() == pytest.approx(
        [8 / 3, -4 / 3, 0, -4, 0]
    )
    assert [c.message_bits(5, 32) for c in (Identity(), Bits(3), Sign(), Pow2())] == [
        160, 47, 37, 45,
    ]  # fmt: skip
    assert TopK(0.4).message_bits(5, 32) == 2 * (32 + 3)
    two = Bits(3, block=2)
    assert two.compress(u, 0)[0].tolist() == pytest.approx([3, -1, 0, -4, 0])
    assert two.message_bits(5, 32) == 5 * 3 + 3 * 32
    drawn = RandomK(0.4).compress(torch.ones(1, 1000), torch.arange(20)[:, None])
    assert (drawn.sum(1) == 400).all()
    assert (drawn[0] != drawn[1]).any()


def test_rounding_at_random_is_right_on_average() -> None:
    u = rows(12)
    seen = torch.stack([Bits(3, True).compress(u, key) for key in range(2000)])
    step = u.abs().amax(1, keepdim=True) / 3
    assert ((seen.mean(0) - u).abs() < 0.05 * step).all()


class Rounding:
    """A grid that does not scale with the vector."""

    def compress(self, rows: Tensor, key: Any) -> Tensor:
        del key
        return (4 * rows).round() / 4

    def contraction(self, p: int) -> float:
        del p
        return 0.5

    def message_bits(self, p: int, width: int) -> float:
        return float(p * width)


@pytest.mark.parametrize(
    ("compressor", "message"),
    [
        (Bits(3, stochastic=True), "not contractive for 1,000 parameters: Bits"),
        (Rounding(), "entries of about 0.001, .* lets nothing through"),
    ],
)
def test_a_compressor_that_is_not_contractive_is_refused(
    compressor: Any, message: str
) -> None:
    problem = Quadratics.random(3, 1000, 0.1, 0)
    world = pm.connect(pm.graphs.path(3))
    with pytest.raises(pm.InputError, match=message):
        pm.CDProxSGT(compressor=compressor).init(torch.zeros(3, 1000), problem, world)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TopK(0.0), "TopK: `share` must be positive and finite, got 0.0."),
        (lambda: RandomK(1.5), "RandomK: `share` must be at most 1, got 1.5."),
        (lambda: Bits(1), "Bits: `bits` must be a whole number of at least 2, got 1."),
        (
            lambda: pm.CDProxSGT(compressor="top-k"),  # type: ignore[arg-type]
            "CDProxSGT: `compressor` must have `compress`, `contraction` and "
            "`message_bits`, got 'top-k'. See `proxmesh.compressors`.",
        ),
    ],
)
def test_bad_values(build: Any, message: str) -> None:
    with pytest.raises(pm.InputError) as caught:
        build()
    assert str(caught.value) == message


def test_names_on_the_command_line_and_in_files() -> None:
    def of(*assignments: str) -> Any:
        name = {"algorithm.name": "cdprox-sgt"}
        return build_algorithm(load_config(None, name, assignments)).compressor

    assert of() == Bits(4)
    kind = "algorithm.compressor.kind"
    assert of(f"{kind}=top-k", "algorithm.compressor.share=0.3") == TopK(0.3)
    assert of(f"{kind}=sign") == Sign()
    assert of(f"{kind}=bits", "algorithm.compressor.bits=6") == Bits(6)
    with pytest.raises(pm.InputError, match="algorithm `cdprox-sgt`"):
        of(f"{kind}=zip")
    for compressor in EVERY:
        method = pm.CDProxSGT(compressor=compressor)
        text = json.dumps(as_written(method))
        assert from_written(json.loads(text)) == method
    own = as_written(pm.CDProxSGT(compressor=Rounding()))
    assert own["name"] is None
    assert all(isinstance(c, Compressor) for c in [Rounding(), *EVERY])
    assert {type(c) for c in EVERY} == set(get_args(Known))


def test_bytes_are_those_of_compressed_messages() -> None:
    problem = Quadratics.random(3, 64, 0.1, 0)
    problem.batch_size = 1
    sent = [
        pm.solve(
            problem,
            pm.CDProxSGT(0.01, 0.5, 0.5, compressor),
            pm.graphs.path(3),
            5,
            x0=torch.zeros(3, 64),
            compile=False,
        ).history["bytes_sent"].iloc[-1]
        for compressor in (Identity(), Bits(4))
    ]  # fmt: skip
    assert sent == [5 * 2 * 4 * 64 * 8, 5 * 2 * 4 * (64 * 4 + 64) // 8]


def test_an_unknown_kind_in_a_config_names_those_there_are() -> None:
    tree = {"algorithm.name": "cdprox-sgt", "algorithm.compressor": {"kind": "top-kk"}}
    with pytest.raises(InputError, match=r"unknown kind `top-kk` .* mean `top-k`"):
        build_algorithm(load_config(None, tree, []))


@pytest.mark.parametrize("compressor", EVERY, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_packed_messages_are_as_short_as_they_are_counted(
    compressor: Any, dtype: torch.dtype
) -> None:
    for p in (1, 7, 60, 1001):
        u = rows(p).to(dtype)
        u[:, p // 2] = 0
        for key in (torch.tensor(3), torch.arange(5)[:, None]):
            payload = compressor.pack(u, key)
            assert payload.dtype == torch.uint8
            bits = compressor.message_bits(p, 8 * dtype.itemsize)
            assert payload.shape == (5, -(-int(bits) // 8))
            again = compressor.unpack(payload, key, p, dtype)
            assert torch.equal(again, compressor.compress(u, key))
            assert again.dtype == dtype


def test_what_is_not_finite_stays_so_in_a_message() -> None:
    bad = torch.tensor([[1.0, float("nan"), 2.0], [1.0, float("inf"), 2.0]])
    for bits in (4, 5):
        payload = Bits(bits).pack(bad, 0)
        assert not Bits(bits).unpack(payload, 0, 3, bad.dtype).isfinite().all(1).any()


@pytest.mark.long
def test_recorded_and_compiled_blocks_have_steps_of_their_own() -> None:
    """In float32 and with a short last block, which torch 2.13 once got wrong."""

    def compress(rows: Tensor) -> tuple[Tensor]:
        return (Bits(4).compress(rows, key=1),)

    rows = torch.randn(4, 300, generator=torch.Generator().manual_seed(0))
    recorded = make_fx(compress, tracing_mode="fake")(rows)
    compiled: Any = torch._inductor.compile(recorded, [rows])
    torch.testing.assert_close(compiled(rows), compress(rows))
