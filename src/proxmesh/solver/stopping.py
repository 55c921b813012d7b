"""Stop when a number no longer gets better."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

from proxmesh.checks import require_nonnegative, require_whole
from proxmesh.metrics import HIGHER_IS_BETTER

__all__ = ["EarlyStopping", "Patience"]


@final
@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Stop a run when a column has not become better for some evaluations in a row.

    Give it among the `callbacks` of `proxmesh.solve`. The run then ends with the
    outcome `stopped early`. It reads the history alone, so that a run that was cut off
    and goes on stops where it would have stopped without the break.

    Parameters
    ----------
    metric
        A column of the history, or one of your own `metrics`.
    patience
        Evaluations in a row without a better value; how often there is one says
        `eval_every`.
    min_change
        By how much more than this a value must be better than the best so far.
    higher_is_better
        None: True for accuracies, False for everything else.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(4))
    >>> stop = pm.EarlyStopping("train_loss", patience=2, min_change=0.05)
    >>> result = pm.solve(problem, pm.HSMADMM(), pm.graphs.ring(4), steps=400,
    ...                   callbacks=[stop])
    >>> str(result.outcome), result.final["iteration"] < 400
    ('stopped early', True)
    """

    metric: str
    patience: int
    min_change: float = 0.0
    higher_is_better: bool | None = None

    def __post_init__(self) -> None:
        require_whole("EarlyStopping", 1, patience=self.patience)
        require_nonnegative("EarlyStopping", min_change=self.min_change)


@final
class Patience:
    """What is left of the patience of one run, counted along its history."""

    def __init__(
        self, rule: EarlyStopping, rows: Iterable[Mapping[str, float]] = ()
    ) -> None:
        self.rule = rule
        above = rule.higher_is_better
        rises = rule.metric in HIGHER_IS_BETTER if above is None else above
        self._sign = 1.0 if rises else -1.0
        self._best = -math.inf
        self._best_at = 0
        self._in_vain = 0
        for row in rows:
            self.add(row)

    def add(self, row: Mapping[str, float]) -> None:
        """Count one more evaluation; a number that is not known is none better."""
        value = self._sign * row.get(self.rule.metric, math.nan)
        if value > self._best + (self.rule.min_change if self._best > -math.inf else 0):
            self._best, self._best_at, self._in_vain = value, int(row["iteration"]), 0
        else:
            self._in_vain += 1

    @property
    def reason(self) -> str | None:
        """Why to stop, if it is time to."""
        if self._in_vain < self.rule.patience:
            return None
        best = f"{self._sign * self._best:.3g} at iteration {self._best_at}"
        return (
            f"{self.rule.metric} was best, {best}, and not better in the "
            f"{self.rule.patience} evaluations after it."
        )
