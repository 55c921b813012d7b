"""Is this machine ready for a distributed run? Each diagnosis says what to do.

Started alone, it tries each engine on this machine with two short-lived processes.
Started by `mpiexec` or `torchrun`, it joins the other processes and compares them.
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
from proxmesh.network.timeouts import Watch
from proxmesh.solver.compile_step import why_no_compiler

__all__ = ["Diagnosis", "examine", "examine_together"]

TRIAL_SECONDS = 60
CLOCK_SECONDS = 1.0  # further apart, logs of several machines cannot be ordered
DEFAULT_PORT = 29500  # torchrun's
EARLIEST = 1.75e9  # in 2025; a clock that shows less was never set
TRIAL = """
import proxmesh as pm, torch
world = pm.connect(pm.graphs.path(2), "{engine}", timeout=20)
rows = torch.tensor([[float(world.agents[0])]])
assert abs(world.exchange(rows).laplacian().item()) == 1
"""
ROOT_VARIABLES = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")


@final
@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was examined, what was found, and what to do about it."""

    name: str
    state: Literal["ok", "note", "bad"]
    found: str
    remedy: str = ""


def examine() -> Iterator[Diagnosis]:
    """Examine this machine, one thing after another."""
    yield _versions()
    yield _compiler()
    yield from _mpi()
    yield _gloo()
    yield _nccl()
    yield _host_name()
    yield _port()
    yield _threads()
    yield _clock()


def examine_together(engine: str, timeout: float) -> list[Diagnosis]:
    """Compare the processes of a launcher; every one of them calls it.

    Parameters
    ----------
    engine
        ``"mpi"`` or ``"torch"``.
    timeout
        Seconds until a silent process counts as lost.
    """
    begin = time.perf_counter()
    watch = join_ranks(engine, timeout)
    joined = time.perf_counter() - begin
    watch.reduce(torch.zeros(1), "sum")  # so that all read their clocks now
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
        Diagnosis("engine", "ok", f"{engine}: {ranks} ranks joined in {joined:.1f} s"),
        _hosts(everyone),
        _same_versions(everyone),
        _clocks(everyone),
        _speed(watch),
    ]


# -- one machine -----------------------------------------------------------------------


def _versions() -> Diagnosis:
    found = f"proxmesh {__version__}, torch {torch.__version__}, Python "
    return Diagnosis("versions", "ok", found + platform.python_version())


def _compiler() -> Diagnosis:
    refusal = why_no_compiler()
    if refusal is None:
        return Diagnosis("compiler", "ok", "torch finds a C++ compiler")
    found, _, remedy = refusal.partition(". ")
    return Diagnosis(
        "compiler",
        "note",
        found,
        f"`--compile` needs it: {remedy} Everything else works without.",
    )


def _mpi() -> Iterator[Diagnosis]:
    install = "`pip install 'proxmesh[mpi]'`"
    try:
        found = f"mpi4py {version('mpi4py')}"
    except PackageNotFoundError:
        yield Diagnosis(
            "mpi", "note", "no mpi4py", f"For the engine `mpi`, run {install}."
        )
        return
    mpiexec = _mpiexec()
    if mpiexec is None:
        yield Diagnosis(
            "mpi",
            "bad",
            f"{found}, no mpiexec",
            f"Run {install}, or load your system's MPI.",
        )
        return
    if sys.platform != "win32" and os.geteuid() == 0:
        missing = [name for name in ROOT_VARIABLES if os.environ.get(name) != "1"]
        if missing:
            yield Diagnosis(
                "mpi as root",
                "note",
                "Open MPI's mpiexec refuses to run as root",
                f"Use another user, or `export {'=1 '.join(missing)}=1`.",
            )
    command = [mpiexec, "-n", "2", "--map-by", ":OVERSUBSCRIBE", sys.executable, "-c"]
    root = dict.fromkeys(ROOT_VARIABLES, "1")
    trouble = _trouble_with([[*command, TRIAL.format(engine="mpi")]], [root])
    if trouble is None:
        yield Diagnosis("mpi", "ok", f"{found}, {mpiexec}: two ranks exchanged")
    else:
        yield Diagnosis(
            "mpi",
            "bad",
            f"{found}, {mpiexec}: {trouble}",
            f"If mpi4py uses another MPI than this mpiexec, run {install}.",
        )


def _mpiexec() -> str | None:
    """The launcher installed beside our Python, else the first one on the path."""
    ours = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    return ours if os.access(ours, os.X_OK) else shutil.which("mpiexec")


def _gloo() -> Diagnosis:
    if not dist.is_available() or not dist.is_gloo_available():
        return Diagnosis("gloo", "bad", "not in this torch", "Install torch from PyPI.")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    command = [sys.executable, "-c", TRIAL.format(engine="torch")]
    trouble = _trouble_with([command] * 2, [{**address, "RANK": rank} for rank in "01"])
    if trouble is None:
        return Diagnosis("gloo", "ok", "two processes exchanged on loopback")
    return Diagnosis(
        "gloo",
        "bad",
        trouble,
        "Set GLOO_SOCKET_IFNAME to `lo`, or to the name of your interface.",
    )


def _nccl() -> Diagnosis:
    if not torch.cuda.is_available():
        return Diagnosis(
            "nccl", "note", "no GPU", "Runs on CPUs use gloo and do not need one."
        )
    if not dist.is_nccl_available():
        return Diagnosis("nccl", "bad", "not in this torch", "Install torch with CUDA.")
    return Diagnosis("nccl", "ok", f"{torch.cuda.device_count()} GPUs")


def _host_name() -> Diagnosis:
    name = socket.gethostname()
    try:
        addresses = {str(a[4][0]) for a in socket.getaddrinfo(name, None)}
    except OSError:
        return Diagnosis(
            "host name",
            "bad",
            f"`{name}` does not resolve",
            f"Enter `127.0.0.1 {name}` (one machine) or its address in /etc/hosts.",
        )
    found = f"`{name}` is {', '.join(sorted(addresses))}"
    if all(a.startswith("127.") or a == "::1" for a in addresses):
        return Diagnosis(
            "host name",
            "note",
            found,
            "Other machines cannot reach this one by that name: enter its address in "
            "/etc/hosts, or set GLOO_SOCKET_IFNAME.",
        )
    return Diagnosis("host name", "ok", found)


def _port() -> Diagnosis:
    asked = os.environ.get("MASTER_PORT", "")
    port = int(asked) if asked.isdecimal() else DEFAULT_PORT
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return Diagnosis(
                "port",
                "bad",
                f"{port} is in use",
                "Choose another: `torchrun --master-port`, or `--standalone`.",
            )
    return Diagnosis("port", "ok", f"{port} (torchrun's) is free")


def _threads() -> Diagnosis:
    asked = os.environ.get("OMP_NUM_THREADS")
    found = f"{cores()} cores, OMP_NUM_THREADS {asked or 'not set'}"
    if asked and asked.isdecimal() and int(asked) > 1:
        most = max(1, cores() // int(asked))
        return Diagnosis(
            "threads",
            "note",
            found,
            f"More than {most} ranks on this machine would compete for cores; "
            f"OMP_NUM_THREADS=1 leaves room for {cores()}.",
        )
    return Diagnosis("threads", "ok", f"{found}: ranks divide them evenly")


def _clock() -> Diagnosis:
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    if time.time() < EARLIEST:
        return Diagnosis(
            "clock", "bad", now, "Set it: certificates and logs depend on it."
        )
    return Diagnosis("clock", "ok", now)


def _trouble_with(
    commands: list[list[str]], environments: list[dict[str, str]]
) -> str | None:
    """Run processes side by side and return why one failed, or None."""
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


def _hosts(everyone: list[dict[str, Any]]) -> Diagnosis:
    ranks = Counter(one["host"] for one in everyone)
    found = ", ".join(f"{host}: {count} ranks" for host, count in ranks.items())
    for one in everyone:
        busy = ranks[one["host"]] * one["threads"]
        if busy > max(one["cores"], one["processors"]):
            return Diagnosis(
                "hosts",
                "note",
                f"{found}; {busy} threads on {one['cores']} cores of {one['host']}",
                "Start fewer ranks there or set OMP_NUM_THREADS=1; with more ranks "
                "than cores add `--mca mpi_yield_when_idle 1` to mpiexec.",
            )
    return Diagnosis("hosts", "ok", found)


def _same_versions(everyone: list[dict[str, Any]]) -> Diagnosis:
    for name in ("proxmesh", "torch", "python"):
        values = [one[name] for one in everyone]
        odd = next((r for r, v in enumerate(values) if v != values[0]), None)
        if odd is not None:
            return Diagnosis(
                "versions",
                "note" if name == "python" else "bad",
                f"{name} {values[0]} on rank 0, {values[odd]} on rank {odd}",
                "Install from the same constraints.txt on every machine.",
            )
    first = everyone[0]
    return Diagnosis(
        "versions", "ok", f"proxmesh {first['proxmesh']}, torch {first['torch']} on all"
    )


def _clocks(everyone: list[dict[str, Any]]) -> Diagnosis:
    times = [one["time"] for one in everyone]
    apart = max(times) - min(times)
    if apart > CLOCK_SECONDS:
        return Diagnosis(
            "clocks",
            "note",
            f"{apart:.1f} s apart",
            "Synchronize them with NTP (chrony).",
        )
    return Diagnosis("clocks", "ok", f"within {max(apart, 0.001):.3f} s")


def _speed(watch: Watch) -> Diagnosis:
    def timed(size: int, repeats: int) -> float:
        seconds: list[float] = []
        for _ in range(repeats):
            begin = time.perf_counter()
            watch.reduce(torch.zeros(size), "sum")
            seconds.append(time.perf_counter() - begin)
        return sorted(seconds)[repeats // 2]

    small, large = timed(1, 20), timed(2**20, 5)
    return Diagnosis(
        "network",
        "ok",
        f"a reduction takes {small * 1e3:.2f} ms, one of 4 MB {large * 1e3:.1f} ms",
    )
