"""What a comparison over seeds asks of a problem."""

from typing import Protocol, TypeGuard

from proxmesh.types.problem_abilities import offers
from proxmesh.types.protocols import Problem

__all__ = ["Reseeded", "can_be_reseeded"]


class Reseeded(Problem, Protocol):
    """A problem of which there is another one for every seed."""

    def reseeded(self, seed: int) -> Problem:
        """The same problem with other draws.

        Parameters
        ----------
        seed
            Of the draws.
        """
        ...


def can_be_reseeded(problem: Problem) -> TypeGuard[Reseeded]:
    """Whether it makes the problem of another seed itself: `Reseeded`."""
    return offers(problem, "reseeded")
