"""The one loop: step, evaluate now and then, stop for a reason."""

import contextlib
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import torch

from proxmesh.errors import InputError, LostRankError, Notice
from proxmesh.metrics import HIGHER_IS_BETTER, measure, measure_alone
from proxmesh.solver.arguments import require_columns
from proxmesh.solver.compile_step import Advance
from proxmesh.solver.costs import Costs
from proxmesh.solver.divergence import BLOW_UP, is_finite, post_mortem
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.history import ordered, table
from proxmesh.solver.last_good import LastGood
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.result import Result
from proxmesh.solver.settings import Hooks, Settings
from proxmesh.solver.signals import Signals
from proxmesh.solver.stopwatch import Stopwatch
from proxmesh.theory import Monitor
from proxmesh.types import Algorithm, Problem, World, has_sparse_rows, knows_a_remedy

__all__ = ["Loop"]

SECONDS_BETWEEN_GLANCES = 0.05
SIZES = ("stationarity", "consensus", "norm", "density")  # the first tells a blow-up


@final
@dataclass(slots=True)
class Loop:
    """One run in progress."""

    step: Advance
    algorithm: Algorithm[Any]
    problem: Problem
    world: World
    settings: Settings
    hooks: Hooks
    costs: Costs
    monitor: Monitor | None
    config: Mapping[str, Any] | None
    folder: RunFolder | None = None  # once there is something to write
    rows: list[Mapping[str, float]] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    clock: Stopwatch = field(default_factory=Stopwatch)
    glanced: float = 0.0  # seconds at which the observer was last told
    limit: float = math.inf  # stationarity beyond which the run has blown up

    def go(self, state: Any) -> Result:
        """Step and evaluate, and turn the end into a result.

        Nobody else may hold the state: it is large, and here it is let go step by step.
        """
        good, signals = LastGood(), Signals(self.world)
        good.keep(state)
        begin, every = int(state.k), self.settings.every
        end = begin + self.settings.steps
        self.clock.device = state.x.device
        with signals.noted():
            try:
                if not self._evaluate(state):
                    return self._diverged(state, begin)
                self.clock.start()
                for k in range(begin + 1, end + 1):
                    state = self.step(state)
                    self.costs.add(k)
                    if signals.ask_to_stop(k):
                        return self._interrupted(state, end)
                    if (k - begin) % every and k != end:
                        self._glance(k)
                        continue
                    self.clock.stop()
                    self._require_counted(state, k)
                    if not self._evaluate(state):
                        return self._diverged(good.get(), k)
                    good.keep(state)
                    if self.monitor is not None:
                        self.monitor.look(state)
                    reason = self._reason_to_stop(state)
                    if reason:
                        return self._result(Outcome.TARGET_REACHED, reason, state)
                    self.clock.start()
            except KeyboardInterrupt:
                if self.world.distributed:
                    raise  # not agreed on: the others are elsewhere
                return self._interrupted(state, end)
            except LostRankError as error:
                error.iteration = int(state.k)
                raise
            return self._result(Outcome.FINISHED, f"{end} iterations.", state)

    def _interrupted(self, state: Any, end: int) -> Result:
        """Stop here, after one more look."""
        self.clock.stop()
        self._look_once_more(state)
        message = f"after iteration {int(state.k)} of {end}."
        return self._result(Outcome.INTERRUPTED, message, state)

    def _glance(self, k: int) -> None:
        """Let the observer look, a few times a second: a look costs a small step."""
        if self.hooks.observer is None:
            return
        seconds = self.clock.seconds
        if seconds - self.glanced > SECONDS_BETWEEN_GLANCES:
            self.hooks.observer.on_step(k, seconds)
            self.glanced = seconds

    def _require_counted(self, state: Any, k: int) -> None:
        """Tell the observer, and refuse a step that does not count."""
        if self.hooks.observer is not None:
            self.hooks.observer.on_step(k, self.clock.seconds)
        if int(state.k) != k:
            raise InputError(
                f"`{type(self.algorithm).__name__}.step` must return a state "
                f"with k + 1; after iteration {k} it has {int(state.k)}."
            )

    def _evaluate(self, state: Any) -> bool:
        """Add rows to the history; False, and no row, if the state has blown up."""
        rows = self._measured(state)
        sizes = [next(row[n] for n in SIZES if n in row) for row in rows]
        small = self._everywhere(all(size <= self.limit for size in sizes))
        if not (small and is_finite(state, self.world)):
            return False
        if not self.rows:
            self.columns = ordered(list(rows[0]))
            self.limit = BLOW_UP * max(1.0, *sizes)
            require_columns(self.settings.target, self.columns)
            self._open_folder()  # only now: what was wrong has been found
        for row in rows:
            self.rows.append(row)
            if self.folder is not None:
                self.folder.append(row, self.columns)
            if self.hooks.observer is not None:
                self.hooks.observer.on_row(row)
        return True

    def _measured(self, state: Any) -> list[dict[str, float]]:
        """One row, the root's on every rank; or one for each agent that lives here."""
        counts = {"iteration": int(state.k), **self.costs.row()}
        counts["seconds"] = self.clock.seconds
        if self.settings.evaluation == "local":
            found = measure_alone(state, self.problem, self.world.agents)
            return [{**counts, **row} for row in found]
        own, kkt = self.hooks.metrics, self.settings.kkt
        row = measure(state, self.problem, self.world, own, kkt)
        return [self.world.share({**counts, **row})]

    def _everywhere(self, flag: bool) -> bool:
        """Whether it holds on every rank, so that all take the same decision."""
        here = torch.full((len(self.world.agents),), float(flag))
        return bool(self.world.reduce(here, "min"))

    def _look_once_more(self, state: Any) -> None:
        """Evaluate an interrupted run where it stands; a second Ctrl-C skips it."""
        if self.rows and self.rows[-1]["iteration"] == int(state.k):
            return
        with contextlib.suppress(KeyboardInterrupt):
            self._evaluate(state)

    def _reason_to_stop(self, state: Any) -> str | None:
        row = self.rows[-1]
        for name, value in self.settings.target.items():
            above = name in HIGHER_IS_BETTER
            if row[name] >= value if above else row[name] <= value:
                sign = ">=" if above else "<="
                return (
                    f"{name} {row[name]:.3g} {sign} {value:g} at iteration "
                    f"{row['iteration']:.0f}."
                )
        for callback in self.hooks.callbacks:
            stop = bool(callback(row, state))
            if not self._everywhere(not stop):
                name = getattr(callback, "__name__", type(callback).__name__)
                return f"stopped by `{name}` at iteration {row['iteration']:.0f}."
        return None

    def _open_folder(self) -> None:
        if self.hooks.out is None:
            return
        folder, force = RunFolder(self.hooks.out), self.hooks.force
        if self.world.is_root:
            self.folder = folder.created(force)
            if self.config is not None:
                self.folder.write_config(self.config)
        if self.settings.evaluation == "local":
            self.folder = folder.created_for(self.world.agents, force)

    def _diverged(self, good: Any, last: int) -> Result:
        def step(state: Any) -> Any:
            return self.algorithm.step(state, self.problem, self.world)

        remedy = "Shorten the step."
        if knows_a_remedy(self.algorithm):
            remedy = self.algorithm.remedy()
        message = post_mortem(good, step, last, self.world, remedy)
        if self.hooks.observer is None:  # a returned result is easily left unread
            warnings.warn(f"the run diverged {message}", Notice, stacklevel=5)
        return self._result(Outcome.DIVERGED, message, good)

    def _result(self, outcome: Outcome, message: str, state: Any) -> Result:
        columns = self.columns or ["iteration"]
        result = Result(
            history=table(self.rows, columns),
            outcome=outcome,
            message=message,
            state=state,
            problem=self.problem,
            compiled=self.settings.compile == "on",
            algorithm=self.algorithm,
            monitor=self.monitor,
            means=self._means(state),
        )
        if self.folder is not None:
            self.folder.write_result(result, summary=self.world.is_root)
        return result

    def _means(self, state: Any) -> dict[str, torch.Tensor]:
        if self.settings.evaluation == "local":
            return {}
        means = {"x": self.world.reduce(state.x, "mean")}
        if has_sparse_rows(state):
            means["sparse"] = self.world.reduce(state.sparse, "mean")
        return means
