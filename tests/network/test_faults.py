"""What a rank says and does when others, their launcher or the environment fail it."""

import errno
import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import torch
from torch.distributed import HashStore  # type: ignore[attr-defined]

import proxmesh as pm
from proxmesh import launchers
from proxmesh.cli import main
from proxmesh.launchers import Launch, launched
from proxmesh.network import exits, meeting, orphans, timeouts
from proxmesh.network.timeouts import Watch


class Arrived:
    def wait(self, seconds: float) -> None:
        del seconds


class Alone:
    """A transport for one rank that remembers its notes, and hears given ones."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.name, self.rank, self.size, self.local_size = "fake", rank, size, size
        self.epoch = 0
        self.posted: list[str] = []
        self.heard: dict[int, str] = {}

    def link(self, peers: Any) -> Any:
        raise NotImplementedError

    def reduce(self, x: torch.Tensor, op: str) -> Arrived:
        del x, op
        return Arrived()

    def post(self, note: str) -> None:
        self.posted.append(note)

    def hang_up(self) -> None:
        pass

    def notes(self) -> dict[int, str]:
        return self.heard


def test_what_ranks_tell_one_another_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(Alone(), timeout=1)
    assert watch.gather("Zürich") == ["Zürich"]
    monkeypatch.setattr(timeouts, "MOST_TEXT", 5)
    with pytest.raises(pm.InputError, match="7 bytes about its run, but at most 5"):
        watch.gather("Zürich")


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ("RANK=5 WORLD_SIZE=2", "RANK is `5`, but must be a whole number from 0 to 1"),
        ("RANK=0 WORLD_SIZE=0", "WORLD_SIZE is `0`, but must be a whole number of at"),
        ("RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=0", "LOCAL_WORLD_SIZE is `0`"),
        ("RANK=x WORLD_SIZE=2", "RANK is `x`"),
        ("RANK=-1 WORLD_SIZE=2", "RANK is `-1`"),
        ("RANK=0 WORLD_SIZE=" + "9" * 5000, "WORLD_SIZE is `" + "9" * 40 + "`"),
        ("RANK=0 WORLD_SIZE=2 MASTER_PORT=70000", "MASTER_PORT is `70000`"),
        ("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=0", "OMPI_COMM_WORLD_SIZE is"),
        ("PMI_RANK=3 PMI_SIZE=3", "PMI_RANK is `3`"),
    ],
)
def test_what_no_launcher_would_set_is_refused_at_once(
    environment: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for setting in environment.split():
        monkeypatch.setenv(*setting.split("="))
    with pytest.raises(pm.InputError, match=words):
        launched(os.environ)
    with pytest.raises(SystemExit) as end:
        main(["run", "--steps", "5"])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_what_a_launcher_leaves_out_is_derived() -> None:
    found = launched({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": ""})
    assert (found.local_rank, found.local_size) == (3, 4)
    slurm = {"PMIX_RANK": "1", "SLURM_STEP_NUM_TASKS": "2"}
    assert launched({**slurm, "SLURM_NTASKS_PER_NODE": "8"}).local_size == 2


class EndedError(BaseException):
    """Stands for the end of the process."""


def ended_by(
    error: BaseException, transport: Alone, monkeypatch: pytest.MonkeyPatch
) -> int:
    """Let an error reach the hook of a rank's script; return the exit code."""
    watch = Watch(transport, timeout=1)
    monkeypatch.setattr(exits, "JOINED", [])
    monkeypatch.setattr("atexit.register", lambda *_: None)
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)
    monkeypatch.setattr(launchers, "SECONDS_TO_BE_ENDED", 1.0)
    monkeypatch.setenv("RANK", str(transport.rank))
    monkeypatch.setenv("WORLD_SIZE", str(transport.size))

    def end(code: int) -> None:
        raise EndedError(code)

    monkeypatch.setattr(exits, "end_process", end)
    exits.end_on_error(watch)
    with pytest.raises(EndedError) as found:
        sys.excepthook(type(error), error, None)
    return int(found.value.args[0])


FULL = OSError(errno.ENOSPC, "No space left on device", "run/history.csv")


@pytest.mark.parametrize(
    ("error", "code", "here", "there"),
    [
        (
            pm.InputError("label `7` of Ann"),
            2,
            "proxmesh: label `7` of Ann\n",
            "stopped: bad input, see its own message",
        ),
        (FULL, 2, f"proxmesh: {FULL}\n", "stopped: No space left on device"),
        (MemoryError(), 1, "", "stopped: out of memory"),
        (KeyboardInterrupt(), 130, "", "stopped: interrupted"),
        (ValueError("a\nb"), 1, "", "stopped: ValueError: a"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_script_ends_in_one_line_and_tells_the_others_in_words(
    rank: int,
    error: BaseException,
    code: int,
    here: str,
    there: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    transport = Alone(rank, size=2)
    begin = time.monotonic()
    assert ended_by(error, transport, monkeypatch) == code
    assert time.monotonic() - begin < 0.5  # at once
    assert capsys.readouterr().err == here
    assert transport.posted == [there]


def test_what_the_root_has_found_too_is_left_to_the_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transport = Alone(rank=1, size=2)
    transport.heard[0] = "stopped: bad input, see its own message"
    begin = time.monotonic()
    assert ended_by(pm.InputError("a shared fault"), transport, monkeypatch) == 2
    assert time.monotonic() - begin > 1  # it would have been ended meanwhile


@pytest.mark.parametrize(
    ("environment", "ends"),
    [
        ("RANK=1 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=1", True),
        ("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", True),
        ("RANK=1 WORLD_SIZE=2", False),
    ],
    ids=["torchrun", "mpiexec", "by hand"],
)
def test_a_rank_ends_with_its_launcher(
    environment: str, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting in environment.split():
        monkeypatch.setenv(*setting.split("="))
    said, speaks = os.pipe()
    launcher = os.fork()
    if not launcher:
        if not os.fork():  # the rank
            os.dup2(speaks, 2)
            orphans.end_with_launcher()
            os.write(2, b"joined\n")
            time.sleep(2)
            os.write(2, b"trained\n")
            os._exit(0)
        time.sleep(60)
        os._exit(1)
    os.close(speaks)
    with os.fdopen(said) as words:
        assert words.readline() == "joined\n"
        os.kill(launcher, signal.SIGKILL)
        os.waitpid(launcher, 0)
        name = "mpiexec" if "OMPI" in environment else "torchrun"
        gone = f"proxmesh: rank 1 ends: {name}, which started it, is gone.\n"
        assert words.read() == (gone if ends else "trained\n")


def test_a_silent_listener_at_the_port_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(silent.getsockname()[1]))
        begin = time.monotonic()
        with pytest.raises(pm.InputError, match=r"did not answer within 0\.5 s"):
            meeting.open_store(timedelta(seconds=0.5))
        assert time.monotonic() - begin < 5


def met(store: Any, ranks: list[int], size: int, seconds: float = 20) -> list[Any]:
    """What these ranks find at the store: a part of it, or an error."""

    def come(rank: int) -> Any:
        try:
            return meeting.meet(
                store, Launch("torchrun", "torch", rank, size), timedelta(0, seconds)
            )
        except pm.LostRankError as error:
            return str(error)

    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(come, ranks))


def test_who_does_not_come_is_named_by_all_others() -> None:
    store = HashStore()
    met(store, [0, 1, 2], 3)  # an earlier start, whose traces do not count
    words = "rank 2 of 3 ranks did not join within 0.5 s. See the messages"
    for said in met(store, [0, 1], 3, 0.5):
        assert words in said
    (said,) = met(store, [1], 3, 0.5)
    assert "rank 0 of 3 ranks did not join" in said
    (said,) = met(store, [0], 9, 0.1)
    assert "rank 4 and rank 5 and 3 more of 9 ranks did not join" in said


def test_a_restart_finds_nothing_of_the_start_before() -> None:
    store = HashStore()
    before = met(store, [0, 1, 2], 3)
    before[1].set("note", "lost")
    assert before[2].get("note") == b"lost"
    after = met(store, [2, 1, 0], 3)
    assert not any(part.check(["note"]) for part in after)
