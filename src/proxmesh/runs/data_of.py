"""The data set of a config, and what its loss asks of it and of the model."""

from proxmesh.construct import construct
from proxmesh.data.agent_files import agent_files, load_agents
from proxmesh.data.datasets import DATASETS, Dataset, loaded
from proxmesh.errors import InputError
from proxmesh.problems.losses import ONE_OUTPUT
from proxmesh.runs.config import Config, DataSection

__all__ = [
    "PER_AGENT",
    "asked_of_labels",
    "data_of_all",
    "dataset_of",
    "has_agent_files",
    "outputs_of",
    "suited",
]

PER_AGENT = "per-agent"  # the data set that is one file per agent


def dataset_of(config: Config) -> Dataset:
    """Load the data set, with labels as the loss takes them."""
    section = config.data
    also_known = [key for key in DataSection.model_fields if key != "name"]
    options = section.options | asked_of_labels(config)
    if options.get("numbers") and section.name in DATASETS:
        raise InputError(
            f"`--loss {config.model.loss}` predicts numbers, but the labels of dataset "
            f"`{section.name}` are classes. Give a file of your own, or leave it out."
        )
    dataset = loaded(section.name, section.dir, options, also_known)
    if config.model.name == "lenet" and dataset.features == 28 * 28:
        return dataset.shaped(1, 28, 28)
    return dataset


def asked_of_labels(config: Config) -> dict[str, bool]:
    """What the loss asks of labels that are read: to be taken as numbers."""
    numbers = ONE_OUTPUT.get(config.model.loss or "") == "numbers"
    return {"numbers": True} if numbers else {}


def outputs_of(config: Config, dataset: Dataset) -> int:
    """How many numbers the model puts out for a sample."""
    if config.model.loss == "logistic" and dataset.num_classes != 2:
        raise InputError(
            f"`--loss logistic` needs two classes, but dataset `{dataset.name}` has "
            f"{dataset.num_classes}. Use `--loss cross-entropy`."
        )
    return 1 if config.model.loss in ONE_OUTPUT else dataset.num_classes


def suited(dataset: Dataset) -> str:
    """The name of a model that suits the samples."""
    return "lenet" if tuple(dataset.inputs.shape[1:]) == (1, 28, 28) else "mlp"


def has_agent_files(config: Config) -> bool:
    """Whether the data is one file per agent."""
    section = config.data
    if section.name == PER_AGENT:
        return True
    chosen = "name" in section.model_fields_set
    return not chosen and section.dir is not None and bool(agent_files(section.dir))


def data_of_all(config: Config) -> Dataset:
    """What agents share: the shape of a sample and the classes, whoever has the data.

    Files of agents are all opened: for one process that may read them.
    """
    if not has_agent_files(config):
        return dataset_of(config)
    folder = config.data.dir or ""
    options = config.data.options | asked_of_labels(config)
    arguments = (folder, sorted(agent_files(folder)), lambda number: number)
    found = construct(f"dataset `{PER_AGENT}`", load_agents, options, *arguments)
    return found.dataset
