"""Three hosts with addresses of their own; one link is cut in the middle of a run."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import Hosts, why_not
from ranks import AS_ROOT, MPIEXEC, PYTHON, clean_environment

REASON = why_not()
pytestmark = [
    pytest.mark.ranks,
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
]

HOSTS = 3
TIMEOUT = 3
SLACK = 4  # seconds, for a machine with more ranks than cores
RUN = [str(PYTHON), "-m", "proxmesh", "run", "--graph", "ring", "--agents", "6"]
RUN += ["--dataset", "breast-cancer", "--model", "logistic", "--eval-every", "20"]
RUN += ["--quiet", "--compile", "off"]  # `auto` would compile so long a run
INTO_FILES = 'exec "$@" >"$0/$R.out" 2>"$0/$R.err"'
# The probes take longer than our timeout, so that ranks speak before mpiexec ends them;
# without any mpiexec itself would wait for ever: see docs/distributed.md.
KEEPALIVE = ["oob_tcp_keepalive_time=1", "oob_tcp_keepalive_intvl=3"]
KEEPALIVE += ["oob_tcp_keepalive_probes=3"]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with Hosts(HOSTS, tmp_path / "hosts") as made:
        yield made


def started(
    engine: str, hosts: Hosts, folder: Path, options: list[str]
) -> list["subprocess.Popen[bytes]"]:
    """Start a run over all hosts, one rank on each."""
    folder.mkdir()
    words = [*RUN, "--engine", engine, "--timeout", str(TIMEOUT)]
    words += ["--out", str(folder / "run"), *options]
    env = {
        **clean_environment(),
        **AS_ROOT,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "eth0",
    }
    if engine == "mpi":
        script = f"R=$OMPI_COMM_WORLD_RANK; {INTO_FILES}"
        tuning = [f"plm_ssh_agent={hosts.agent}", "prte_if_include=eth0", *KEEPALIVE]
        launch = [str(MPIEXEC), "--host", ",".join(f"{n}:1" for n in hosts.names)]
        for setting in tuning:
            launch += ["--prtemca", *setting.split("=", 1)]
        launch += ["--mca", "btl_tcp_if_include", "eth0"]
        launch += ["--mca", "mpi_yield_when_idle", "1", "-n", str(HOSTS)]
        commands = [
            hosts.command(0, [*launch, "sh", "-c", script, str(folder), *words])
        ]
    else:
        script = f"R=$RANK; {INTO_FILES}"
        torchrun = [str(PYTHON.with_name("torchrun")), "--nnodes", str(HOSTS)]
        torchrun += ["--nproc-per-node", "1", "--master-addr", hosts.addresses[0]]
        torchrun += ["--master-port", "29511", "--no-python"]
        inside = ["sh", "-c", script, str(folder)]
        commands = [
            hosts.command(
                i,
                [*torchrun, "--node-rank", str(i), *inside, *words],
            )
            for i in range(HOSTS)
        ]
    with (folder / "launcher.log").open("wb") as log:
        return [
            subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=folder)
            for command in commands
        ]


def wait_for(condition: "os.PathLike[str]", lines: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    file = Path(condition)
    while not (file.exists() and file.read_text().count("\n") > lines):
        logs = {f.name: f.read_text()[-800:] for f in file.parents[1].glob("*.*")}
        assert time.monotonic() < deadline, logs
        time.sleep(0.1)


@pytest.mark.parametrize("engine", ["mpi", "torch"])
def test_a_cut_link_ends_a_run_cleanly(
    engine: str, hosts: Hosts, tmp_path: Path
) -> None:
    folder = tmp_path / "ranks"
    processes = started(engine, hosts, folder, ["--steps", "10000000"])
    try:
        wait_for(folder / "run" / "history.csv", lines=3, seconds=60)
        hosts.cut(2)
        begin = time.monotonic()
        said: dict[int, str] = {}
        while len(said) < HOSTS:
            assert time.monotonic() - begin < TIMEOUT + 5 + SLACK, said
            for rank in range(HOSTS):
                text = (folder / f"{rank}.err").read_text()
                if "error: rank" in text and text.endswith("\n"):
                    said[rank] = text
            time.sleep(0.05)
        for rank in (0, 1):
            assert "rank 2 (agents 4-5)" in said[rank]
        assert "rank 0 (agents 0-1) and rank 1 (agents 2-3) were silent" in said[2]
        for text in said.values():
            assert text.count("error: ") == 1, text
            assert "after iteration" in text
            assert "start all ranks again" in text
        if engine == "torch":  # mpiexec takes half a minute more, and returns 0
            assert [process.wait(timeout=60) for process in processes] == [1, 1, 1]
    finally:
        for process in processes:
            process.kill()
            process.wait()
