"""Start several ranks of a program under an engine and collect how each one ends."""

import atexit
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

ENGINES = ("mpi", "torch")
WORKER = Path(__file__).with_name("worker.py")
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"  # the worker's slow link
PYTHON = Path(sys.executable)
MPIEXEC = PYTHON.with_name("mpiexec")
MPI_FLAGS = ["--map-by", ":OVERSUBSCRIBE", "--mca", "mpi_yield_when_idle", "1"]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# What each rank says goes into files of its own. mpiexec ends all ranks when one has
# gone, so there its own exit code is all that can be known. Ranks of torch.distributed
# are forked from a server that has imported torch once: most of a start is imports.
FORKS: Any = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["proxmesh.runs.build", "sklearn.datasets", "torch.fx.experimental.proxy_tensor"]
)
MPI_RANK = 'R=$OMPI_COMM_WORLD_RANK; exec "$@" >"$0/$R.out" 2>"$0/$R.err"'


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


class Ranks:
    """A program that runs on several ranks."""

    def __init__(
        self,
        engine: str,
        size: int,
        command: Sequence[str | Path],
        folder: Path,
        extra: Mapping[int, list[str]] | None = None,
    ) -> None:
        self.engine = engine
        self.size = size
        self.folder = folder
        self.token = uuid.uuid4().hex
        self.processes: list[subprocess.Popen[bytes]] = []
        self.forks: list[BaseProcess] = []
        folder.mkdir(parents=True, exist_ok=True)
        base = {
            **clean_environment(),
            **AS_ROOT,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(BENCHMARKS), os.environ.get("PYTHONPATH")])
            ),
            "RANKS_TOKEN": self.token,
        }
        words = [str(word) for word in command]
        if engine == "mpi":
            launch = [str(MPIEXEC), *MPI_FLAGS, "-n", str(size)]
            self._start([*launch, "sh", "-c", MPI_RANK, str(folder), *words], base)
            return
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        sizes = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
        for rank in range(size):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            environment = {**base, **address, **sizes, **own}
            more = [*words[1:], *(extra or {}).get(rank, [])]
            rest = environment, more, str(folder), rank
            process = FORKS.Process(target=_live, args=rest, daemon=True)
            process.start()
            self.forks.append(process)

    def _start(self, command: list[str], env: Mapping[str, str]) -> None:
        self.processes.append(
            subprocess.Popen(
                command,
                env=env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def ended(self, without: Sequence[int] = (), timeout: float = 120) -> list[Ended]:
        """Wait until all ranks (but some) have ended; end what is left."""
        deadline = time.monotonic() + timeout
        expected = [r for r in range(self.size) if r not in without]
        try:
            while not all(self._is_over(rank) for rank in expected):
                assert time.monotonic() < deadline, f"still running: {self.said()}"
                time.sleep(0.05)
            return [self._read(rank) for rank in expected]
        finally:
            self.end()

    def end(self) -> None:
        for pid in self.pids().values():
            _kill(pid)
        for process in self.processes:
            _kill(process.pid)
            process.wait()
        for fork in self.forks:
            fork.kill()
            fork.join()

    def pids(self) -> dict[int, int]:
        """Process ids by rank."""
        if self.forks:
            return {rank: fork.pid or 0 for rank, fork in enumerate(self.forks)}
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                words = (entry / "environ").read_bytes().split(b"\0")
                env = dict(w.decode(errors="ignore").partition("=")[::2] for w in words)
                rank = env.get("OMPI_COMM_WORLD_RANK")
                if env.get("RANKS_TOKEN") == self.token and rank is not None:
                    found[int(rank)] = int(entry.name)
        return found

    def said(self) -> dict[str, str]:
        return {f.name: f.read_text()[-2000:] for f in sorted(self.folder.glob("*.*"))}

    def _is_over(self, rank: int) -> bool:
        if self.forks:
            return self.forks[rank].exitcode is not None
        return self.processes[0].poll() is not None

    def _read(self, rank: int) -> Ended:
        out, err = (
            (self.folder / f"{rank}.{kind}").read_text() for kind in ("out", "err")
        )
        code = self.forks[rank].exitcode if self.forks else self.processes[0].returncode
        return Ended(int(code or 0), out, err)


def _live(
    environment: dict[str, str], words: list[str], folder: str, rank: int
) -> None:
    """The life of a forked rank: as if Python had been started with these words."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, kind in ((1, "out"), (2, "err")):
        file = os.open(f"{rank}.{kind}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
    sys.stdout, sys.stderr = (os.fdopen(n, "w", buffering=1) for n in (1, 2))
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0
    except BaseException:  # multiprocessing would pass Python's own hook by
        sys.excepthook(*sys.exc_info())
        code = 1
    else:
        code = 0
    atexit._run_exitfuncs()
    os._exit(code)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def run_ranks(
    engine: str, size: int, command: Sequence[str | Path], folder: Path
) -> list[Ended]:
    """Run to the end and expect success everywhere."""
    ended = Ranks(engine, size, command, folder).ended()
    assert [e.code for e in ended] == [0] * size, [e.err[-1500:] for e in ended]
    return ended


def worker(*arguments: str | Path) -> list[str | Path]:
    return [PYTHON, WORKER, *arguments]


def proxmesh(*arguments: str | Path) -> list[str | Path]:
    return [PYTHON, "-m", "proxmesh", *arguments]


def clean_environment() -> dict[str, str]:
    """Without variables of a launcher that may have started us."""
    prefixes = ("OMPI_", "PMIX_", "PRTE_", "TORCHELASTIC_")
    names = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"}
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(prefixes) and name not in names
    }


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
