"""Files of run folders from anybody: read, or refused in one line with their name."""

import base64
import contextlib
import json
import os
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import proxmesh as pm
from proxmesh.report.runs import collect
from proxmesh.report.tables import as_latex, as_markdown, last_rows
from proxmesh.runs.listing import details_of, listed_runs
from proxmesh.solver.folder import RunFolder

LAYER = b"iteration,weight_rows,weight_columns,rows,columns,cells\n"
BOMB = base64.b64encode(zlib.compress(bytes(2**24)))
HONEST = {
    "config.toml": b"seed = 3\n\n[algorithm]\nname = 'dsgt'\nalpha = 0.1\n\n[run]\n"
    b"steps = 2\nautomatic = ['alpha']\n",
    "summary.json": b'{"outcome": "finished", "message": "2 iterations.", '
    b'"final": {"iteration": 2, "norm": 0.5}, "versions": {"python": "3.11"}}\n',
    "history.csv": b"iteration,norm,seconds\n0,9.0,0.0\n1,1e-3,0.5\n2,0.5,inf\n",
    "theory.csv": b"iteration,lemma2_left\n1,0.5\n2,\n",
    "failed.txt": b"no room left\n",
    "agents.csv": b"iteration,agent,train_loss,consensus\n0,0,0.5,0\n0,1,0.7,1e-9\n",
    "first_layer.csv": b"iteration,weight_rows,weight_columns,rows,columns,cells\n"
    b"0,2,1,2,1,eNr7/x8AAv8B/w==\n5,2,1,2,1,eNpj+A8AAQEBAA==\n",
}
READERS: dict[str, list[Callable[[RunFolder], object]]] = {
    "config.toml": [RunFolder.config],
    "summary.json": [RunFolder.summary],
    "history.csv": [RunFolder.history, RunFolder.last_row],
    "theory.csv": [RunFolder.theory],
    "failed.txt": [RunFolder.failure],
    "agents.csv": [RunFolder.agents],
    "first_layer.csv": [RunFolder.first_layer],
}
HOSTILE = {
    "config.toml": [
        b"seed = [1]",
        b"seed = true",
        b"seed = 1" + b"0" * 5000,
        b"seed = 1979-05-27",
        b"algorithm = 5",
        b"[algorithm]\nname = [1]",
        b'[data]\nname = "a\\nb"',
        b'[graph]\nname = "\\u001b[2J"',
        b"[run]\nautomatic = 5",
        b"[run]\nautomatic = [[1]]",
        b"x = " + b"[" * 100_000,
        b"seed = 0\nseed = 1",
        b"\xff\xfe",
    ],
    "summary.json": [
        b"",
        b"[" * 100_000,
        b"null",
        b"{}",
        b'{"outcome": ["finished"], "message": "", "final": {}}',
        b'{"outcome": "won", "message": "", "final": {}}',
        b'{"outcome": "finished", "message": 5, "final": {}}',
        b'{"outcome": "finished", "message": "\\ud800", "final": {}}',
        b'{"outcome": "finished", "message": "", "final": {"iteration": "2"}}',
        b'{"outcome": "finished", "message": "", "final": {"norm": 1' + b"0" * 4000,
    ],
    "history.csv": [
        b"",
        b"norm\n1.0\n",
        b"iteration,norm\n0,many\n",
        b"iteration,norm\n0,True\n",
        b"iteration,norm\n0,1,2,3\n",
        b"iteration\nnan\n",
        b"iteration\n-1\n",
        b"iteration\n0.5\n",
        b"iteration\n1e308\n",
        b"iteration\n" + b"9" * 400 + b"\n",
        b'iteration,norm\n0,"1\n',
        b"iteration,norm\n0,\xff\n",
        b"iteration\x00\n0\n",
    ],
    "theory.csv": [b"", b"iteration,step\n1,far\n", b"\xff"],
    "failed.txt": [b"\xff", b"no room\xc3"],
    "agents.csv": [
        b"",
        b"iteration,agent\n0,0\n",
        b"iteration,agent,train_loss,consensus\n0,zero,1,1\n",
        b"iteration,agent,train_loss,consensus\n0,-1,1,1\n",
        b"iteration,agent,train_loss,consensus\n0,0.5,1,1\n",
        b"iteration,agent,train_loss,consensus\n0,,1,1\n",
        b"iteration,agent,train_loss,consensus\n0,1,1,1\n0,1,1,1\n",
    ],
    "first_layer.csv": [
        b"",
        LAYER,
        LAYER + b"0,2,1,2,1\n",
        LAYER + b"0,2,1,2,1,not base64\n",
        LAYER + b"0,2,1,2,1,eNpj+A8=\n",  # cut
        LAYER + b"0,3,1,3,1,eNpj+A8AAQEBAA==\n",  # too few cells
        LAYER + b"0,1,1,1,1,eNpj+A8AAQEBAA==\n",  # too many
        LAYER + b"0,1,1,2,1,eNpj+A8AAQEBAA==\n",  # more rows than the weight has
        LAYER + b"0,99999,1,99999,1,eNpj+A8AAQEBAA==\n",
        LAYER + b"0,2,1,2,1,eNpj+A8AAQEBAA==\n" * 2,  # twice at one iteration
        LAYER + b"-1,2,1,2,1,eNpj+A8AAQEBAA==\n",
        LAYER + b"0,2,1,2,1," + BOMB + b"\n",
    ],
}


def refused(folder: Path, name: str) -> list[str]:
    """Read one file in every way; all that may go wrong is an InputError."""
    reasons = []
    for read in READERS[name]:
        try:
            read(RunFolder(folder))
        except pm.InputError as error:
            reasons.append(str(error))
    return reasons


def test_honest_files_are_read(tmp_path: Path) -> None:
    for name, content in HONEST.items():
        (tmp_path / name).write_bytes(content)
        assert refused(tmp_path, name) == []
    run = RunFolder(tmp_path)
    assert run.history()["norm"].tolist() == [9.0, 1e-3, 0.5]
    assert run.last_row() == {"iteration": 2, "norm": 0.5, "seconds": float("inf")}
    assert run.failure() == "no room left"
    agents, layer = run.agents(), run.first_layer()
    assert agents is not None
    assert agents["train_loss"].tolist() == [0.5, 0.7]
    assert layer is not None
    assert (layer.iterations, layer.shape) == ([0, 5], (2, 1))
    assert layer.density.tolist() == [[[1.0], [1.0]], [[0.0], [1.0]]]
    assert run.is_whole()


@pytest.mark.parametrize(
    ("name", "content"),
    [(name, content) for name, contents in HOSTILE.items() for content in contents],
    ids=lambda value: value if isinstance(value, str) else repr(value[:40]),
)
def test_a_malformed_file_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes
) -> None:
    for honest, right in HONEST.items():
        (tmp_path / honest).write_bytes(right)
    (tmp_path / name).write_bytes(content)
    reasons = refused(tmp_path, name)
    assert reasons
    assert all(name in reason and len(reason) < 300 for reason in reasons)
    assert not any("\n" in reason for reason in reasons)
    if name in RunFolder.HOLDS_A_RUN:
        assert not RunFolder(tmp_path).is_whole()


@pytest.mark.parametrize("name", HONEST)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    kinds: list[tuple[Callable[[], None], Callable[[], None]]] = [
        (lambda: os.mkfifo(file), file.unlink),  # nobody will ever write to it
        (lambda: file.symlink_to("/dev/zero"), file.unlink),
        (file.mkdir, file.rmdir),
    ]
    for make, undo in kinds:
        make()
        reasons = refused(tmp_path, name)
        assert len(reasons) == len(READERS[name])
        assert all(f"{name}` is not a regular file" in reason for reason in reasons)
        undo()


def test_a_file_beyond_any_size_is_not_read(tmp_path: Path) -> None:
    for name in HONEST:
        with (tmp_path / name).open("wb") as file:
            file.truncate(2**40)  # a hole: it takes no room
        [reason, *_] = refused(tmp_path, name)
        assert "1,099,511,627,776 bytes" in reason


def test_the_last_row_is_the_last_complete_one(tmp_path: Path) -> None:
    file, run = tmp_path / "history.csv", RunFolder(tmp_path)
    file.write_text("iteration,norm\n")
    assert run.last_row() == {}
    file.write_text("iteration,norm\n0,9.0\n5,0.12\n10,0.")
    assert run.last_row() == {"iteration": 5, "norm": 0.12}
    rows = pd.DataFrame({"iteration": range(20_000), "norm": 0.5})
    rows.to_csv(file, index=False)
    assert run.last_row() == {"iteration": 19_999, "norm": 0.5}


def mutations(honest: bytes) -> st.SearchStrategy[bytes]:
    """An honest file with some bytes cut out and others put in, or no such file."""
    telling = st.sampled_from(
        [b"[", b'"', b"\n", b"nan", b"1e308", b"-1", b"9" * 30, b"\xff", b"\x00", b","]
    )
    inserted = st.one_of(telling, st.binary(max_size=6))
    place = st.integers(0, len(honest))
    edits = st.lists(st.tuples(place, st.integers(0, 8), inserted), max_size=4)

    def edited(changes: list[tuple[int, int, bytes]]) -> bytes:
        content = honest
        for start, length, new in changes:
            content = content[:start] + new + content[start + length :]
        return content

    return st.one_of(edits.map(edited), st.binary(max_size=200))


def used(folder: Path) -> None:
    """List, show and tabulate a run as the commands do."""
    json.dumps([run.tree() for run in listed_runs(folder)], allow_nan=False)
    json.dumps(details_of(RunFolder(folder)).tree(), allow_nan=False)
    with warnings.catch_warnings(), contextlib.suppress(pm.InputError):
        warnings.simplefilter("ignore", pm.Notice)
        runs = collect([folder])
        as_markdown(runs).encode()
        as_latex(runs).encode()
        last_rows(runs).to_csv()


def fuzzed(folder: Path, name: str, cases: int) -> None:
    seen: set[bool] = set()
    for other, content in HONEST.items():
        if other != "failed.txt" or name == "failed.txt":
            (folder / other).write_bytes(content)
    if name == "failed.txt":
        (folder / "summary.json").unlink()

    @settings(
        max_examples=cases,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(mutations(HONEST[name]))
    def look(content: bytes) -> None:
        (folder / name).write_bytes(content)
        seen.add(bool(refused(folder, name)))
        used(folder)

    look()
    assert seen == {True, False}


@pytest.mark.parametrize("name", HONEST)
def test_no_content_of_a_file_is_a_surprise(tmp_path: Path, name: str) -> None:
    fuzzed(tmp_path, name, 100)


@pytest.mark.soak
@pytest.mark.parametrize("name", HONEST)
def test_no_content_of_a_file_is_a_surprise_at_length(
    tmp_path: Path, name: str
) -> None:
    fuzzed(tmp_path, name, 10_000)
