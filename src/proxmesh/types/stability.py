"""What a method knows about the length of its steps: when they are short enough."""

from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, TypeVar

from proxmesh.types.problem_abilities import offers
from proxmesh.types.protocols import Algorithm

__all__ = ["StepBound", "WithStepBound", "has_step_bound"]

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class StepBound:
    """``Q > H/2 + edges L + mixing (I - W) + own I``: then an iteration is stable.

    H holds the curvatures of the losses, L is the Laplacian, W the mixing matrix.

    Parameters
    ----------
    inverse_step
        The diagonal of Q: one number for all agents, or one for each.
    edges, mixing
        Weights of L and of I - W.
    own
        Weight of I that the worst prox asks for, and no prox does not.
    penalty
        Weight of L up to which neighbors hold an agent whose loss curves down.
    parameter
        The field of the method to change where the step is too long.
    value
        What it is.
    per_unit
        How much each entry of Q grows with it by 1; 0: it is a step size, to which Q
        and `mixing` are in inverse proportion.
    sharp
        Whether an iteration beyond the bound is unstable for some loss; False: the
        bound is known to suffice, no more.

    Examples
    --------
    >>> StepBound(2.0, parameter="alpha", value=0.5).sharp
    True
    """

    inverse_step: Any
    edges: float = 0.0
    mixing: float = 0.0
    own: float = 0.0
    penalty: float = 0.0
    parameter: str = "smoothness"
    value: float = 0.0
    per_unit: float = 0.0
    sharp: bool = True


class WithStepBound(Algorithm[S], Protocol[S]):
    """An algorithm that knows when its steps are short enough."""

    def step_bound(self, k: int, degree: Any) -> StepBound:
        """The bound on the step that makes iterate k.

        Parameters
        ----------
        k
            Iteration, from 1 on.
        degree
            Of every agent of the network.
        """
        ...


def has_step_bound(algorithm: Algorithm[S]) -> TypeGuard[WithStepBound[S]]:
    """Whether it knows when its steps are short enough: `WithStepBound`."""
    return offers(algorithm, "step_bound")
