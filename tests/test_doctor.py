"""The doctor really tries things, and says what to do about each."""

import socket
from pathlib import Path

import pytest
from ranks import Ranks, proxmesh

from proxmesh import doctor


@pytest.mark.long
def test_it_looks_at_everything_on_this_machine() -> None:
    findings = {finding.name: finding for finding in doctor.examine()}
    expected = {"versions", "compiler", "mpi", "gloo", "nccl", "host name", "port"}
    assert expected | {"threads", "clock"} <= set(findings)
    assert findings["mpi"].state == "ok", findings["mpi"]
    assert "two ranks exchanged" in findings["mpi"].found
    assert findings["gloo"].state == "ok", findings["gloo"]
    assert all(f.remedy for f in findings.values() if f.state != "ok")


def test_a_port_in_use_and_a_name_that_does_not_resolve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        monkeypatch.setenv("MASTER_PORT", str(taken.getsockname()[1]))
        assert doctor._port().state == "bad"
    monkeypatch.setenv("MASTER_PORT", "abc")
    assert doctor._port().name == "port"
    monkeypatch.setattr(socket, "gethostname", lambda: "no.such.host.invalid")
    found = doctor._host_name()
    assert found.state == "bad"
    assert "/etc/hosts" in found.remedy


def test_threads_and_root_are_worth_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    assert doctor._threads().state == "note"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    for name in doctor.ROOT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    note = next(iter(doctor._mpi()))
    assert note.name == "mpi as root"
    assert "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1" in (
        note.remedy
    )


def test_differences_between_ranks_are_found() -> None:
    one = {"host": "a", "time": 10.0, "cores": 2, "threads": 1, "processors": 2}
    one |= {"python": "3.11", "proxmesh": "1", "torch": "2"}
    other = {**one, "host": "b", "time": 15.0, "torch": "3", "threads": 4}
    assert doctor._same_versions([one, other]).state == "bad"
    assert "torch 2 on rank 0, 3 on rank 1" in doctor._same_versions([one, other]).found
    assert doctor._clocks([one, other]).state == "note"
    assert doctor._hosts([one, other]).state == "note"
    for look in (doctor._same_versions, doctor._clocks, doctor._hosts):
        assert look([one, one]).state == "ok"


@pytest.mark.ranks
def test_ranks_are_examined_together(tmp_path: Path) -> None:
    first, second = Ranks("torch", 2, proxmesh("doctor"), tmp_path).ended()
    assert (first.code, second.code) == (0, 0), first.err
    assert "torch: 2 ranks joined" in first.out
    assert second.out == ""
