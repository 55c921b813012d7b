"""HSM-ADMM made to suit the links of a network, and a notice where it does not."""

import dataclasses
import warnings
from typing import Any

from torch import Tensor

from proxmesh.algorithms import HSMADMM
from proxmesh.errors import InputError, Notice
from proxmesh.network.links import LinkedWorld, Plan
from proxmesh.types import Algorithm, Problem, World, facts_of

__all__ = ["require_suited", "suited", "suited_before", "suited_to"]

FITTED = ("dual_gain", "fresh", "integrated")


def suited(
    algorithm: Algorithm[Any], problem: Problem, world: World, rows: Tensor | None
) -> tuple[Algorithm[Any], tuple[str, ...]]:
    """The method with what is left open set for these links, and the names of that."""
    if not isinstance(world, LinkedWorld):
        return algorithm, ()
    p = facts_of(problem).p or (1 if rows is None else rows.shape[1])
    found = suited_to(algorithm, world.plan, p)
    if world.is_root:
        for line in require_suited(found, world.plan, p):
            warnings.warn(line, Notice, stacklevel=6)
    return found, tuple(name for name in FITTED if _open(algorithm, name))


def suited_before(earlier: Any, algorithm: Algorithm[Any]) -> Algorithm[Any]:
    """The method with what was set for the links of the run that goes on."""
    if not (isinstance(earlier, HSMADMM) and isinstance(algorithm, HSMADMM)):
        return algorithm
    before = dataclasses.asdict(earlier)
    open_ones = {name: before[name] for name in FITTED if _open(algorithm, name)}
    return dataclasses.replace(algorithm, **open_ones)


def _open(algorithm: Any, name: str) -> bool:
    """Whether this is left to be set."""
    if not isinstance(algorithm, HSMADMM):
        return False
    return dataclasses.asdict(algorithm)[name] is None


def suited_to(algorithm: Algorithm[Any], plan: Plan, p: int) -> Algorithm[Any]:
    """HSM-ADMM with what is left open set for these links; others as they are."""
    if not isinstance(algorithm, HSMADMM):
        return algorithm
    values: dict[str, Any] = {}
    if algorithm.integrated is None and plan.silent is not None:
        # A penalty that follows the losses is constant between looks, and the exchange
        # before a look arrives: sums in the network are then exact. One that grows
        # with k is not.
        values["integrated"] = not algorithm.follows and algorithm.split
    if algorithm.dual_gain is None:
        values["dual_gain"] = plan.gain(p)
    if algorithm.fresh is None:
        values["fresh"] = plan.fresh
    return dataclasses.replace(algorithm, **values) if values else algorithm


def require_suited(algorithm: Algorithm[Any], plan: Plan, p: int) -> list[str]:
    """Refuse what cannot work on these links; what may not, one line each."""
    plan.require_method(algorithm, p)
    if not isinstance(algorithm, HSMADMM):
        return []
    if algorithm.integrated and plan.compressed is not None:
        raise InputError(
            "HSMADMM: `integrated` does not go with Compressed: sums do not stand "
            "still as values do. Leave one of them out."
        )
    if plan.silent is not None and not (algorithm.follows or algorithm.integrated):
        raise InputError(
            "HSMADMM: a silent loss and a penalty that grows with k leave multipliers "
            f"that do not add up to 0 ({plan.silent}). Use `integrated=True`, leave "
            "`c_rho` and `c_eta` out, or have losses known."
        )
    if plan.silent is not None and plan.delay is not None and algorithm.follows:
        raise InputError(
            "HSMADMM: a silent loss with a delay needs `integrated`, whose penalty "
            "grows with k. Give `c_rho`, `c_eta` and `c_a`."
        )
    return plan.limits(algorithm.gain, p)
