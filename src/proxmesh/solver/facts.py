"""What decides the numbers of a run, in words: for a handshake, and to go on later."""

from typing import Any

from torch import Tensor

from proxmesh.solver.settings import Hooks, Settings
from proxmesh.types import Algorithm, Problem, facts_of

__all__ = ["deciding"]


def deciding(
    algorithm: Algorithm[Any],
    problem: Problem,
    rows: Tensor,
    settings: Settings,
    hooks: Hooks,
) -> dict[str, str]:
    """What must be the same in every process, as far as problem and hooks tell."""
    known = facts_of(problem)
    told = {
        "dtype": known.dtype,
        "batch size": known.batch_size,
        "seed": known.seed,
        "regularizer": known.regularizer,
        "sample shape": known.sample_shape,
        "number of parameters": rows.shape[1],
    }
    return {
        "algorithm": repr(algorithm),
        **{name: str(value) for name, value in told.items() if value is not None},
        **settings.facts(),
        **hooks.facts(),
    }
