"""`solve`, `prepare` and `resume`, whose run folders get pictures like any other."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from proxmesh.runs import resuming
from proxmesh.solver import solving
from proxmesh.solver.result import Result
from proxmesh.solver.run import Run

__all__ = ["prepare", "resume", "solve"]

P = ParamSpec("P")
S = TypeVar("S")  # the state of the method


def draw(result: Result) -> None:
    """Draw the curves of a run that has a folder, as the command line does."""
    if result.folder is None:
        return
    from proxmesh.report.pictures import draw_what_is_there

    name = type(result.algorithm).__name__
    graph = result.config.get("graph", {})
    title = f"{name} on {graph.get('name', 'a graph')} of {graph.get('agents')} agents"
    draw_what_is_there(result.folder, title)


def _drawn(function: Callable[P, Result[S]]) -> Callable[P, Result[S]]:
    @wraps(function)
    def with_pictures(*args: P.args, **kwargs: P.kwargs) -> Result[S]:
        result = function(*args, **kwargs)
        draw(result)
        return result

    return with_pictures


def _drawn_later(function: Callable[P, Run[S]]) -> Callable[P, Run[S]]:
    @wraps(function)
    def with_pictures(*args: P.args, **kwargs: P.kwargs) -> Run[S]:
        run = function(*args, **kwargs)
        run.afterwards = draw
        return run

    return with_pictures


solve = _drawn(solving.solve)
prepare = _drawn_later(solving.prepare)
resume = _drawn(resuming.resume)
