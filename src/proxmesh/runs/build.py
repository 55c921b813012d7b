"""From a config to the objects of a run, and to the complete config of that run."""

import dataclasses
import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import nn

from proxmesh.algorithms import ALGORITHMS
from proxmesh.construct import construct
from proxmesh.errors import InputError, Notice, unknown
from proxmesh.solver.compile_step import has_compiler, pays_off
from proxmesh.runs.config import (
    NOT_THE_RESULT,
    Config,
    DataSection,
    RegularizerSection,
    flattened,
    without_empty,
)
from proxmesh.solver.prepare import initial_rows, roots_rows
from proxmesh.solver.result import Result
from proxmesh.solver.loop import DEFAULT_EVALUATIONS, Observer, solve
from proxmesh.graphs import CONSTRUCTORS, Graph, make
from proxmesh.launchers import launched, threads_allowed
from proxmesh.network import connect
from proxmesh.problems import LearningProblem, Only
from proxmesh.data.agent_files import agent_files, load_agents
from proxmesh.data.datasets import DATASETS, Dataset, load
from proxmesh.problems.models import MODELS
from proxmesh.problems.regularizers import REGULARIZERS
from proxmesh.problems.sampling import derived_seed
from proxmesh.theory import Settled, settled
from proxmesh.types import World

__all__ = ["Job", "assemble", "build_algorithm", "build_graph"]

DEFAULT_L1 = 1e-4
PER_AGENT = "per-agent"  # the data set that is one file an agent
MANY_IMAGES = 10_000
IMAGE_EVALUATIONS = 10
WORK_OF_A_THREAD = 2e6  # parameters x samples of a batch; a9a/mlp on 8 agents has 4e6
IMAGE_WORK = 10  # how much more a convolution's parameter works


@final
@dataclass(frozen=True, slots=True)
class Job:
    """A run that is ready to start."""

    problem: LearningProblem
    algorithm: Any
    graph: Graph
    world: World
    config: dict[str, Any]  # complete once settled: reruns the run exactly
    found: Settled | None = None  # what was measured to find the constants

    def settled(self, *, always: bool = False) -> "Job":
        """Find the constants that were left out, and write them into the config.

        `always`: measure the curvature of the losses even if none was.
        """
        if self.found is not None:
            return self
        torch.set_num_threads(self.config["run"]["threads"])
        init = self.config["model"]["init"]
        rows = initial_rows(self.problem, init)
        if init == "same":
            rows = roots_rows(rows, self.world)
        found = settled(
            self.algorithm, self.problem, self.world, self.graph, rows, always=always
        )
        before, run = self.config["algorithm"], self.config["run"]
        config = {
            **self.config,
            "algorithm": {**before, **dataclasses.asdict(found.algorithm)},
            "run": {**run, "automatic": list(found.automatic or run["automatic"])},
        }
        return dataclasses.replace(
            self, algorithm=found.algorithm, config=config, found=found
        )

    def run(
        self, out: Any = None, force: bool = False, observer: Observer | None = None
    ) -> Result:
        """Start it."""
        if self.found is None:
            return self.settled().run(out, force, observer)
        settings = self.config["run"]
        torch.set_num_threads(settings["threads"])
        return solve(
            self.problem,
            self.algorithm,
            self.graph,
            settings["steps"],
            init=self.config["model"]["init"],
            engine=self.world,
            evaluation=settings["eval"],
            eval_every=settings["eval_every"],
            target=settings["target"],
            kkt=settings["kkt"],
            monitor=settings["monitor"],
            compile=settings["compile"] == "on",
            observer=observer,
            out=out,
            config=self.config,
            force=force,
        )


def assemble(config: Config) -> Job:
    """Build everything a run needs; every wrong name or value is found here."""
    with config.building("algorithm"):
        algorithm = build_algorithm(config)
    with config.building("graph"):
        graph = build_graph(config)
    with config.building("regularizer"):
        regularizer = _regularizer(config)
    dtype = getattr(torch, config.run.dtype)
    world = connect(
        graph,
        config.run.engine,
        dtype=dtype,
        device=_device(config),
        timeout=config.run.timeout,
    )
    world.agree(_facts(config))
    try:
        return _assembled(config, algorithm, graph, regularizer, world)
    except InputError:
        world.announce_exit("InputError, see its own message")  # which may quote its data
        raise


def _facts(config: Config) -> dict[str, str]:
    """What the config says, but for where and how fast a run is computed."""
    said = flattened(without_empty(config.model_dump()))
    shared = {k: str(v) for k, v in said.items() if not k.startswith(NOT_THE_RESULT)}
    return {**shared, "one file an agent": str(_has_agent_files(config))}


def _assembled(
    config: Config, algorithm: Any, graph: Graph, regularizer: Any, world: World
) -> Job:
    """Read the data of our agents and build their problem."""
    with config.building("data"):
        shards, dataset = _data(config, world)
    with config.building("model"):
        model_name = config.model.name or _suited(dataset)
        model = _model(config, model_name, dataset)
    problem = LearningProblem(
        model=model,
        loss=nn.functional.cross_entropy,
        shards=shards,
        test=dataset.test,
        regularizer=regularizer,
        batch_size=config.run.batch,
        seed=config.seed,
        vectorize=config.run.vectorize,
        paired=config.run.paired,
    ).local(world.agents)
    complete = _complete(config, algorithm, model_name, problem, world)
    return Job(problem, algorithm, graph, world, complete)


def build_graph(config: Config) -> Graph:
    """Build the topology; a random one draws from the seed's own stream."""
    section, options = config.graph, config.graph.options
    constructor = CONSTRUCTORS.get(section.name)
    if constructor and "seed" in inspect.signature(constructor).parameters:
        options.setdefault("seed", derived_seed(config.seed, "graph"))
    return make(section.name, section.agents, also_known=["agents"], **options)


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
    method = _named("algorithm", ALGORITHMS, name)
    for key, value in method.fixed.items():
        if options.setdefault(key, value) != value:
            raise InputError(
                f"algorithm `{name}` has `{key}` = {value}, got {options[key]}. Leave "
                "it out, or choose another algorithm."
            )
    return construct(f"algorithm `{name}`", method.kind, options)


def _data(config: Config, world: World) -> tuple[Any, Dataset]:
    """Our agents' shards: from files of their own, or our part of a data set."""
    if _has_agent_files(config):
        return _agent_data(config, world)
    dataset = _dataset(config)
    shards = _shards(config, dataset, world.n)
    return (shards if world.engine == "simulated" else shards.__getitem__), dataset


def _has_agent_files(config: Config) -> bool:
    section = config.data
    if section.name == PER_AGENT:
        return True
    chosen = "name" in section.model_fields_set
    return not chosen and section.dir is not None and bool(agent_files(section.dir))


def _agent_data(config: Config, world: World) -> tuple[Any, Dataset]:
    section = config.data
    if section.dir is None:
        raise InputError(
            f"dataset `{PER_AGENT}` needs the folder with one file an agent: "
            "`--data-dir FOLDER`."
        )
    if section.split != DataSection.model_fields["split"].default:
        raise InputError(
            f"`--split {section.split}`: the data is split already, into one file an "
            "agent. Leave it out."
        )

    def largest(number: int) -> int:
        return int(world.reduce(torch.full((len(world.agents),), number), "max"))

    also_known = [key for key in DataSection.model_fields if key != "name"]
    who = f"dataset `{PER_AGENT}`"
    arguments = (section.dir, world.agents, largest)
    found = construct(
        who, load_agents, section.options, *arguments, also_known=also_known
    )
    return found.shards.__getitem__, found.dataset


def _dataset(config: Config) -> Dataset:
    section = config.data
    also_known = [key for key in DataSection.model_fields if key != "name"]
    dataset = load(section.name, section.dir, also_known=also_known, **section.options)
    if config.model.name == "lenet" and dataset.features == 28 * 28:
        return dataset.shaped(1, 28, 28)
    return dataset


def _regularizer(config: Config) -> Any:
    section = _with_weight(config.regularizer)
    inner = _built("regularizer", REGULARIZERS, section)
    if section.only is None:
        return inner
    return Only(
        inner, section.only if isinstance(section.only, str) else tuple(section.only)
    )


def _with_weight(section: RegularizerSection) -> RegularizerSection:
    if section.name != "l1" or "weight" in section.options:
        return section
    return RegularizerSection(**section.model_dump(), weight=DEFAULT_L1)


def _suited(dataset: Dataset) -> str:
    return "lenet" if tuple(dataset.inputs.shape[1:]) == (1, 28, 28) else "mlp"


def _model(config: Config, name: str, dataset: Dataset) -> nn.Module:
    build = _named("model", MODELS, name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(config.seed, "init"))
        model: nn.Module = construct(
            f"model `{name}`",
            build,
            config.model.options,
            dataset.features,
            dataset.num_classes,
        )
    return model.to(_device(config), getattr(torch, config.run.dtype))


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


def _eval_every(steps: int, problem: LearningProblem, world: World) -> int:
    """Look often, but not so often that looking at many images takes longest."""
    agents = len(world.agents)
    share = torch.full((agents,), problem.num_samples / agents, dtype=torch.float64)
    many = world.reduce(share, "sum").item() > MANY_IMAGES  # the same on all ranks
    images = many and problem.sample(0).inputs[0].ndim > 3
    return max(1, steps // (IMAGE_EVALUATIONS if images else DEFAULT_EVALUATIONS))


def _threads(problem: LearningProblem) -> int:
    """As many threads as have something to do; the others would mostly wait."""
    work = len(problem.agents) * problem.batch_size * problem.layout.p
    busy = work * (IMAGE_WORK if problem.convolves else 1) / WORK_OF_A_THREAD
    return max(1, min(threads_allowed(), int(busy)))


def _compile(asked: str, algorithm: Any, problem: LearningProblem, steps: int) -> str:
    """What `--compile` comes to here: on or off."""
    wanted = asked == "on" or (asked == "auto" and pays_off(algorithm, problem, steps))
    if wanted and not has_compiler():
        warnings.warn(
            f"`--compile {asked}` would compile this run, but no C++ compiler was "
            "found. Install g++.",
            Notice,
            stacklevel=4,
        )
        return "off"
    return "on" if wanted else "off"


def _complete(
    config: Config, algorithm: Any, model: str, problem: LearningProblem, world: World
) -> dict[str, Any]:
    """Fill in every default that was in force."""
    tree = config.model_dump()
    run = tree["run"]
    run["eval_every"] = run["eval_every"] or _eval_every(run["steps"], problem, world)
    run["threads"] = run["threads"] or _threads(problem)
    torch.set_num_threads(run["threads"])  # before anything is timed
    way = problem.way
    run["vectorize"] = False if way == "loop" else way
    run["paired"] = problem.paired
    run["compile"] = _compile(run["compile"], algorithm, problem, run["steps"])
    tree["algorithm"] |= dataclasses.asdict(algorithm)
    if _has_agent_files(config):
        folder = str(Path(config.data.dir or "").resolve())
        tree["data"] |= {"name": PER_AGENT, "dir": folder}
    for section in ("data", "graph"):  # own files: found again from any folder
        file = Path(tree[section]["name"])
        if file.is_file():
            tree[section]["name"] = str(file.resolve())
    tree["model"] = {**_defaults(MODELS[model]), **tree["model"], "name": model}
    tree["regularizer"] = _with_weight(config.regularizer).model_dump()
    if config.data.name in DATASETS:
        tree["data"] = {**_defaults(DATASETS[config.data.name].build), **tree["data"]}
    if config.graph.name in CONSTRUCTORS:
        constructor = CONSTRUCTORS[config.graph.name]
        tree["graph"] = {**_defaults(constructor, "seed", "n"), **tree["graph"]}
    return tree


def _defaults(function: Any, *without: str) -> dict[str, Any]:
    """The options of a constructor that have a plain default."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in {*without, "features", "classes", "data_dir"}
        and parameter.default not in {None, parameter.empty}
    }
