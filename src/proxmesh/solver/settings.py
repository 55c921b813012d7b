"""What a run does besides problem, algorithm and graph: the one list of settings.

`Settings` are plain values, which may stand in a config file: the keywords of
`proxmesh.prepare`, the section `run` of a config, the handshake of ranks and the loop
all read them here. `Hooks` are what only a program can give. A test holds the signature
of `prepare` to these two lists.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    final,
    runtime_checkable,
)

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
)
from torch import Tensor

from proxmesh.checks import require_whole
from proxmesh.display.progress import Wanted
from proxmesh.errors import InputError, unknown
from proxmesh.metrics import Metric
from proxmesh.network import TIMEOUT
from proxmesh.solver.saving import Interval
from proxmesh.solver.stopping import EarlyStopping
from proxmesh.types import World

__all__ = [
    "LOCAL",
    "MAY_CHANGE",
    "Callback",
    "Count",
    "Hooks",
    "Logger",
    "Observer",
    "Settings",
    "said_by",
]

Count = Annotated[int, Field(ge=1, strict=True)]
SWITCH: Mapping[Any, str] = {True: "on", False: "off", "auto": "auto"}
EVALUATIONS = 40
MAX_STALENESS = 20  # ticks that a message may be behind in an asynchronous run
WAYS = ("mean", "local")  # to evaluate
MONITORS = ("theory",)

LOCAL = frozenset({"compile", "engine", "threads", "timeout"})
"""Settings that say where and how fast a run is computed; ranks may differ in them."""

MAY_CHANGE = LOCAL | {"steps", "checkpoint_every", "number of callbacks"}
"""What may be different when a run goes on after it was cut off."""

PATIENT_WITH = "stationarity"  # where nothing else is said


@runtime_checkable
class Logger(Protocol):
    """Is handed every row of the history, on the root; see `proxmesh.loggers`."""

    def begin(self, rows: Sequence[Mapping[str, float]]) -> None:
        """The first row is about to come; these are those of a run that goes on."""
        ...

    def on_row(self, row: Mapping[str, float]) -> None:
        """A row was added to the history."""
        ...

    def close(self) -> None:
        """The run has ended, for whatever reason."""
        ...


Function: TypeAlias = Callable[[Mapping[str, float], Any], bool | None]
"""``callback(row, state)`` after every evaluation; returning True stops the run."""

Callback: TypeAlias = Function | EarlyStopping | Logger
"""What may stand among the callbacks of a run."""


class Observer(Protocol):
    """Watches a run without touching it: a progress bar, a log."""

    def on_prepare(self, what: str) -> None:
        """A stage before iteration 0 begins, such as "finding constants"."""
        ...

    def on_compile(self, seconds: float) -> None:
        """The step was compiled, in so many seconds."""
        ...

    def on_step(self, k: int, seconds: float) -> None:
        """Iteration k is finished, after these seconds of computing.

        Told a few times a second, not at every iteration.
        """
        ...

    def on_row(self, row: Mapping[str, float]) -> None:
        """A row was added to the history."""
        ...


def _interval(given: int | str | None) -> int | str | None:
    """Refuse what says no interval."""
    Interval.of(given)
    return given


class Settings(BaseModel):
    """Everything about a run that can be written down as a plain value.

    Parameters
    ----------
    steps, epochs, eval_every, evaluation, target, patience, kkt, monitor, engine, \
timeout, compile, checkpoint_every, threads, asynchronous, max_staleness
        As in `proxmesh.solve`. A config file says ``eval`` for `evaluation`, and
        ``on`` or ``off`` for a `compile` that is True or False.

    Examples
    --------
    >>> Settings(steps=200).every, Settings(steps=200, eval_every=7).every
    (5, 7)
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True)

    steps: Count
    epochs: Annotated[FiniteFloat, Field(gt=0)] | None = None
    eval_every: Count | None = None
    evaluation: Annotated[Literal["mean", "local"], Field(alias="eval")] = "mean"
    target: dict[str, float] = {}
    patience: dict[str, Count] = {}
    kkt: bool = True
    monitor: Literal["theory"] | None = None
    engine: str = "auto"
    timeout: Annotated[FiniteFloat, Field(gt=0)] = TIMEOUT
    compile: Literal["auto", "on", "off"] = "auto"
    checkpoint_every: Annotated[int | str | None, BeforeValidator(_interval)] = None
    threads: Annotated[int, Field(ge=1, le=1024, strict=True)] | None = None
    asynchronous: bool = False
    max_staleness: Count = MAX_STALENESS

    @property
    def every(self) -> int:
        """Iterations between evaluations."""
        return self.eval_every or max(1, self.steps // EVALUATIONS)

    def changed(self, **values: Any) -> Self:
        """The same settings but for some.

        Parameters
        ----------
        values
            By name, taken as they are.
        """
        return self.model_copy(update=values)

    def facts(self) -> dict[str, str]:
        """What must be the same on all ranks, in words."""
        not_shared = {*LOCAL, "epochs"}  # which have become steps
        if not self.patience:  # as in checkpoints that were made before there was any
            not_shared.add("patience")
        if not self.asynchronous:
            not_shared |= {"asynchronous", "max_staleness"}
        told = self.model_dump(exclude=not_shared)
        shared = {name: str(value) for name, value in told.items()}
        return {**shared, "eval_every": str(self.every)}

    @classmethod
    def of_keywords(cls, given: Mapping[str, Any]) -> Self:
        """Settings from the keywords of `prepare`, or one line on what is wrong.

        Parameters
        ----------
        given
            All keywords by name.
        """
        values = {name: given[name] for name in cls.model_fields if name in given}
        values["steps"] = _steps(given["steps"], given.get("epochs"))
        require_whole("", 1, steps=values["steps"], eval_every=given["eval_every"])
        require_whole("", 1, max_staleness=given.get("max_staleness"))
        if given["compile"] not in SWITCH:
            known = ["True", "False", "auto"]
            raise unknown("value", given["compile"], known, "`compile`")
        if given["evaluation"] not in WAYS:
            raise unknown("evaluation", given["evaluation"], WAYS)
        if given["monitor"] not in {None, *MONITORS}:
            raise unknown("monitor", given["monitor"], MONITORS)
        values["compile"] = SWITCH[given["compile"]]
        values["target"] = _targets(given["target"])
        values["patience"] = _patience(given.get("patience"))
        if not isinstance(given["engine"], str):  # a world that was joined before
            values["engine"] = given["engine"].engine
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0]) if first["loc"] else "settings"
            raise InputError(
                f"`{name}` {said_by(first)}, got {first['input']!r}."
            ) from error


@final
@dataclass(frozen=True, slots=True)
class Hooks:
    """What only a program can give a run; each is described in `proxmesh.solve`."""

    state: Any = None
    x0: Tensor | None = None
    init: str = "same"
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    callbacks: Sequence[Callback] = ()
    observer: Observer | None = None
    progress: Wanted = "auto"
    out: Path | None = None
    config: Any = None  # a mapping, or a function from the prepared run to one
    force: bool = False
    links: Sequence[Any] = ()

    @property
    def loggers(self) -> list[Logger]:
        """Those callbacks that are handed every row."""
        return [c for c in self.callbacks if isinstance(c, Logger)]

    @property
    def rules(self) -> list[EarlyStopping]:
        """Those callbacks that stop a run by its history."""
        return [c for c in self.callbacks if isinstance(c, EarlyStopping)]

    @property
    def functions(self) -> list[Function]:
        """Those callbacks that are called with a row and the state."""
        known = (EarlyStopping, Logger)
        return [c for c in self.callbacks if not isinstance(c, known)]

    def facts(self) -> dict[str, str]:
        """What must be the same on all ranks, as far as it can be told."""
        return {
            "metrics": str(sorted(self.metrics)),
            "number of callbacks": str(len(self.callbacks)),
        }

    @staticmethod
    def of_keywords(given: Mapping[str, Any]) -> "Hooks":
        """Hooks from the keywords of `prepare`, or one line on what is wrong."""
        values = {f.name: given[f.name] for f in fields(Hooks)}
        values["metrics"] = own = given["metrics"] or {}
        if not isinstance(own, Mapping) or not all(map(callable, own.values())):
            raise InputError("`metrics` must map names to functions f(state, problem).")
        callbacks = given["callbacks"]
        if not (isinstance(callbacks, Sequence) and all(map(_is_callback, callbacks))):
            raise InputError(
                "`callbacks` must be a list of functions f(row, state), loggers and "
                "EarlyStopping."
            )
        if given["links"] and not isinstance(given["engine"], str):
            raise InputError(
                "`links` go with an engine's name; a network that was joined before "
                "has its own: `connect(graph, links=...)`."
            )
        if given["progress"] not in SWITCH:
            known = ["True", "False", "auto"]
            raise unknown("value", given["progress"], known, "`progress`")
        if given["observer"] is not None:  # who has one wants no other
            values["progress"] = False
        values["out"] = None if given["out"] is None else Path(given["out"])
        return Hooks(**values)


def said_by(error: Any) -> str:
    """One complaint of pydantic in our words."""
    words: str = error["msg"]
    return words.removeprefix("Value error, ").replace("Input should be", "must be", 1)


def joined_before(given: Mapping[str, Any]) -> World | None:
    """The world that was given in place of an engine's name, if one was."""
    engine = given["engine"]
    return None if isinstance(engine, str) else engine


def _is_callback(given: Any) -> bool:
    if isinstance(given, type):
        return False
    return callable(given) or isinstance(given, EarlyStopping | Logger)


def _steps(steps: Any, epochs: Any) -> Any:
    """The number of steps; with epochs it is settled when the data is there."""
    if (steps is None) == (epochs is None):
        raise InputError(
            f"give either `steps` or `epochs`, got {steps!r} and {epochs!r}."
        )
    return 1 if steps is None else steps


def _patience(given: Any) -> dict[str, int]:
    """A mapping of columns to evaluations; a number alone is of the stationarity."""
    if given is None:
        return {}
    found = given if isinstance(given, Mapping) else {PATIENT_WITH: given}
    for name, count in found.items():
        require_whole("", 1, **{f"patience of {name}": count})
    return dict(found)


def _targets(given: Any) -> dict[str, float]:
    """A mapping of columns to numbers; None is an empty one."""
    if not isinstance(given, Mapping | None):
        raise InputError(f"`target` must map columns to values, got {given!r}.")
    for name, value in (given or {}).items():
        if not (isinstance(value, int | float) and math.isfinite(value)):
            raise InputError(f"`target` of `{name}` must be a number, got {value}.")
    return dict(given or {})
