"""`prepare` and `solve`: every option of a run as a keyword, explained."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import networkx as nx
from torch import Tensor

from proxmesh.graphs import Graph
from proxmesh.metrics import Metric
from proxmesh.network import TIMEOUT
from proxmesh.network.links import Link
from proxmesh.solver.preparation import prepared
from proxmesh.solver.result import Result
from proxmesh.solver.run import Run
from proxmesh.solver.settings import (
    MAX_STALENESS,
    Callback,
    Hooks,
    Observer,
    Settings,
    joined_before,
)
from proxmesh.types import Algorithm, Problem, World

__all__ = ["prepare", "solve"]

P = ParamSpec("P")
S = TypeVar("S")


def prepare(
    problem: Problem,
    algorithm: Algorithm[S],
    graph: "Graph | nx.Graph[Any]",
    steps: int | None = None,
    *,
    epochs: float | None = None,
    state: Any = None,
    x0: Tensor | None = None,
    init: str = "same",
    engine: str | World = "auto",
    timeout: float = TIMEOUT,
    eval_every: int | None = None,
    evaluation: Literal["mean", "local"] = "mean",
    target: Mapping[str, float] | None = None,
    patience: int | Mapping[str, int] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    kkt: bool = True,
    monitor: Literal["theory"] | None = None,
    callbacks: Sequence[Callback] = (),
    observer: Observer | None = None,
    progress: bool | Literal["auto"] = "auto",
    compile: bool | Literal["auto"] = "auto",  # noqa: A002 - torch's own word for it
    checkpoint_every: int | str | None = None,
    threads: int | None = None,
    out: str | Path | None = None,
    config: Mapping[str, Any] | Callable[[Run], Mapping[str, Any]] | None = None,
    force: bool = False,
    links: Sequence[Link] = (),
    asynchronous: bool = False,
    max_staleness: int = MAX_STALENESS,
) -> Run[S]:
    """Make a run ready, to look at it before it goes.

    The network is joined, this process's part of the problem kept, constants that were
    left out are found, the first state is built; nothing is written yet. In a
    distributed run every process prepares it.

    Parameters
    ----------
    problem, algorithm, graph, steps
        What to minimize, how, who talks to whom, and how many iterations.
    epochs, state, x0, init, engine, timeout, eval_every, evaluation, target, \
patience, metrics, kkt, monitor, callbacks, observer, progress, compile, \
checkpoint_every, threads, out, config, force, links, asynchronous, max_staleness
        See `proxmesh.solve`, which is ``prepare(...).go()``.

    Returns
    -------
    Run
        ``run.algorithm`` has its constants, ``run.certificate()`` tells whether the
        steps are stable on this graph, ``run.cost()`` what it will send and compute;
        ``run.go()`` carries it out.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy,
    ...     pm.datasets.breast_cancer().split(4))
    >>> run = pm.prepare(problem, pm.HSMADMM(), pm.graphs.ring(4), steps=100)
    >>> run.settled.automatic, run.cost().vectors
    (('c_rho', 'c_eta', 'smoothness', 'follow'), 101)
    >>> str(run.go().outcome)
    'finished'
    """
    given = dict(locals())  # the signature is the list of settings and hooks
    settings, hooks = Settings.of_keywords(given), Hooks.of_keywords(given)
    world = joined_before(given)
    return prepared(
        problem, algorithm, graph, settings=settings, hooks=hooks, world=world
    )


def _with_the_keywords_of(
    source: Callable[P, Run[S]],
) -> Callable[[Callable[..., Result]], Callable[P, Result[S]]]:
    """Give a function the signature of another, for people and for type checkers."""

    def decorate(function: Callable[..., Result]) -> Callable[P, Result[S]]:
        @wraps(function)
        def same(*args: P.args, **kwargs: P.kwargs) -> Result[S]:
            return function(*args, **kwargs)

        shown = signature(source).replace(return_annotation=Result)
        same.__signature__ = shown  # type: ignore[attr-defined]
        return same

    return decorate


@_with_the_keywords_of(prepare)
def solve(*args: Any, **kwargs: Any) -> Result:
    """Train: run an algorithm on a problem over a graph.

    The same as ``prepare(...).go()``, with the same arguments.

    Parameters
    ----------
    problem, algorithm, graph
        What to minimize, how, and who talks to whom (a networkx graph is fine).
    steps
        Iterations to make; with `state`, further ones.
    epochs
        In place of `steps`, and not only whole ones: an epoch is as many iterations as
        the agents have minibatches on average, their mean number of samples divided by
        the batch size; the product is rounded.
    state
        Where to go on from: an earlier result, or its `state`. Counts of gradients
        and traffic go on, the clock starts again at 0. Constants that were found stay
        with the result; with a bare state give ``result.algorithm``.
    x0, init
        Initial rows, or how the problem makes them: ``"same"`` or ``"different"``.
    engine, timeout
        See `proxmesh.connect`; or a world that it returned.
    eval_every
        Iterations between evaluations; a fortieth of `steps` if not given.
    evaluation
        ``"mean"``: at the average model, which takes reductions over all agents.
        ``"local"``: each agent at its own model, with nothing reduced; the history has
        a row for each agent of this process, and there is no average model.
    target
        Stop at the first evaluation after the start where a column has reached a
        value, such as ``{"stationarity": 1e-3}``; accuracies come from below. Of
        several targets one is enough.
    patience
        Stop after so many evaluations in a row without a better value of a column:
        ``{"test_loss": 10}``; a number alone is of the stationarity. See
        `proxmesh.EarlyStopping`.
    metrics
        Columns of your own, ``name -> f(state, problem)``; f sees this process's
        agents, and the column is the mean of what the agents' processes find.
    kkt
        Evaluate the KKT residual too, one more pass over the training data.
    monitor
        ``"theory"``: at every evaluation but the first also the quantities of the
        paper's analysis, and whether its inequalities hold; in ``result.monitor``.
    callbacks, observer
        ``callback(row, state)`` is called after every evaluation but the first; when
        one returns True the run ends with the outcome `stopped early`. Among them may
        stand `proxmesh.EarlyStopping` and `proxmesh.loggers`. The observer is told
        every row, a few times a second how far the run is, and before that which stage
        of preparing has begun.
    progress
        Show the run on stderr: a bar on a terminal, a bar in a notebook, one line per
        evaluation elsewhere; and before iteration 0 what is being done. ``"auto"``: on
        a terminal and in a notebook, if there is no observer.
    compile
        Compile the whole step first: True, False, or ``"auto"``, when a run of this
        length is likely to win more time than that takes. Results agree to rounding;
        say True or False where they must agree to the bit. On a distributed engine
        the gradients are compiled, since messages are part of the step.
    checkpoint_every
        Iterations, or minutes of computing (``"10min"``), between checkpoints in the
        run folder, from which `proxmesh.resume` goes on; ``"off"`` makes none. If not
        given: a minute, more where one takes longer than a hundredth of that.
    threads
        CPU threads of this process, from now on. If not given: as many as torch uses,
        and fewer, with a notice, where other programs keep them waiting for each other.
    out, config, force
        Run folder to write as the run goes, the config to keep in it (or a function
        that makes it from the prepared run), and whether to overwrite a run that is
        there. In a distributed run the root writes it.
    links
        What is wrong with the links, as models of `proxmesh.links`; none: they are
        perfect. HSM-ADMM sets its `dual_gain` and `fresh` from them.
    asynchronous
        Every rank steps with the newest message that it has of each neighbor and waits
        for nobody; iterations are ticks of a clock. HSM-ADMM and D-PSGD, on ranks or,
        with ``links=[pm.links.Speeds([1, 4])]``, in simulated time. Experimental.
    max_staleness
        Ticks by which a neighbor's newest message may be behind; then a rank waits.

    Returns
    -------
    Result
        ``history``, ``outcome``, ``message``, ``model``, ``sparse_model``, ``state``,
        and ``algorithm`` with the constants that were in force.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from torch import nn
    >>> data = pm.datasets.breast_cancer()
    >>> problem = pm.LearningProblem(
    ...     pm.models.logistic(30, 2), nn.functional.cross_entropy, data.split(4),
    ...     test=data.test, regularizer=pm.L1(1e-3),
    ... )
    >>> result = pm.solve(problem, pm.HSMADMM(), pm.graphs.ring(4), steps=100)
    >>> str(result.outcome), result.final["test_accuracy"] > 0.9
    ('finished', True)
    """
    return prepare(*args, **kwargs).go()
