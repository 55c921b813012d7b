"""A problem for every seed."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from proxmesh.errors import InputError
from proxmesh.hashing import derived_seed
from proxmesh.solver.run import Run
from proxmesh.types import Problem, can_be_reseeded
from proxmesh.types.problem_abilities import offers

__all__ = ["GivenProblem", "problem_of", "seeded"]

GivenProblem: TypeAlias = Problem | Callable[[int], Problem]


def problem_of(given: GivenProblem, seed: int, many: bool = True) -> Problem:
    """The problem of a seed: made by a function, or the same with other draws."""
    if not offers(given, "sample"):
        if not callable(given) or isinstance(given, type):
            raise InputError(
                f"`problem` is a {type(given).__name__}. Give a problem, or a function "
                "`seed -> problem`."
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, "init"))
            made: Problem = given(seed)
        return made
    problem: Any = given
    if can_be_reseeded(problem):
        return problem.reseeded(seed)
    if many:
        raise InputError(
            f"`{type(problem).__name__}` has no `reseeded(seed)`, so all seeds would "
            "be alike. Give a function: `problem=lambda seed: ...`."
        )
    return problem  # type: ignore[no-any-return]


def seeded(seed: int) -> Callable[[Run], Mapping[str, Any]]:
    """What is kept as the config of a run of this seed."""
    return lambda run: {**run.description, "seed": seed}
