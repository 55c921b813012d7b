"""The files of examples/deploy are what Kubernetes, its operators and our CLI accept.

No package on PyPI has the schema of MPIJob v2beta1, so these are models of our own: of
the fields that the manifests use, by the public APIs of mpi-operator (v2beta1),
training-operator (v1) and Kubernetes (core v1). A field that is not here is an error;
look it up there before adding it.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
import yaml  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from proxmesh.cli.app import UsageError, app
from proxmesh.cli.options import TASK, TaskOptions

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "examples/deploy"
WITH_COMMANDS = ["hostfile", "mpijob.yaml", "pytorchjob.yaml", "slurm.sh"]
AGENTS = 8

Label = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]
Folder = Annotated[str, StringConstraints(pattern=r"^/[^:]*$")]
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[str, StringConstraints(pattern=r"^\d+(m|[kMGT]|[KMGT]i)?$")]


class Closed(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True)


class Metadata(Closed):
    name: Label


class FieldRef(Closed):
    field_path: str


class ValueFrom(Closed):
    field_ref: FieldRef


class Variable(Closed):
    name: str
    value: str | None = None
    value_from: ValueFrom | None = None


class Resources(Closed):
    limits: dict[Literal["cpu", "memory"], Count | Amount]  # 2, 500m, 6Gi; not 6GB


class Socket(Closed):
    port: int


class Probe(Closed):
    tcp_socket: Socket
    period_seconds: Count


class Mount(Closed):
    name: Label
    mount_path: Folder
    sub_path_expr: str | None = None
    read_only: bool = False


class Container(Closed):
    name: Label
    image: Annotated[str, StringConstraints(pattern=r"^[a-z]+:[a-z0-9.]+$")]
    command: list[str]
    env: list[Variable] = []
    readiness_probe: Probe | None = None
    resources: Resources
    volume_mounts: list[Mount] = []


class Claim(Closed):
    claim_name: Label


class Volume(Closed):
    name: Label
    persistent_volume_claim: Claim


class SecurityContext(Closed):
    run_as_user: int
    fs_group: int


class PodSpec(Closed):
    security_context: SecurityContext
    containers: Annotated[list[Container], Field(min_length=1)]
    volumes: list[Volume] = []


class Template(Closed):
    spec: PodSpec


class Replicas(Closed):
    replicas: Count
    restart_policy: Literal["Never", "OnFailure"]
    template: Template

    @property
    def container(self) -> Container:
        (only,) = self.template.spec.containers
        return only


class One(Replicas):
    replicas: Literal[1]


class RunPolicy(Closed):
    clean_pod_policy: Literal["None", "Running", "All"]
    backoff_limit: Annotated[int, Field(ge=0)]


class MPIReplicaSpecs(BaseModel):
    model_config = ConfigDict(alias_generator=str.title, extra="forbid", strict=True)
    launcher: One
    worker: Replicas


class PyTorchReplicaSpecs(BaseModel):
    model_config = ConfigDict(alias_generator=str.title, extra="forbid", strict=True)
    master: One
    worker: Replicas


class MPIJobSpec(Closed):
    slots_per_worker: Count
    mpi_implementation: Literal["OpenMPI", "Intel", "MPICH"]
    ssh_auth_mount_path: Folder
    launcher_creation_policy: Literal["AtStartup", "WaitForWorkersReady"]
    run_policy: RunPolicy
    mpi_replica_specs: MPIReplicaSpecs


class PyTorchJobSpec(Closed):
    run_policy: RunPolicy
    pytorch_replica_specs: PyTorchReplicaSpecs


class MPIJob(Closed):
    api_version: Literal["kubeflow.org/v2beta1"]
    kind: Literal["MPIJob"]
    metadata: Metadata
    spec: MPIJobSpec


class PyTorchJob(Closed):
    api_version: Literal["kubeflow.org/v1"]
    kind: Literal["PyTorchJob"]
    metadata: Metadata
    spec: PyTorchJobSpec


def mpijob() -> MPIJob:
    return MPIJob.model_validate(yaml.safe_load(text("mpijob.yaml")))


def pytorchjob() -> PyTorchJob:
    return PyTorchJob.model_validate(yaml.safe_load(text("pytorchjob.yaml")))


def text(name: str) -> str:
    return (DEPLOY / name).read_text()


def parts() -> Iterator[Replicas]:
    """Launcher, master and workers."""
    mpi = mpijob().spec.mpi_replica_specs
    torch = pytorchjob().spec.pytorch_replica_specs
    yield from (mpi.launcher, mpi.worker, torch.master, torch.worker)


def command(name: str) -> list[str]:
    """The words of the one command line in a file that runs proxmesh."""
    if name == "mpijob.yaml":
        return mpijob().spec.mpi_replica_specs.launcher.container.command
    if name == "pytorchjob.yaml":
        specs = pytorchjob().spec.pytorch_replica_specs
        assert specs.master.container == specs.worker.container
        return specs.master.container.command
    lines = text(name).replace("\\\n", "").splitlines()
    (line,) = [line for line in lines if "proxmesh run" in line]
    return shlex.split(line.lstrip("# "))


def parsed(words: list[str]) -> dict[str, Any]:
    """What our command line makes of the words after `proxmesh run`."""
    at = words.index("proxmesh")
    assert words[at + 1] == "run"
    cli: Any = typer.main.get_command(app)
    context = cli.commands["run"].make_context("run", words[at + 2 :])
    return dict(context.params)


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_our_command_line_takes_every_option(name: str) -> None:
    given = parsed(command(name))
    config = TaskOptions({option: given[option] for option in TASK}).config()
    assert config.run.engine == ("torch" if name == "pytorchjob.yaml" else "mpi")
    assert config.graph.agents == AGENTS
    assert not given["force"]  # a second try must not overwrite the first


def test_an_unknown_option_is_found() -> None:
    words = command("mpijob.yaml")
    with pytest.raises(UsageError, match="--engin"):
        parsed([word.replace("--engine", "--engin") for word in words])


def test_there_are_as_many_processes_as_agents() -> None:
    job = mpijob().spec
    words = command("mpijob.yaml")
    assert words[words.index("-n") + 1] == str(AGENTS)
    assert job.slots_per_worker * job.mpi_replica_specs.worker.replicas == AGENTS
    torch = pytorchjob().spec.pytorch_replica_specs
    assert torch.master.replicas + torch.worker.replicas == AGENTS
    batch = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", text("slurm.sh"), re.M))
    assert int(batch["nodes"]) * int(batch["ntasks-per-node"]) == AGENTS
    words = command("hostfile")
    assert words[words.index("-n") + 1] == str(AGENTS)
    lines = [line for line in text("hostfile").splitlines() if not line.startswith("#")]
    slots = [re.fullmatch(r"[a-z]+ slots=(\d+)", line) for line in lines]
    assert sum(int(found[1]) for found in slots if found) == AGENTS
    assert all(slots)


def test_what_the_operators_ask_beyond_the_schema() -> None:
    torch = pytorchjob().spec.pytorch_replica_specs
    assert torch.master.container.name == torch.worker.container.name == "pytorch"
    for part in parts():
        volumes = {volume.name for volume in part.template.spec.volumes}
        assert {mount.name for mount in part.container.volume_mounts} == volumes
    # Open MPI 5 does not read the variables by which mpi-operator names its host file.
    words = command("mpijob.yaml")
    assert words[words.index("--hostfile") + 1] == "/etc/mpi/hostfile"


@pytest.mark.parametrize("name", ["mpijob.yaml", "pytorchjob.yaml"])
def test_data_and_results_are_mounted_where_the_command_says(name: str) -> None:
    given = parsed(command(name))
    if name == "mpijob.yaml":
        worker = mpijob().spec.mpi_replica_specs.worker.container
        known = {variable.name for variable in worker.env}
    else:
        worker = pytorchjob().spec.pytorch_replica_specs.worker.container
        known = {"RANK"}  # from the operator
    mounts = {mount.mount_path: mount for mount in worker.volume_mounts}
    data = mounts[given["data_dir"]]
    assert data.read_only
    own = {f"$({variable})" for variable in known}
    assert data.sub_path_expr in own  # its own folder only
    assert not mounts[str(Path(given["out"]).parent)].read_only


def test_the_image_is_what_the_manifests_expect() -> None:
    lines = text("Dockerfile").replace("\\\n", "").splitlines()
    steps = [line.split() for line in lines if line and not line.startswith("#")]
    known = {"FROM", "ARG", "RUN", "COPY", "USER", "WORKDIR"}
    assert {step[0] for step in steps} <= known
    sources = [word for step in steps if step[0] == "COPY" for word in step[1:-1]]
    assert all((ROOT / source).exists() for source in sources)
    image = text("Dockerfile")
    (user,) = re.findall(r"--uid (\d+)", image)
    for part in parts():
        assert f"--tag {part.container.image}" in image
        assert part.template.spec.security_context.run_as_user == int(user)
    job = mpijob().spec
    worker = job.mpi_replica_specs.worker.container
    assert f"'HostKey {job.ssh_auth_mount_path}/id_rsa'" in image
    assert f"> {worker.command[-1]}\n" in image
    assert worker.readiness_probe is not None
    assert image.count(f"'Port {worker.readiness_probe.tcp_socket.port}'") == 2


@pytest.mark.parametrize(
    ("right", "wrong", "place"),
    [
        ("ReplicaSpecs:", "ReplicaSpec:", r"spec\.\w+ReplicaSpec\b"),
        ("  Worker:", "  Workers:", r"Workers\b"),
        ("restartPolicy: Never", "restartPolicy: Sometimes", "restartPolicy"),
        ("restartPolicy:", "restartpolicy:", "restartpolicy"),
        ("backoffLimit:", "backOffLimit:", r"runPolicy\.backOffLimit"),
        ("runAsUser: 1000", "runAsUser: root", r"securityContext\.runAsUser"),
        ("runAsUser: 1000", 'runAsUser: "1000"', r"securityContext\.runAsUser"),
        ("image: ", "img: ", r"containers\.0\.image"),
        ("image: proxmesh", "image: example.org/proxmesh", r"containers\.0\.image"),
        ('"8"', "8", r"containers\.0\.command\.\d+"),
        ("6Gi", "6GB", r"limits\.memory"),
        ("2Gi", "2GB", r"limits\.memory"),
        ('value: "2"', "value: 2", r"env\.0\.value"),
        ("slotsPerWorker: 4", "slotsPerWorker: four", r"spec\.slotsPerWorker"),
        ("mountPath: /data", "path: /data", r"volumeMounts\.0\.path"),
        ("readOnly: true", "readonly: true", r"volumeMounts\.0\.readonly"),
        ("claimName:", "claim:", r"persistentVolumeClaim\.claim\b"),
        ("name: proxmesh\n", "name: Prox Mesh\n", r"metadata\.name"),
        ("apiVersion: kubeflow.org/v", "apiVersion: kubeflow/v", "apiVersion"),
    ],
)
def test_slips_are_found(right: str, wrong: str, place: str) -> None:
    planted = 0
    kinds: dict[str, type[Closed]] = {
        "mpijob.yaml": MPIJob,
        "pytorchjob.yaml": PyTorchJob,
    }
    for name, kind in kinds.items():
        if right not in text(name):
            continue
        manifest = yaml.safe_load(text(name).replace(right, wrong))
        with pytest.raises(ValidationError, match=place):
            kind.model_validate(manifest)
        planted += 1
    assert planted
