"""A prepared run: everything is settled and can be looked at before it goes."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Generic, final

from typing_extensions import TypeVar

from proxmesh import __version__
from proxmesh.algorithms import HSMADMM
from proxmesh.display.stages import Watcher
from proxmesh.errors import InputError, Notice
from proxmesh.graphs import Graph
from proxmesh.solver.asynchronous import go_asynchronously
from proxmesh.solver.checkpoint import Manifest, described_by, fingerprint
from proxmesh.solver.compile_gradients import CompiledGradients
from proxmesh.solver.compile_step import Advance, CompiledStep, NotCompiledError
from proxmesh.solver.costs import Costs
from proxmesh.solver.description import described
from proxmesh.solver.facts import deciding
from proxmesh.solver.failures import announcing_failure
from proxmesh.solver.folder import without_empty
from proxmesh.solver.journal import Journal
from proxmesh.solver.links_as_text import links_as_written
from proxmesh.solver.loop import Loop
from proxmesh.solver.method_as_text import as_written
from proxmesh.solver.result import Result
from proxmesh.solver.saving import Interval, Saver
from proxmesh.solver.settings import MAY_CHANGE, Hooks, Observer, Settings
from proxmesh.solver.state import is_record
from proxmesh.solver.threads import ThreadWatch
from proxmesh.theory import (
    Certificate,
    Looks,
    Monitor,
    Settled,
    StepCertificate,
    certify,
)
from proxmesh.theory import settled as settle
from proxmesh.types import (
    Algorithm,
    Problem,
    World,
    advanced,
    chooses_a_way,
    has_links,
    has_step_bound,
    reads_lazily,
)

__all__ = ["Run"]

S = TypeVar("S", default=Any)  # the state of the method


@final
class Run(Generic[S]):
    """A run that is ready to go, made by `proxmesh.prepare`.

    Parameters
    ----------
    problem, graph, world
        This process's part of the problem, the graph, and the joined network.
    settings, hooks
        What the run does, with all defaults decided; what a program gave it.
    settled
        The algorithm with all its constants, and what was measured to find them.
    state
        The first state. `go` hands it to the loop, which must be the only one to hold
        it: it may be the largest thing in the process.
    journal
        What the run has seen before, if it goes on.
    threads
        Who looks whether the CPU's threads keep each other waiting.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(4))
    >>> run = pm.prepare(problem, pm.DSGT(), pm.graphs.star(4), steps=10)
    >>> run
    Run(DSGT on star(n=4), 10 steps, engine simulated)
    >>> run.cost().vectors, run.certificate() is None
    (20, True)
    """

    def __init__(
        self,
        problem: Problem,
        graph: Graph,
        world: World,
        *,
        settings: Settings,
        hooks: Hooks,
        settled: Settled,
        state: Any,
        journal: Journal,
        threads: ThreadWatch,
    ) -> None:
        self.problem = problem
        self.graph = graph
        self.world = world
        self.settings = settings
        self.hooks = hooks
        self.settled = settled
        self.journal = journal
        self.threads = threads
        self._begin = int(state.k)
        self._states = [state]  # taken out by `go`
        self.afterwards: Callable[[Result], None] = lambda _: None

    def __repr__(self) -> str:
        return (
            f"Run({type(self.algorithm).__name__} on {self.graph}, "
            f"{self.settings.steps:,} steps, engine {self.world.engine})"
        )

    @property
    def algorithm(self) -> Algorithm[Any]:
        """The method with every constant that is in force."""
        found: Algorithm[Any] = self.settled.algorithm
        return found

    @property
    def state(self) -> Any:
        """The first state, until the run goes."""
        if not self._states:
            raise InputError(
                "this run was made already. Prepare another, or go on from its result: "
                "`prepare(..., state=result)`."
            )
        return self._states[0]

    def measure(self) -> Settled:
        """Look at the curvature of the losses, if nobody has; every process calls it.

        Nothing but HSM-ADMM's constants and certificates need it.
        """
        if self.settled.smoothness is None and self._begin == 0:
            self.settled = settle(
                self.algorithm,
                self.problem,
                self.world,
                self.graph,
                self.state.x,
                always=True,
            )
        return self.settled

    def certificate(self) -> Certificate | StepCertificate | None:
        """Tell whether the steps are stable on this graph; every process calls it.

        None for methods without a known bound, and for a run that goes on from a state.
        """
        found = self.measure().smoothness
        algorithm = self.algorithm
        if found is None:
            return None
        upper, lower = found.gathered(self.world)
        steps = self.settings.steps
        if isinstance(algorithm, HSMADMM):
            return certify(algorithm, self.graph, upper, curvature=lower, steps=steps)
        if not has_step_bound(algorithm):
            return None
        return certify(algorithm, self.graph, upper, curvature=lower, steps=steps)

    def cost(self) -> Costs:
        """What the whole run computes and sends, `init` included; all processes call.

        Declared by the algorithm, so that it is known beforehand.
        """
        return self._costs_up_to(self.journal.begin + self.settings.steps)

    @property
    def config(self) -> Mapping[str, Any]:
        """What will be kept as config.toml, complete."""
        given = self.hooks.config
        if given is None:
            return self.description
        made: Mapping[str, Any] = given(self) if callable(given) else given
        return made

    @property
    def description(self) -> dict[str, Any]:
        """The run in the words of a config, as far as objects tell what they are."""
        told = described(
            self.problem,
            self.graph,
            settings=self.settings,
            hooks=self.hooks,
            settled=self.settled,
        )
        if self.links:
            told["links"] = {"models": [repr(model) for model in self.links]}
        return told

    @property
    def facts(self) -> dict[str, str]:
        """All that decides the numbers of the run, in words."""
        rows = self.state.x
        told = deciding(self.algorithm, self.problem, rows, self.settings, self.hooks)
        shared = {name: told[name] for name in told if name not in MAY_CHANGE}
        edges = fingerprint(self.graph.edges)
        shared["graph"] = f"{self.graph.n} agents, edges {edges[:16]}"
        if self.links:
            shared["links"] = repr(self.links)
        return shared

    @property
    def links(self) -> tuple[Any, ...]:
        """The models of its links: of the network, or of simulated time."""
        if has_links(self.world):
            return self.world.links
        return tuple(self.hooks.links) if self.settings.asynchronous else ()

    def go(self, observer: Observer | None = None) -> Result[S]:
        """Carry it out, once.

        Parameters
        ----------
        observer
            Who watches, if that was not said when the run was prepared.
        """
        observer = observer or self.hooks.observer
        shown = observer.shown() if isinstance(observer, Watcher) else nullcontext()
        with announcing_failure(self.world), shown:
            step = self._looking(self._step(observer))
            if self.settings.compile == "on":
                self.threads.may_lower = False  # their number is in the compiled code
            loop = Loop(
                step=step,
                plain_step=self._looking(self._plain_step(self.problem)),
                algorithm=self.algorithm,
                problem=self.problem,
                world=self.world,
                settings=self.settings,
                hooks=dataclasses.replace(self.hooks, observer=observer),
                costs=self._costs_up_to(self._begin),
                monitor=self._monitor(),
                config=self.config,
                journal=self.journal,
                new_saver=self._saver(),
                threads=self.threads,
            )
            if observer is not None and not self.journal.rows:
                observer.on_prepare("evaluating the start")
            try:
                if self.settings.asynchronous:
                    state = self._states.pop()
                    result = go_asynchronously(loop, self.graph, state)
                else:
                    result = loop.go(self._states.pop())
            finally:
                if reads_lazily(self.problem):
                    self.problem.stop_reading()
        self.afterwards(result)
        return result

    def _costs_up_to(self, k: int) -> Costs:
        return Costs.up_to(k, self.algorithm, self.problem, self.world, self.state.x)

    def _saver(self) -> Callable[[Path], Saver | None]:
        """Makes who saves the run, in a folder; nobody where that was not wanted."""
        interval = Interval.of(self.settings.checkpoint_every)
        if interval is None or not is_record(self.state):
            return lambda _: None
        settings = self.settings.changed(eval_every=self.settings.every)
        facts = self.facts
        common = {
            "version": __version__,
            "engine": self.world.engine,
            "agents": self.graph.n,
            "edges": self.graph.edges,
            "facts": facts,
            "config_sha256": fingerprint(facts),
            "settings": settings.model_dump(),
            "algorithm": {
                **as_written(self.algorithm),
                "automatic": list(self.settled.automatic),
            },
            "links": links_as_written(self.links),
            "problem": self.problem.taken if chooses_a_way(self.problem) else {},
            "config": without_empty(self.config),
        }

        def described(iteration: int, journal: Journal, files: Any) -> Manifest:
            return described_by(common, iteration, journal, files)

        return lambda place: Saver(place, self.world, interval, described)

    def _monitor(self) -> Monitor | None:
        """Who watches the theory, if anybody does."""
        if self.settings.monitor is None:
            return None
        problem: Any = self.problem  # the monitor refuses what it cannot look at
        algorithm: Any = self.algorithm
        rows = self.journal.theory  # the same list: the monitor goes on in it
        return Monitor(algorithm, problem, self.world, self.graph, rows)

    def _step(self, observer: Observer | None) -> Advance:
        """The step that the loop repeats, compiled if it is to be.

        Messages cannot be compiled: on a distributed engine only the gradients are.
        """
        if self.settings.compile == "off":
            return self._plain_step(self.problem)
        arguments = (self.algorithm, self.problem, self.world, self.state)
        if observer is not None:
            observer.on_prepare("compiling the step")
        part = "gradients run" if self.world.distributed else "the step runs"
        made: CompiledGradients | CompiledStep
        try:
            if self.world.distributed:
                made = CompiledGradients(*arguments)
            else:
                made = CompiledStep(*arguments)
        except NotCompiledError as error:
            warnings.warn(f"{part} uncompiled: {error}", Notice, stacklevel=4)
            self.settings = self.settings.changed(compile="off")
            return self._plain_step(self.problem)
        if observer is not None:
            observer.on_compile(made.seconds)
        return self._plain_step(made) if isinstance(made, CompiledGradients) else made

    def _looking(self, step: Advance) -> Advance:
        """The step of a method that looks at the losses along the path, looks included.

        A look belongs to the step after it: cut off between the two, a run that goes on
        looks again.
        """
        algorithm = self.algorithm
        if not (isinstance(algorithm, HSMADMM) and algorithm.follows):
            return step
        looks = Looks(algorithm, self.problem, self.world, self.graph)

        def advance(state: Any) -> Any:
            return step(looks(state))

        return advance

    def _plain_step(self, problem: Problem) -> Advance:
        algorithm, world = self.algorithm, self.world

        def step(state: Any) -> Any:
            return advanced(algorithm, state, problem, world)

        return step
