"""The config of a run: defaults, then a TOML file, then the command line.

A section that names something (an algorithm, a graph, ...) takes that thing's own
options as further keys; they are checked where the thing is built.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    PrivateAttr,
    ValidationError,
)

from proxmesh.errors import InputError, shortened, unknown
from proxmesh.files import DEEPEST, parsed_toml, read_text
from proxmesh.solver.folder import without_empty
from proxmesh.solver.reading import MADE_IN_PYTHON
from proxmesh.solver.settings import LOCAL, Count, Settings, said_by

__all__ = [
    "HOW_IT_IS_COMPUTED",
    "Config",
    "assignment",
    "flattened",
    "load_config",
    "put",
    "said",
    "task_of",
    "with_defaults",
    "without_empty",
]

HOW_IT_IS_COMPUTED = (  # where and how fast: other values give the same result
    "data.dir",
    "run.checkpoint_every",
    "run.paired",
    "run.sparse",
    "run.vectorize",
    *(f"run.{name}" for name in sorted(LOCAL)),
)
NOT_THE_TASK = (  # and how long, how closely and on what
    *HOW_IT_IS_COMPUTED,
    f"{MADE_IN_PYTHON}.",
    "run.asynchronous",
    "run.automatic",
    "run.device",
    "run.epochs",
    "run.eval",
    "run.eval_every",
    "run.kkt",
    "run.max_staleness",
    "run.monitor",
    "run.patience",
    "run.steps",
    "run.target",
)
CURVATURE = (  # on which constants that are found depend
    "seed",
    "algorithm.",
    "data.",
    "graph.",
    "links.",
    "model.",
    "run.batch",
    "run.dtype",
)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a config came from, to tell the line of a mistake."""

    file: str | Path | None = None
    text: str = ""
    flags: frozenset[str] = frozenset()

    def place_of(self, keys: list[str]) -> str:
        """Return ` (file, line)` of a key, or nothing if the file did not set it."""
        line = None if ".".join(keys) in self.flags else _line_of(self.text, keys)
        return "" if line is None else f" (`{self.file}`, line {line})"


class Named(BaseModel):
    """A section that also takes the options of what it names."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def options(self) -> dict[str, Any]:
        """The keys beyond the listed ones."""
        return dict(self.model_extra or {})


class AlgorithmSection(Named):
    """Which method, and its hyperparameters."""

    name: str = "hsm-admm"


class GraphSection(Named):
    """Which topology, how many agents, and its options."""

    name: str = "ring"
    agents: Count = 8


class DataSection(Named):
    """Which data set, where it lies, how it is dealt out."""

    name: str = "a9a"
    dir: str | None = None
    split: str = "contiguous"
    alpha: FiniteFloat | None = None  # of the split `dirichlet`
    sizes: list[int] | None = None  # of the split `unequal`


class ModelSection(Named):
    """Which model; None takes the one that suits the data."""

    name: str | None = None
    init: Literal["same", "different"] = "same"
    precision: Literal["full", "bfloat16"] | None = None  # of minibatch gradients
    loss: Literal["cross-entropy", "logistic", "squared", "huber"] | None = None


class RegularizerSection(Named):
    """Which penalty; `only` restricts it to parameters by name patterns."""

    name: str = "l1"
    only: str | list[str] | None = None


class LinksSection(Named):
    """What is wrong with the links: models by name, each with its main number."""


class RunSection(Settings):
    """The settings of a run, and what a config decides besides."""

    steps: Count = 2000
    batch: Count = 64
    dtype: Literal["float32", "float64"] = "float32"
    device: str = "cpu"
    vectorize: Literal["auto", "vmap", "channels", True, False] = "auto"
    paired: Literal["auto", True, False] = "auto"
    sparse: Literal["auto", "dense", "gather", "kernel"] | None = None
    # Constants in `algorithm` that were found, not given:
    automatic: list[str] = Field(default_factory=list)

    def settings(self) -> Settings:
        """Those that the run itself reads."""
        return Settings.model_validate(
            self.model_dump(include={*Settings.model_fields})
        )

    @classmethod
    def keys(cls) -> list[str]:
        """What may stand in this section of a file."""
        return [field.alias or name for name, field in cls.model_fields.items()]


class Config(BaseModel):
    """Everything that decides a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: Annotated[int, Field(ge=0, strict=True)] = 0
    algorithm: AlgorithmSection = AlgorithmSection()
    graph: GraphSection = GraphSection()
    data: DataSection = DataSection()
    model: ModelSection = ModelSection()
    regularizer: RegularizerSection = RegularizerSection()
    links: LinksSection = LinksSection()
    run: RunSection = RunSection()

    _source: Source = PrivateAttr(default_factory=Source)

    def tree(self) -> dict[str, Any]:
        """Sections and keys as they stand in a file."""
        return self.model_dump(by_alias=True)

    @contextmanager
    def building(self, section: str) -> Iterator[None]:
        """Add the line of the file to errors about a key of this section."""
        try:
            yield
        except InputError as error:
            for word in re.findall(r"`([^`]+)`", str(error)):
                where = self._source.place_of([section, word])
                if where:
                    raise InputError(f"{str(error).rstrip('.')}{where}.") from error
            raise


def load_config(
    file: str | Path | None = None,
    flags: Mapping[str, Any] | None = None,
    assignments: Iterable[str] = (),
) -> Config:
    """Merge a TOML file, dotted flags and ``section.key=value`` assignments.

    Examples
    --------
    >>> config = load_config(None, {"graph.name": "star"}, ["algorithm.c_rho=0.1"])
    >>> config.graph.name, config.algorithm.options
    ('star', {'c_rho': 0.1})
    """
    text = "" if file is None else read_text(file, "config")
    tree = parsed_toml(text, f"config `{file}`")
    if MADE_IN_PYTHON in tree:
        raise InputError(
            f"config `{file}` is of a run that a program made, and cannot build its "
            "problem. Run that program, or go on in it: `pm.resume(folder, problem)`."
        )
    dotted = _dotted(flags, assignments)
    _forget_what_was_found(tree, dotted)
    _forget_the_other_length(tree, dotted)
    for path, value in dotted.items():
        put(tree, path, value)
    source = Source(file, text, frozenset(dotted))
    try:
        config = Config.model_validate(tree)
    except ValidationError as error:
        raise _explained(error, source) from error
    run = config.run
    if run.epochs is not None and "steps" in run.model_fields_set:
        raise InputError(
            f"`run.steps` is {run.steps} and `run.epochs` {run.epochs:g}: two lengths "
            "of one run. Leave one of them out."
        )
    config._source = source
    return config


def said(
    file: str | Path | None = None,
    flags: Mapping[str, Any] | None = None,
    assignments: Iterable[str] = (),
) -> dict[str, Any]:
    """All that a file, flags and assignments set, as dotted keys; no defaults."""
    tree = {}
    if file is not None:
        tree = parsed_toml(read_text(file, "config"), f"config `{file}`")
    return flattened(tree) | _dotted(flags, assignments)


def _dotted(
    flags: Mapping[str, Any] | None, assignments: Iterable[str]
) -> dict[str, Any]:
    given = {path: value for path, value in (flags or {}).items() if value is not None}
    return dict(map(assignment, assignments)) | given


def _forget_what_was_found(tree: dict[str, Any], changes: Iterable[str]) -> None:
    """Drop constants that a run found, to be found again: the task has changed.

    What is no section or no list is refused later, with its place.
    """
    run, algorithm = tree.get("run"), tree.get("algorithm")
    if not (isinstance(run, dict) and isinstance(algorithm, dict)):
        return
    if any(c.startswith(CURVATURE) and c != "data.dir" for c in changes):
        found = run.pop("automatic", [])
        for name in found if isinstance(found, list) else []:
            algorithm.pop(name, None)


def _forget_the_other_length(tree: dict[str, Any], changes: Iterable[str]) -> None:
    """Of steps and epochs, what is said now stands in place of what a file says."""
    said = {"run.steps", "run.epochs"} & set(changes)
    if len(said) == 1 and isinstance(tree.get("run"), dict):
        other = "epochs" if said == {"run.steps"} else "steps"
        tree["run"].pop(other, None)


def with_defaults(config: Config, *, steps: int, seed: int) -> Config:
    """Return the config with other defaults for what nobody has set."""
    run = config.run
    if "steps" not in run.model_fields_set and run.epochs is None:
        run = run.model_copy(update={"steps": steps})
    chosen = config.seed if "seed" in config.model_fields_set else seed
    return config.model_copy(update={"run": run, "seed": chosen})


def flattened(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a tree of sections as dotted keys.

    Examples
    --------
    >>> flattened({"seed": 0, "graph": {"name": "ring"}})
    {'seed': 0, 'graph.name': 'ring'}
    """
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def task_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What two runs must share to be compared, as dotted keys."""
    return {
        key: value
        for key, value in flattened(without_empty(config)).items()
        if key != "seed"
        and not key.startswith("algorithm.")
        and not key.startswith(NOT_THE_TASK)
    }


def assignment(text: str) -> tuple[str, Any]:
    """Split ``section.key=value`` into its path and its value."""
    path, sign, value = text.partition("=")
    if not sign or not path.strip():
        raise InputError(
            f"`--set {shortened(text)}` is not an assignment. Write "
            "`--set section.key=value`."
        )
    return path.strip(), _value(value.strip(), f"`--set {shortened(text)}`")


def _value(text: str, who: str) -> Any:
    try:
        tree = parsed_toml(f"value = {text}", who)
    except InputError as error:
        if isinstance(error.__cause__, tomllib.TOMLDecodeError):
            return text  # a bare word is a string
        raise
    return tree["value"] if len(tree) == 1 else text


def put(tree: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a dotted path of a tree, making sections on the way."""
    *sections, key = path.split(".", DEEPEST)
    if "." in key:
        raise InputError(f"`{shortened(path)}` is nested too deeply. Write it flatter.")
    for section in sections:
        below = tree.setdefault(section, {})
        if not isinstance(below, dict):
            raise InputError(
                f"`{shortened(path)}`: `{section}` is a value, not a section."
            )
        tree = below
    tree[key] = value


def _explained(error: ValidationError, source: Source) -> InputError:
    """Turn pydantic's first complaint into one line with its place."""
    first = error.errors()[0]
    keys = [str(part) for part in first["loc"] if isinstance(part, str)]
    # A union adds the tried alternatives to the place; the key ends before them.
    keys = keys[:2] if keys and keys[0] in Config.model_fields else keys[:1]
    where = source.place_of(keys)
    if first["type"] == "extra_forbidden":
        known = list(Config.model_fields) if len(keys) == 1 else RunSection.keys()
        place = f"section `{keys[0]}`" if len(keys) > 1 else "the config"
        mistake = unknown("option", keys[-1], known, of=place)
        return InputError(f"{str(mistake).rstrip('.')}{where}.")
    got = shortened(first["input"], write=repr)
    name = shortened(".".join(keys))
    return InputError(f"`{name}` {said_by(first)}, got {got}{where}.")


def _line_of(text: str, keys: list[str]) -> int | None:
    """Find the line on which a key, or a section of this name, stands."""
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[([^\]]+)\]", line)
        if header:
            section = header.group(1).strip()
            if [section] == keys:
                return number
        key = line.split("=")[0].strip()
        if ".".join(keys) in {key, f"{section}.{key}"}:
            return number
    return None
