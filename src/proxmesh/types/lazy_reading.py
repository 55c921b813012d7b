"""Problems whose data is not in memory: declared, not sniffed."""

from typing import Protocol, TypeGuard

from proxmesh.types.problem_abilities import offers
from proxmesh.types.protocols import Problem

__all__ = ["ReadsLazily", "reads_lazily"]


class ReadsLazily(Problem, Protocol):
    """A problem that may read its batches when they are drawn, one of them ahead."""

    @property
    def lazy(self) -> bool:
        """Whether it does; then no compiler can take the draw of a batch."""
        ...

    def stop_reading(self) -> None:
        """Wait for what is read ahead, and forget it; called when a run has ended."""
        ...


def reads_lazily(problem: Problem) -> TypeGuard[ReadsLazily]:
    """Whether batches are read when they are drawn: `ReadsLazily`."""
    return _may_read_lazily(problem) and problem.lazy


def _may_read_lazily(problem: Problem) -> TypeGuard[ReadsLazily]:
    return offers(problem, "stop_reading")
