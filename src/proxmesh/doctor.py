"""Is this machine ready for a distributed run? Each finding with what to do.

Alone it tries the engines on this machine with two short-lived processes each. Started
by `mpiexec` or `torchrun` it joins the other processes and compares what they are.
"""

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, final

import torch
import torch.distributed as dist

from proxmesh import __version__
from proxmesh.launchers import cores, threads_allowed
from proxmesh.network.connecting import join_ranks

__all__ = ["Finding", "examine", "examine_together"]

TRIAL_SECONDS = 60
CLOCK_SECONDS = 1.0  # further apart, logs of several machines tell no order
DEFAULT_PORT = 29500  # torchrun's
EARLIEST = 1.75e9  # this program is younger
TRIAL = """
import proxmesh as pm, torch
world = pm.connect(pm.graphs.path(2), "{engine}", timeout=20)
rows = torch.tensor([[float(world.agents[0])]])
assert abs(world.exchange(rows).laplacian().item()) == 1
"""
ROOT_VARIABLES = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "note", "bad"]
    found: str
    remedy: str = ""


def examine() -> Iterator[Finding]:
    """Look at this machine, one thing after another."""
    yield _versions()
    yield _compiler()
    yield from _mpi()
    yield _gloo()
    yield _nccl()
    yield _host_name()
    yield _port()
    yield _threads()
    yield _clock()


def examine_together(engine: str, timeout: float) -> list[Finding]:
    """Compare the processes of a launcher; all of them call it."""
    begin = time.perf_counter()
    watch = join_ranks(engine, timeout)
    joined = time.perf_counter() - begin
    watch.reduce(torch.zeros(1), "sum")  # so that all read their clocks at once
    mine = {
        "host": socket.gethostname(),
        "time": time.time(),
        "cores": cores(),
        "processors": os.cpu_count() or 1,
        "threads": threads_allowed(),
        "python": platform.python_version(),
        "proxmesh": __version__,
        "torch": torch.__version__,
    }
    everyone = [json.loads(text) for text in watch.gather(json.dumps(mine))]
    ranks = watch.transport.size
    return [
        Finding("engine", "ok", f"{engine}: {ranks} ranks joined in {joined:.1f} s"),
        _hosts(everyone),
        _same(everyone),
        _clocks(everyone),
        _speed(watch),
    ]


# -- one machine -----------------------------------------------------------------------


def _versions() -> Finding:
    found = f"proxmesh {__version__}, torch {torch.__version__}, Python "
    return Finding("versions", "ok", found + platform.python_version())


def _compiler() -> Finding:
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler:
        return Finding("compiler", "ok", compiler)
    return Finding(
        "compiler", "note", "none", "`--compile` needs one: install g++. All else runs."
    )


def _mpi() -> Iterator[Finding]:
    install = "pip install 'proxmesh[mpi]'"
    try:
        found = f"mpi4py {version('mpi4py')}"
    except PackageNotFoundError:
        yield Finding("mpi", "note", "no mpi4py", f"For the engine `mpi`: {install}.")
        return
    mpiexec = _mpiexec()
    if mpiexec is None:
        yield Finding("mpi", "bad", f"{found}, no mpiexec", f"{install}, or load MPI.")
        return
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        missing = [name for name in ROOT_VARIABLES if os.environ.get(name) != "1"]
        if missing:
            yield Finding(
                "mpi as root",
                "note",
                "Open MPI's mpiexec refuses to run as root",
                f"Use another user, or `export {'=1 '.join(missing)}=1`.",
            )
    command = [mpiexec, "-n", "2", "--map-by", ":OVERSUBSCRIBE", sys.executable, "-c"]
    root = dict.fromkeys(ROOT_VARIABLES, "1")
    trouble = _tried([[*command, TRIAL.format(engine="mpi")]], [root])
    if trouble is None:
        yield Finding("mpi", "ok", f"{found}, {mpiexec}: two ranks exchanged")
    else:
        yield Finding(
            "mpi",
            "bad",
            f"{found}, {mpiexec}: {trouble}",
            f"Does mpi4py use the MPI of this mpiexec? If not, {install}.",
        )


def _mpiexec() -> str | None:
    """The launcher that came with our Python, else the first one on the path."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    return beside if os.access(beside, os.X_OK) else shutil.which("mpiexec")


def _gloo() -> Finding:
    if not dist.is_available() or not dist.is_gloo_available():
        return Finding("gloo", "bad", "not in this torch", "Install torch from PyPI.")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    command = [sys.executable, "-c", TRIAL.format(engine="torch")]
    trouble = _tried([command] * 2, [{**address, "RANK": rank} for rank in "01"])
    if trouble is None:
        return Finding("gloo", "ok", "two processes exchanged on loopback")
    return Finding(
        "gloo", "bad", trouble, "Try GLOO_SOCKET_IFNAME=lo, or that of your network."
    )


def _nccl() -> Finding:
    if not torch.cuda.is_available():
        return Finding("nccl", "note", "no GPU", "Runs on CPUs use gloo; all is well.")
    if not dist.is_nccl_available():
        return Finding("nccl", "bad", "not in this torch", "Install torch with CUDA.")
    return Finding("nccl", "ok", f"{torch.cuda.device_count()} GPUs")


def _host_name() -> Finding:
    name = socket.gethostname()
    try:
        addresses = {str(a[4][0]) for a in socket.getaddrinfo(name, None)}
    except OSError:
        return Finding(
            "host name",
            "bad",
            f"`{name}` does not resolve",
            f"Enter `127.0.0.1 {name}` (one machine) or its address in /etc/hosts.",
        )
    found = f"`{name}` is {', '.join(sorted(addresses))}"
    if all(a.startswith("127.") or a == "::1" for a in addresses):
        return Finding(
            "host name",
            "note",
            found,
            "Other machines cannot reach this one by it: enter its address in "
            "/etc/hosts, or set GLOO_SOCKET_IFNAME.",
        )
    return Finding("host name", "ok", found)


def _port() -> Finding:
    asked = os.environ.get("MASTER_PORT", "")
    port = int(asked) if asked.isdecimal() else DEFAULT_PORT
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return Finding(
                "port",
                "bad",
                f"{port} is in use",
                "Choose another: `torchrun --master-port`, or `--standalone`.",
            )
    return Finding("port", "ok", f"{port} (torchrun's) is free")


def _threads() -> Finding:
    asked = os.environ.get("OMP_NUM_THREADS")
    found = f"{cores()} cores, OMP_NUM_THREADS {asked or 'not set'}"
    if asked and asked.isdecimal() and int(asked) > 1:
        most = max(1, cores() // int(asked))
        return Finding(
            "threads",
            "note",
            found,
            f"More than {most} ranks here would share cores; OMP_NUM_THREADS=1 allows "
            f"{cores()}.",
        )
    return Finding("threads", "ok", f"{found}: ranks share them evenly")


def _clock() -> Finding:
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    if time.time() < EARLIEST:
        return Finding("clock", "bad", now, "Set it: certificates and logs need it.")
    return Finding("clock", "ok", now)


def _tried(commands: list[list[str]], environments: list[dict[str, str]]) -> str | None:
    """Run processes side by side; why they failed, or None."""
    launchers = ("OMPI_COMM", "PMIX_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(launchers)}
    processes = [
        subprocess.Popen(
            command,
            env={**clean, "OMP_NUM_THREADS": "1", **own},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command, own in zip(commands, environments, strict=True)
    ]
    try:
        for process in processes:
            _, errors = process.communicate(timeout=TRIAL_SECONDS)
            if process.returncode:
                lines = [line for line in errors.splitlines() if line.strip(" -")]
                return lines[-1] if lines else f"exit code {process.returncode}"
    except subprocess.TimeoutExpired:
        return f"no answer within {TRIAL_SECONDS} s"
    finally:
        for process in processes:
            process.kill()
    return None


# -- several processes -----------------------------------------------------------------


def _hosts(everyone: list[dict[str, Any]]) -> Finding:
    ranks = Counter(one["host"] for one in everyone)
    found = ", ".join(f"{host}: {count} ranks" for host, count in ranks.items())
    for one in everyone:
        busy = ranks[one["host"]] * one["threads"]
        if busy > max(one["cores"], one["processors"]):
            return Finding(
                "hosts",
                "note",
                f"{found}; {busy} threads on {one['cores']} cores of {one['host']}",
                "Start fewer ranks there or set OMP_NUM_THREADS=1; with more ranks "
                "than cores add `--mca mpi_yield_when_idle 1` to mpiexec.",
            )
    return Finding("hosts", "ok", found)


def _same(everyone: list[dict[str, Any]]) -> Finding:
    for name in ("proxmesh", "torch", "python"):
        values = [one[name] for one in everyone]
        odd = next((r for r, v in enumerate(values) if v != values[0]), None)
        if odd is not None:
            return Finding(
                "versions",
                "note" if name == "python" else "bad",
                f"{name} {values[0]} on rank 0, {values[odd]} on rank {odd}",
                "Install the same constraints.txt on every machine.",
            )
    first = everyone[0]
    return Finding(
        "versions", "ok", f"proxmesh {first['proxmesh']}, torch {first['torch']} on all"
    )


def _clocks(everyone: list[dict[str, Any]]) -> Finding:
    times = [one["time"] for one in everyone]
    apart = max(times) - min(times)
    if apart > CLOCK_SECONDS:
        return Finding(
            "clocks", "note", f"{apart:.1f} s apart", "Let NTP (chrony) set them."
        )
    return Finding("clocks", "ok", f"within {max(apart, 0.001):.3f} s")


def _speed(watch: Any) -> Finding:
    def timed(size: int, repeats: int) -> float:
        seconds: list[float] = []
        for _ in range(repeats):
            begin = time.perf_counter()
            watch.reduce(torch.zeros(size), "sum")
            seconds.append(time.perf_counter() - begin)
        return sorted(seconds)[repeats // 2]

    small, large = timed(1, 20), timed(2**20, 5)
    return Finding(
        "network",
        "ok",
        f"a reduction takes {small * 1e3:.2f} ms, of 4 MB {large * 1e3:.1f} ms",
    )
