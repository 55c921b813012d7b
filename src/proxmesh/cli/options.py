"""The options that describe a task; they read the same in every command."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, final

import typer

from proxmesh.errors import InputError, shortened

if TYPE_CHECKING:
    from proxmesh.runs.config import Config

__all__ = ["TaskOptions", "describes_a_task", "method_names"]

Words = list[str]
PATIENT_WITH = "stationarity"  # `--patience N` alone


class Flag(NamedTuple):
    """One option of a task."""

    key: str  # its place in a config file; empty for what is no single value
    kind: Any  # str, int, float or a list
    help: str  # with the default in brackets


TASK = {
    "dataset": Flag("data.name", str, "Name, or a .npz, .csv or LIBSVM file [a9a]."),
    "model": Flag("model.name", str, "mlp, logistic or lenet [what suits the data]."),
    "loss": Flag(
        "model.loss", str, "cross-entropy, logistic, squared or huber [cross-entropy]."
    ),
    "graph": Flag("graph.name", str, "Topology, or a file of edges [ring]."),
    "agents": Flag("graph.agents", int, "Number of agents [8]."),
    "steps": Flag("run.steps", int, "Iterations [2000]."),
    "epochs": Flag(
        "run.epochs", float, "In place of --steps: passes over the mean agent's data."
    ),
    "batch": Flag("run.batch", int, "Samples per minibatch and agent [64]."),
    "l1": Flag("regularizer.weight", float, "Weight of the l1 norm [1e-4]."),
    "regularizer": Flag(
        "regularizer.name", str, "l1, none, group-lasso, box, ... [l1]."
    ),
    "split": Flag(
        "data.split",
        str,
        "contiguous, shuffled, by-label, dirichlet, unequal [contiguous].",
    ),
    "init": Flag("model.init", str, "Initial models: same or different [same]."),
    "seed": Flag("seed", int, "For random graphs, initial models and sampling [0]."),
    "link": Flag(
        "",
        Words,
        "What is wrong with the links: loss=0.3, silent-loss, bits=4, delay=2, ...",
    ),
    "engine": Flag("run.engine", str, "auto, simulated, mpi or torch [auto]."),
    "timeout": Flag(
        "run.timeout", float, "Seconds until a silent rank counts as lost [60]."
    ),
    "eval_every": Flag(
        "run.eval_every", int, "Iterations between evaluations [steps/40]."
    ),
    "eval": Flag(
        "run.eval", str, "mean: at the average model; local: each agent alone [mean]."
    ),
    "target": Flag(
        "run.target", Words, "Stop at METRIC=VALUE, such as stationarity=1e-3."
    ),
    "patience": Flag(
        "run.patience",
        Words,
        "Stop after N evaluations without a better METRIC (METRIC=N, or N).",
    ),
    "monitor": Flag(
        "run.monitor",
        str,
        "theory: check the paper's inequalities as it runs [none].",
    ),
    "compile": Flag("run.compile", str, "Compile the step: auto, on or off [auto]."),
    "checkpoint_every": Flag(
        "run.checkpoint_every",
        str,
        "Iterations or minutes (10min) between checkpoints, or off [1min].",
    ),
    "threads": Flag(
        "run.threads", int, "CPU threads per run [as many as have work to do]."
    ),
    "asynchronous": Flag(
        "run.asynchronous",
        bool,
        "No rank waits for a slow one (hsm-admm, d-psgd) [no].",
    ),
    "max_staleness": Flag(
        "run.max_staleness",
        int,
        "Iterations by which a neighbor may be behind in it [20].",
    ),
    "dtype": Flag("run.dtype", str, "float32 or float64 [float32]."),
    "device": Flag("run.device", str, "torch device [cpu]."),
    "data_dir": Flag("data.dir", str, "Folder with MNIST, or with one file per agent."),
    "config": Flag("", str, "TOML file; options given here override it."),
    "set": Flag("", Words, "Anything else, as in the TOML file: section.key=value."),
}


@final
@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What was typed for the options of a task."""

    given: dict[str, Any]

    def config(
        self,
        flags: dict[str, Any] | None = None,
        leave_out: Callable[[str], bool] = lambda _: False,
    ) -> "Config":
        """The config: the file, over it `--set` (but for some), over it the flags."""
        from proxmesh.runs.config import load_config

        assignments = [text for text in self.assignments if not leave_out(text)]
        merged = self._flags() | (flags or {})
        return load_config(self.given.get("config"), merged, assignments)

    def said(self, flags: dict[str, Any]) -> dict[str, Any]:
        """All that was said of the task, as dotted keys; no defaults."""
        from proxmesh.runs.config import said

        merged = self._flags() | flags
        return said(self.given.get("config"), merged, self.assignments)

    def _flags(self) -> dict[str, Any]:
        given = self.given
        merged = {TASK[name].key: v for name, v in given.items() if TASK[name].key}
        if given.get("l1") is not None:
            if given.get("regularizer") not in {None, "l1"}:
                raise InputError(
                    "`--l1` is the weight of the regularizer `l1`, but "
                    f"`--regularizer` is `{given['regularizer']}`. Use `--set "
                    "regularizer.KEY=VALUE`."
                )
            merged["regularizer.name"] = "l1"
        merged |= _links(given.get("link"))
        merged["run.target"] = _targets(given.get("target"))
        merged["run.patience"] = _patience(given.get("patience"))
        return merged

    @property
    def assignments(self) -> list[str]:
        """Every ``section.key=value`` of `--set`."""
        return self.given.get("set") or []


def describes_a_task(
    *without: str, **helps: str
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command the options of a task, which it receives as `task`.

    `without` leaves options out, `helps` words them differently.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        own = inspect.signature(command, eval_str=True).parameters
        names = [name for name in TASK if name not in without]

        @wraps(command)
        def typed(**given: Any) -> int:
            task = TaskOptions({name: given.pop(name) for name in names})
            return command(task=task, **given)

        shared = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[
                    TASK[name].kind | None,
                    typer.Option(help=helps.get(name, TASK[name].help)),
                ],
            )
            for name in names
        ]
        kept = [
            p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for p in own.values()
            if p.name != "task"
        ]
        first = [p for p in kept if p.name.startswith(("algorithm", "folders"))]
        last = [p for p in kept if p not in first]
        typed.__signature__ = inspect.Signature([*first, *shared, *last])  # type: ignore[attr-defined]
        typed.__annotations__ = {p.name: p.annotation for p in (*first, *shared, *last)}
        return typed

    return decorate


def method_names(text: str | None, default: tuple[str, ...]) -> list[str]:
    """Split ``a,b,c`` and drop repetitions; ``all`` stands for every method."""
    from proxmesh.algorithms import ALGORITHMS

    if text == "all":
        return list(ALGORITHMS)
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if text is not None and not names:
        raise InputError(f"`--algorithms {text}` names no method. Write a,b,c or all.")
    return list(dict.fromkeys(names or default))


def _targets(texts: Words | None) -> dict[str, float] | None:
    if not texts:
        return None
    targets = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            targets[name.strip()] = float(value)
        except ValueError as error:
            raise InputError(
                f"`--target {text}` is not METRIC=VALUE, such as stationarity=1e-3."
            ) from error
    return targets


def _links(texts: Words | None) -> dict[str, Any]:
    """Every ``NAME=VALUE`` of `--link` as a key of a config."""
    from proxmesh.runs.config import assignment

    found: dict[str, Any] = {}
    for text in texts or []:
        name, sign, value = text.partition("=")
        if not (sign and name.strip() and value.strip()):
            raise InputError(
                f"`--link {shortened(text)}` is not NAME=VALUE, such as loss=0.3."
            )
        path, number = assignment(f"links.{name.strip()}={value}")
        if path in found:
            raise InputError(f"`--link {name.strip()}` is given twice.")
        found[path] = number
    return found


def _patience(texts: Words | None) -> dict[str, int] | None:
    if not texts:
        return None
    found = {}
    for text in texts:
        name, _, count = text.rpartition("=")
        if not (count.strip().isdecimal() and int(count)):
            raise InputError(
                f"`--patience {shortened(text)}` is not METRIC=N or N evaluations, "
                "such as test_loss=10."
            )
        found[name.strip() or PATIENT_WITH] = int(count)
    return found
