"""From a config to the objects of a run, and to the complete config of that run."""

import dataclasses
import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import nn

from proxmesh.construct import construct
from proxmesh.data.agent_files import load_agents
from proxmesh.data.datasets import DATASETS, Dataset
from proxmesh.errors import InputError, Notice, shortened, unknown
from proxmesh.graphs import CONSTRUCTORS, Graph, made
from proxmesh.hashing import derived_seed
from proxmesh.launchers import launched, threads_allowed
from proxmesh.network import connect
from proxmesh.network.links import Link, named
from proxmesh.problems import LearningProblem, Only
from proxmesh.problems.losses import LOSSES
from proxmesh.problems.models import MODELS
from proxmesh.problems.regularizers import REGULARIZERS
from proxmesh.runs.config import (
    HOW_IT_IS_COMPUTED,
    Config,
    DataSection,
    RegularizerSection,
    flattened,
)
from proxmesh.runs.data_of import (
    PER_AGENT,
    asked_of_labels,
    dataset_of,
    has_agent_files,
    outputs_of,
    suited,
)
from proxmesh.runs.lengths import look_every, with_steps
from proxmesh.runs.methods import method_named, whole_name
from proxmesh.solver.failures import announcing_failure
from proxmesh.solver.folder import RunFolder, without_empty
from proxmesh.solver.preparation import prepared
from proxmesh.solver.resuming import newest_whole
from proxmesh.solver.run import Run
from proxmesh.solver.settings import Hooks, Logger, Observer
from proxmesh.types import Algorithm, World

__all__ = ["Built", "build", "build_algorithm", "build_graph", "build_links"]

DEFAULT_L1 = 1e-4
DTYPES = {"float32": torch.float32, "float64": torch.float64}
WORK_OF_A_THREAD = 2e6  # parameters x samples of a batch; a9a/mlp on 8 agents has 4e6
IMAGE_WORK = 10  # how much more a convolution's parameter works


@final
@dataclass(frozen=True, slots=True)
class Built:
    """Everything that a config describes, ready to be prepared as a run."""

    config: Config
    problem: LearningProblem
    algorithm: Algorithm[Any]
    graph: Graph
    world: World
    model: str  # its name
    eval_every: int
    threads: int

    @property
    def data_name(self) -> str:
        """The data set, or the file that was named in its place."""
        return PER_AGENT if has_agent_files(self.config) else self.config.data.name

    def prepare(
        self,
        out: Path | None = None,
        force: bool = False,
        resume: bool = False,
        observer: Observer | None = None,
        loggers: Sequence[Logger] = (),
    ) -> Run:
        """Prepare the run; its folder will hold the complete config.

        `resume`: go on from its checkpoint, or start over if there is none.
        """
        checkpoint = None
        if resume and out is not None:
            checkpoint = newest_whole(RunFolder(out).checkpoints, self.world)
            if checkpoint is None and self.world.is_root:
                _tell_start_over(out)
        return prepared(
            self.problem,
            self.algorithm,
            self.graph,
            settings=self.config.run.settings().changed(eval_every=self.eval_every),
            hooks=Hooks(
                init=self.config.model.init,
                out=out,
                force=force or resume,
                config=self.complete,
                observer=observer,
                callbacks=loggers,
                progress=False,
                links=build_links(self.config) if self.config.run.asynchronous else (),
            ),
            world=self.world,
            checkpoint=checkpoint,
        )

    def complete(self, run: Run) -> dict[str, Any]:
        """The config with all that was decided: it reruns the run exactly."""
        tree = self.tree(run.problem)
        tree["algorithm"] |= dataclasses.asdict(run.algorithm)  # type: ignore[call-overload]
        tree["run"]["compile"] = run.settings.compile
        found = run.settled.automatic or tree["run"]["automatic"]
        tree["run"]["automatic"] = list(found)
        return tree

    def tree(self, problem: Any = None) -> dict[str, Any]:
        """The config with every default filled in that a run does not decide."""
        config, tree = self.config, self.config.tree()
        opened: LearningProblem = self.problem if problem is None else problem
        way = opened.way
        tree["run"] |= {
            "eval_every": self.eval_every,
            "threads": self.threads,
            "vectorize": False if way == "loop" else way,
            "paired": opened.paired,
            "sparse": opened.sparse,  # None, and left out, if samples are dense
        }
        tree["algorithm"] |= dataclasses.asdict(self.algorithm)  # type: ignore[call-overload]
        if has_agent_files(config):
            folder = str(Path(config.data.dir or "").resolve())
            tree["data"] |= {"name": self.data_name, "dir": folder}
        tree["algorithm"]["name"] = whole_name(config.algorithm.name)
        for section in ("data", "graph"):  # users' files: found again from any folder
            file = Path(tree[section]["name"])
            if file.is_file():
                tree[section]["name"] = str(file.resolve())
        model = {**tree["model"], "name": self.model}
        tree["model"] = {**_defaults(MODELS[self.model]), **model}
        tree["regularizer"] = _with_weight(config.regularizer).model_dump()
        if config.data.name in DATASETS:
            tree["data"] = {
                **_defaults(DATASETS[config.data.name].build),
                **tree["data"],
            }
        if config.graph.name in CONSTRUCTORS:
            constructor = CONSTRUCTORS[config.graph.name]
            tree["graph"] = {**_defaults(constructor, "seed", "n"), **tree["graph"]}
        return tree


def _tell_start_over(folder: Path) -> None:
    if RunFolder(folder).held:
        warnings.warn(
            f"the run in `{folder}` left no checkpoint to go on from: it starts over.",
            Notice,
            stacklevel=3,
        )


def build(config: Config) -> Built:
    """Build everything a run needs; every wrong name or value is found here."""
    with config.building("algorithm"):
        algorithm = build_algorithm(config)
    with config.building("graph"):
        graph = build_graph(config)
    with config.building("regularizer"):
        regularizer = _regularizer(config)
    with config.building("links"):
        links = build_links(config)
    world = connect(
        graph,
        config.run.engine,
        dtype=DTYPES[config.run.dtype],
        device=_device(config),
        timeout=config.run.timeout,
        links=() if config.run.asynchronous else links,
    )
    world.agree(_facts(config))
    with announcing_failure(world):
        with config.building("data"):
            shards, dataset = _data(config, world)
        with config.building("model"):
            name = config.model.name or suited(dataset)
            model = _model(config, name, dataset)
        problem = LearningProblem(
            model=model,
            loss=LOSSES[config.model.loss or "cross-entropy"],
            shards=shards.__getitem__ if world.distributed else shards,
            test=dataset.test,
            regularizer=regularizer,
            batch_size=config.run.batch,
            seed=config.seed,
            vectorize=config.run.vectorize,
            paired=config.run.paired,
            precision=config.model.precision or "full",
            sparse=config.run.sparse or "auto",
        )
        threads = config.run.threads or _threads(problem, len(world.agents))
        torch.set_num_threads(threads)  # before anything is timed
        config = with_steps(config, shards, world)
        every = config.run.eval_every or look_every(config, shards, dataset, world)
        return Built(
            config=config,
            problem=problem,
            algorithm=algorithm,
            graph=graph,
            world=world,
            model=name,
            eval_every=every,
            threads=threads,
        )


def _facts(config: Config) -> dict[str, str]:
    """What the config says, but for where and how fast a run is computed."""
    said = flattened(without_empty(config.tree()))
    names = [key for key in said if not key.startswith(HOW_IT_IS_COMPUTED)]
    shared = {key: str(said[key]) for key in names}
    return {**shared, "one file per agent": str(has_agent_files(config))}


def build_graph(config: Config) -> Graph:
    """Build the topology; a random one draws from the seed's own stream."""
    section, options = config.graph, config.graph.options
    constructor = CONSTRUCTORS.get(section.name)
    if constructor and "seed" in inspect.signature(constructor).parameters:
        options.setdefault("seed", derived_seed(config.seed, "graph"))
    return made(section.name, section.agents, options, also_known=["agents"])


def build_links(config: Config) -> tuple[Link, ...]:
    """Build the models of the links, which draw from the seed's own stream."""
    return named(config.links.options, derived_seed(config.seed, "links"))


def _named(kind: str, known: Mapping[str, Any], name: str) -> Any:
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]


def _built(kind: str, known: Mapping[str, Any], section: Any) -> Any:
    build = _named(kind, known, section.name)
    also_known = [key for key in type(section).model_fields if key != "name"]
    who = f"{kind} `{section.name}`"
    return construct(who, build, section.options, also_known=also_known)


def build_algorithm(config: Config) -> Any:
    """Build the method that the config names, with its options."""
    name, options = config.algorithm.name, config.algorithm.options
    method = method_named(name)
    for key, value in method.fixed.items():
        if options.setdefault(key, value) != value:
            raise InputError(
                f"algorithm `{name}` has `{key}` = {value}, got {options[key]}. Leave "
                "it out, or choose another algorithm."
            )
    return construct(f"algorithm `{name}`", method.kind, options)


def _data(config: Config, world: World) -> tuple[Any, Dataset]:
    """Shards by agent: from files of their own, or parts of a data set."""
    if has_agent_files(config):
        return _agent_data(config, world)
    dataset = dataset_of(config)
    return _shards(config, dataset, world.n), dataset


def _agent_data(config: Config, world: World) -> tuple[Any, Dataset]:
    section = config.data
    if section.dir is None:
        raise InputError(
            f"dataset `{PER_AGENT}` needs the folder with one file per agent: "
            "`--data-dir FOLDER`."
        )
    if section.split != DataSection.model_fields["split"].default:
        raise InputError(
            f"`--split {section.split}`: the data is split already, into one file "
            "per agent. Leave it out."
        )

    def largest(number: int) -> int:
        return int(world.reduce(torch.full((len(world.agents),), number), "max"))

    also_known = [key for key in DataSection.model_fields if key != "name"]
    who = f"dataset `{PER_AGENT}`"
    arguments = (section.dir, world.agents, largest)
    options = section.options | asked_of_labels(config)
    found = construct(who, load_agents, options, *arguments, also_known=also_known)
    return found.shards, found.dataset


def _regularizer(config: Config) -> Any:
    section = _with_weight(config.regularizer)
    largest = torch.finfo(DTYPES[config.run.dtype]).max
    for name, value in section.options.items():
        if isinstance(value, int | float) and abs(value) > largest:
            raise InputError(
                f"regularizer `{section.name}`: `{name}` is too large for "
                f"{config.run.dtype}, got {shortened(value)}."
            )
    inner = _built("regularizer", REGULARIZERS, section)
    if section.only is None:
        return inner
    if not section.only:
        raise InputError(
            "`regularizer.only` is empty. Name parameters, or leave it out."
        )
    return Only(
        inner, section.only if isinstance(section.only, str) else tuple(section.only)
    )


def _with_weight(section: RegularizerSection) -> RegularizerSection:
    if section.name != "l1" or "weight" in section.options:
        return section
    return RegularizerSection(**section.model_dump(), weight=DEFAULT_L1)


def _model(config: Config, name: str, dataset: Dataset) -> nn.Module:
    build = _named("model", MODELS, name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(config.seed, "init"))
        model: nn.Module = construct(
            f"model `{name}`",
            build,
            config.model.options,
            dataset.features,
            outputs_of(config, dataset),
        )
    return model.to(_device(config), DTYPES[config.run.dtype])


def _device(config: Config) -> torch.device:
    if config.run.device == "meta":
        raise InputError("device `meta` holds no numbers. Use `cpu` or `cuda`.")
    launch, name = launched(), config.run.device
    if name == "cuda" and launch.size > 1 and torch.cuda.device_count():
        name = f"cuda:{launch.local_rank % torch.cuda.device_count()}"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device `{config.run.device}` cannot be used: {str(error).splitlines()[0]}"
        ) from error


def _shards(config: Config, dataset: Dataset, agents: int) -> list[Any]:
    section = config.data
    options: dict[str, Any] = {"seed": derived_seed(config.seed, "split")}
    for name, split in (("alpha", "dirichlet"), ("sizes", "unequal")):
        value = getattr(section, name)
        if value is not None and section.split != split:
            raise InputError(
                f"`data.{name}` belongs to the split `{split}`, but the split is "
                f"`{section.split}`."
            )
        if value is not None:
            options[name] = value
    return dataset.split(agents, section.split, **options)


def _threads(problem: LearningProblem, agents: int) -> int:
    """As many threads as have something to do; the others would mostly wait."""
    work = agents * problem.batch_size * problem.layout.p
    busy = work * (IMAGE_WORK if problem.convolves else 1) / WORK_OF_A_THREAD
    return max(1, min(threads_allowed(), int(busy)))


def _defaults(function: Any, *without: str) -> dict[str, Any]:
    """The options of a constructor that have a plain default."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in {*without, "features", "classes", "data_dir"}
        and parameter.default not in {None, parameter.empty}
    }
