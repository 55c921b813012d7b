"""The one loop: step, evaluate now and then, stop for a reason."""

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import torch

from proxmesh.errors import InputError, LostRankError, Notice
from proxmesh.metrics import HIGHER_IS_BETTER, measure_alone, measure_closely
from proxmesh.solver.arguments import require_columns
from proxmesh.solver.closeups import Closeups
from proxmesh.solver.compile_step import Advance
from proxmesh.solver.costs import Costs
from proxmesh.solver.divergence import BLOW_UP, is_finite, post_mortem
from proxmesh.solver.folder import RunFolder
from proxmesh.solver.history import ordered, table
from proxmesh.solver.journal import Journal
from proxmesh.solver.last_good import LastGood
from proxmesh.solver.network_clock import on_the_network
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.pulse import Pulse
from proxmesh.solver.result import Result
from proxmesh.solver.saving import Saver
from proxmesh.solver.settings import Hooks, Settings
from proxmesh.solver.signals import Signals
from proxmesh.solver.stopping import EarlyStopping, Patience
from proxmesh.solver.stopwatch import Stopwatch
from proxmesh.solver.threads import ThreadWatch
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
    plain_step: Advance  # the same uncompiled, to find where a run went wrong
    algorithm: Algorithm[Any]
    problem: Problem
    world: World
    settings: Settings
    hooks: Hooks
    costs: Costs
    monitor: Monitor | None
    config: Mapping[str, Any]
    journal: Journal
    new_saver: Callable[[Path], Saver | None]
    threads: ThreadWatch
    folder: RunFolder | None = None  # once there is something to write
    saver: Saver | None = None
    unwritten: list[Mapping[str, float]] = field(default_factory=list)
    told: bool = False  # that the disk takes nothing
    closeups: Closeups | None = None  # where there is a folder to keep them in
    good: LastGood = field(default_factory=LastGood)
    looked: int = -1  # the last iteration whose evaluation was finished
    patience: list[Patience] = field(default_factory=list)
    ends: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    clock: Stopwatch = field(default_factory=Stopwatch)
    glanced: float = 0.0  # seconds at which the observer was last told
    beside: Callable[[Any], Mapping[str, float]] = lambda _: {}  # further columns

    def go(self, state: Any) -> Result:
        """Step and evaluate, and turn the end into a result.

        Nobody else may hold the state: it is large, and here it is let go step by step.
        """
        signals, pulse = Signals(self.world), Pulse(self.world)
        self.good.keep(state)
        end = self.journal.begin + self.settings.steps
        self.clock.device, self.clock.before = state.x.device, self.journal.seconds
        with self.ends, signals.noted():
            try:
                ended = self.begun(state)
                if ended is not None:
                    return ended
                self.clock.start()
                for k in range(int(state.k) + 1, end + 1):
                    state = self.step(state)
                    self.costs.add(k)
                    self.threads.look(k)
                    if self.is_to_look_at(k):
                        ended = self.look_at(state, k)
                        if ended is not None:
                            return ended
                    else:
                        self.glance(k)
                    if k < end and self._is_told_to_stop(signals, pulse, state, k):
                        return self.interrupted(state, end)
            except KeyboardInterrupt:
                if self.world.distributed:
                    raise  # not agreed on: the others are elsewhere
                return self.interrupted(state, end)
            except LostRankError as error:
                error.iteration = int(state.k)
                raise
            self.save_last(state)
            return self.result(Outcome.FINISHED, f"{end} iterations.", state)

    # `solver.asynchronous` calls those without an underscore in an order of its own.

    def begun(self, state: Any) -> Result | None:
        """Look where the run begins, or open its folder where it goes on."""
        k, journal = int(state.k), self.journal
        kept = self.hooks.out is not None and self.settings.evaluation == "mean"
        if self._everywhere(kept):
            self.closeups = Closeups(self.problem, self.world, journal)
        asked = [EarlyStopping(*one) for one in self.settings.patience.items()]
        for rule in (*asked, *self.hooks.rules):
            self.patience.append(Patience(rule, journal.rows))
        if not journal.rows:
            self.looked = k
            return None if self._evaluate(state) else self._diverged(state, k)
        self._open_folder(resumed_at=k)
        self._append([])
        self._begin_to_log()
        if journal.rows[-1]["iteration"] < k and self.is_to_look_at(k):
            return self.look_at(state, k)  # it was cut off before it had
        self.looked = k
        return None

    def is_to_look_at(self, k: int) -> bool:
        """Whether iteration k is evaluated."""
        done = k - self.journal.begin
        return done % self.settings.every == 0 or done == self.settings.steps

    def look_at(self, state: Any, k: int) -> Result | None:
        """Evaluate with the clock stopped; a result if the run ends here."""
        self.clock.stop()
        self._require_counted(state, k)
        if not self._evaluate(state):
            return self._diverged(self.good.get(), k)
        self.good.keep(state)
        if self.monitor is not None:
            self.monitor.look(state)
        ended = self._reason_to_stop(state)
        if ended is not None:
            return self.result(*ended, state)
        self.looked = k
        self.clock.start()
        return None

    def _is_told_to_stop(
        self, signals: Signals, pulse: Pulse, state: Any, k: int
    ) -> bool:
        """At a beat, ask all ranks whether one must stop, and see to checkpoints."""
        saver = self.saver
        if not (pulse.is_at(k) or (saver is not None and saver.is_at(k))):
            return False
        wishes = (False, False, False)
        if saver is not None:
            wishes = saver.answers(k, self.clock.seconds)
        stop, *found = pulse.ask(k, [signals.heard, *wishes])
        if saver is not None and not stop:
            self.journal.seconds = self.clock.seconds
            saver.act(state, self.journal, *found)
        return stop

    def interrupted(self, state: Any, end: int) -> Result:
        """Stop here: a checkpoint first, then one more look."""
        self.clock.stop()
        k = int(state.k)
        self.costs.catch_up(k)
        if self.looked < k:  # what a look has left behind that was cut off
            self.journal.forget(k)
        with contextlib.suppress(KeyboardInterrupt):  # asked twice: without it
            self.save_last(state, always=True)
        self._look_once_more(state)
        message = f"after iteration {k} of {end}."
        return self.result(Outcome.INTERRUPTED, message, state)

    def save_last(self, state: Any, always: bool = False) -> None:
        """Leave a checkpoint of the last state, if the run has made any or `always`."""
        if self.saver is None:
            return
        self.journal.seconds = self.clock.seconds
        if always:
            self.saver.save_now(state, self.journal)
        else:
            self.saver.close(state, self.journal)

    def glance(self, k: int) -> None:
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
        rows, each = self._measured(state)
        sizes = [next(row[n] for n in SIZES if n in row) for row in rows]
        journal = self.journal
        small = self._everywhere(all(size <= journal.limit for size in sizes))
        if not (small and is_finite(state, self.world)):
            return False
        if not journal.rows:
            journal.columns = ordered(list(rows[0]))
            journal.limit = BLOW_UP * max(1.0, *sizes)
            require_columns(self.settings.target, journal.columns)
            waited_for = [one.rule.metric for one in self.patience]
            require_columns(waited_for, journal.columns, "patience")
            self._open_folder()  # only now: what was wrong has been found
            self._begin_to_log()
        if self.closeups is not None:
            self.closeups.look(state, each)
        journal.rows += rows
        self._append(rows)
        for row in rows:
            for patience in self.patience:
                patience.add(row)
            if self.world.is_root:
                for logger in self.hooks.loggers:
                    logger.on_row(row)
            if self.hooks.observer is not None:
                self.hooks.observer.on_row(row)
        return True

    def _begin_to_log(self) -> None:
        if self.world.is_root:
            for logger in self.hooks.loggers:
                logger.begin(self.journal.rows)
                self.ends.callback(logger.close)

    def _append(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Write rows of the history now, or as soon as the disk takes them."""
        if self.folder is None:
            return
        self.unwritten += rows
        try:
            while self.unwritten:
                self.folder.append(self.unwritten[0], self.journal.columns)
                del self.unwritten[0]
            if self.closeups is not None:
                self.closeups.write(self.folder)
        except OSError as error:
            if not self.told:
                warnings.warn(
                    f"the history in `{self.folder.path}` cannot be written: "
                    f"{error.strerror}. The run goes on, and tries again.",
                    Notice,
                    stacklevel=2,
                )
            self.told = True
        else:
            self.told = False

    def _measured(
        self, state: Any
    ) -> tuple[list[dict[str, float]], dict[str, torch.Tensor]]:
        """One row, the root's on every rank; or one for each agent that lives here.

        With the one row also the local agents' parts of it.
        """
        counts = {"iteration": int(state.k), **self.costs.row()}
        counts["seconds"] = self.clock.seconds
        counts.update(self.beside(state))
        counts |= on_the_network(
            self.world, self.costs, self.journal.rows, int(state.k), self.clock.seconds
        )
        if self.settings.evaluation == "local":
            found = measure_alone(state, self.problem, self.world.agents)
            return [{**counts, **row} for row in found], {}
        own, kkt = self.hooks.metrics, self.settings.kkt
        row, each = measure_closely(state, self.problem, self.world, own, kkt)
        return [self.world.share({**counts, **row})], each

    def _everywhere(self, flag: bool) -> bool:
        """Whether it holds on every rank, so that all take the same decision."""
        here = torch.full((len(self.world.agents),), float(flag))
        return bool(self.world.reduce(here, "min"))

    def _look_once_more(self, state: Any) -> None:
        """Evaluate an interrupted run where it stands; a second Ctrl-C skips it."""
        rows = self.journal.rows
        if rows and rows[-1]["iteration"] == int(state.k):
            return
        with contextlib.suppress(KeyboardInterrupt):
            self._evaluate(state)

    def _reason_to_stop(self, state: Any) -> tuple[Outcome, str] | None:
        row = self.journal.rows[-1]
        for name, value in self.settings.target.items():
            above = name in HIGHER_IS_BETTER
            if row[name] >= value if above else row[name] <= value:
                sign = ">=" if above else "<="
                return Outcome.TARGET_REACHED, (
                    f"{name} {row[name]:.3g} {sign} {value:g} at iteration "
                    f"{row['iteration']:.0f}."
                )
        for patience in self.patience:
            if patience.reason:
                return Outcome.STOPPED_EARLY, patience.reason
        for callback in self.hooks.functions:
            stop = bool(callback(row, state))
            if not self._everywhere(not stop):
                name = getattr(callback, "__name__", type(callback).__name__)
                at = f"at iteration {row['iteration']:.0f}"
                return Outcome.STOPPED_EARLY, f"by `{name}` {at}."
        return None

    def _open_folder(self, resumed_at: int | None = None) -> None:
        """Make the run folder, or go on in it."""
        if self.hooks.out is None:
            return
        folder, force = RunFolder(self.hooks.out), self.hooks.force
        journal = self.journal
        if self.world.is_root:
            self.ends.callback(folder.locked().release)
        if resumed_at is not None:
            by_agent = self.settings.evaluation == "local"
            if by_agent or self.world.is_root:
                agents = self.world.agents if by_agent else ()
                self.folder = folder.reopened(journal, agents)
        else:
            if self.world.is_root:
                self.folder = folder.created(force)
            if self.settings.evaluation == "local":
                self.folder = folder.created_for(self.world.agents, force)
        if self.world.is_root:
            folder.write_config(self.config)
        self.saver = self.new_saver(folder.checkpoints)
        if self.saver is not None:
            self.saver.start_from(journal.seconds, resumed_at)
            self.ends.callback(self.saver.wait)  # whatever ends the run

    def _diverged(self, good: Any, last: int) -> Result:
        remedy = "Shorten the step."
        if knows_a_remedy(self.algorithm):
            remedy = self.algorithm.remedy()
        message = post_mortem(good, self.plain_step, last, self.world, remedy)
        if self.hooks.observer is None or self.hooks.progress:
            # A returned result is easily left unread.
            warnings.warn(f"the run diverged {message}", Notice, stacklevel=5)
        return self.result(Outcome.DIVERGED, message, good)

    def result(self, outcome: Outcome, message: str, state: Any) -> Result:
        """The end of the run, written to its folder."""
        columns = self.journal.columns or ["iteration"]
        result = Result(
            history=table(self.journal.rows, columns),
            outcome=outcome,
            message=message,
            state=state,
            problem=self.problem,
            compiled=self.settings.compile == "on",
            algorithm=self.algorithm,
            monitor=self.monitor,
            means=self._means(state),
            notes=tuple(self.threads.notes),
            config=self.config,
            folder=None if self.folder is None else self.folder.path,
        )
        if self.folder is not None:
            besides = {}
            if self.closeups is not None:
                besides = self.closeups.at_the_end(int(state.k), result.means)
            self.folder.write_result(result, self.world.is_root, besides)
        return result

    def _means(self, state: Any) -> dict[str, torch.Tensor]:
        if self.settings.evaluation == "local":
            return {}
        means = {"x": self.world.reduce(state.x, "mean")}
        if has_sparse_rows(state):
            means["sparse"] = self.world.reduce(state.sparse, "mean")
        return means
