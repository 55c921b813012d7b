"""Ranks that wait for nobody; started by tests/network/test_asynchronous_ranks.py."""

import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from zoo import Quadratics

import proxmesh as pm

HSM = pm.HSMADMM(c_rho=0.3, c_eta=0.6, c_a=1.0, smoothness=6.0)


@dataclasses.dataclass
class Slow(Quadratics):
    """Quadratics that can be dealt out, some of which take their time."""

    seconds: tuple[float, ...] = (0.0,)
    agents: tuple[int, ...] = ()

    def local(self, agents: Sequence[int]) -> "Slow":
        chosen = list(agents)
        return dataclasses.replace(
            self, a=self.a[chosen], b=self.b[chosen], agents=tuple(agents)
        )

    def grad(self, x: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        waits = self.seconds[self.agents[0] % len(self.seconds)] if self.agents else 0
        time.sleep(waits / 2)  # there are two in a step
        return super().grad(x, batch)

    def x0(self, init: str) -> torch.Tensor:
        del init
        return torch.zeros(len(self.a), self.a.shape[2])


def lasso(n: int, *seconds: float) -> Slow:
    made = Quadratics.random(n, 6, 0.1, seed=3)
    return Slow(made.a, made.b, made.l1, seconds=seconds or (0.0,))


def main(folder: Path) -> None:
    """Several runs in the same processes."""
    torch.set_default_dtype(torch.float64)
    ring, exact = pm.graphs.ring(4), lasso(4).solution(3000)
    given: dict[str, Any] = {"asynchronous": True, "progress": False}

    slowed = lasso(4, 0.02, 0.02, 0.02, 0.08)  # well above what a step computes
    first = pm.solve(slowed, HSM, ring, steps=200, eval_every=50, **given)
    assert str(first.outcome) == "finished", first.message
    assert first.history["iteration"].tolist() == [0, 50, 100, 150, 200]

    # Messages are older on a busy machine, and the way is longer then.
    second = pm.solve(lasso(4), HSM, ring, steps=2500, eval_every=500, **given)
    error = (second.state.x - exact).abs().max()
    assert error < 1e-6, error

    third = pm.solve(
        lasso(4),
        HSM,
        ring,
        steps=100_000,
        eval_every=20,
        target={"stationarity": 1e-3},
        **given,
    )
    assert str(third.outcome) == "target reached", third.message
    assert int(third.state.k) == third.final["iteration"]

    with pytest.raises(pm.InputError, match="Speeds is for simulated time"):
        pm.solve(lasso(4), HSM, ring, steps=5, links=[pm.links.Speeds([1, 4])], **given)
    row = first.history.iloc[-1]
    rank = pm.connect(ring).rank
    (folder / f"{rank}.steps").write_text(
        f"{row['fewest_steps']} {row['most_steps']} {row['stationarity']}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
