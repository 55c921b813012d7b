"""How a run ended."""

from enum import StrEnum

__all__ = ["Outcome"]


class Outcome(StrEnum):
    """How a run ended; `Result.message` says when and why.

    Examples
    --------
    >>> Outcome("target reached") is Outcome.TARGET_REACHED, Outcome.DIVERGED.is_good
    (True, False)
    """

    FINISHED = "finished"
    TARGET_REACHED = "target reached"
    STOPPED_EARLY = "stopped early"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"

    @property
    def is_good(self) -> bool:
        """Whether the run came where it was sent, so that its last numbers count."""
        return self not in {Outcome.DIVERGED, Outcome.INTERRUPTED}
