"""Every reader, given damaged files: a valid object or one line, nothing else."""

import io
import re
import resource
import sys
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxmesh import graphs
from proxmesh.data import datasets, download
from proxmesh.data.agent_files import load_agents
from proxmesh.errors import InputError, Notice
from proxmesh.runs.build import build_algorithm
from proxmesh.runs.config import load_config
from proxmesh.runs.presets import load_parameters
from proxmesh.runs.spaces import load_spaces
from proxmesh.solver.folder import RunFolder

CASES, MANY_CASES = 100, 10_000
LONGEST = 2_500  # characters of a message
SLOWEST = 5_000  # milliseconds; far above any case, far below a hang
ROOM = 256 * 2**20  # bytes that all cases of a reader may add to the largest so far


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def packed_otherwise(how: int) -> bytes:
    array, file = io.BytesIO(), io.BytesIO()
    np.save(array, np.arange(12.0).reshape(6, 2))
    with zipfile.ZipFile(file, "w", how) as archive:
        archive.writestr("x.npy", array.getvalue())
        archive.writestr("y.npy", array.getvalue())
    return file.getvalue()


X, Y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
SPARSE = {
    "data": np.array([1.0, 2.0, 3.0]),
    "indices": np.array([0, 1, 1]),
    "indptr": np.array([0, 1, 1, 1, 2, 3, 3]),
    "shape": np.array([6, 2]),
}
CSV = b"height,weight,adult\n1.5,20,0\n1.8,80,1\n1.1,25,0\n1.7,70,1\n"
LIBSVM = b"-1 1:2 3:0.5\n+1 2:1\n-1 1:-1 # note\n+1 3:1e-3\n"


def agents(file: Path) -> object:
    other = "agent-1" + file.suffix
    (file.parent / other).write_bytes(file.read_bytes())
    return load_agents(file.parent, [0, 1], lambda number: number)


@dataclass(frozen=True)
class Reader:
    name: str  # of the file it reads
    read: Callable[[Path], object]
    sound: tuple[bytes, ...]


READERS = {
    "config": Reader(
        "a.toml",
        lambda file: build_algorithm(load_config(file)),
        (
            b'seed = 1\n[graph]\nname = "star"\nagents = 4\n[run]\nsteps = 20\n'
            b'target = { stationarity = 1e-3 }\n[regularizer]\nonly = ["a*"]\n',
            b'[algorithm]\nname = "hsm-admm"\nc_rho = 0.1\nc_eta = 0.2\nc_a = 1.0\n',
            b'[data]\nsplit = "unequal"\nsizes = [1, 2, 3]\nalpha = 0.5\n',
        ),
    ),
    "assignment": Reader(
        "a.txt",
        lambda file: load_config(
            assignments=[file.read_bytes().decode("utf-8", "replace")]
        ),
        (b"algorithm.c_rho=0.1", b"data.sizes=[1, 2]", b"run.target={x=1}"),
    ),
    "parameters": Reader(
        "a.toml",
        lambda file: load_parameters(str(file)),
        (
            b'[task]\n"data.name" = "a9a"\n[methods.hsm-admm]\nc_rho = 0.1\n'
            b'[methods.slow]\nalgorithm = "dsgt"\nalpha = 1.0\n',
        ),
    ),
    "spaces": Reader(
        "a.toml",
        lambda file: [space.grid(9) for space in load_spaces(str(file)).values()],
        (
            b"[dsgt]\nalpha = { low = 1e-3, high = 1.0 }\n[hsm-admm]\n"
            b"c_rho = { low = 0.1, high = 2.0 }\nc_eta = { low = 1.0, high = 2.0, "
            b'times = "c_rho" }\nc_a = { choices = [1.0, 2.0] }\n',
        ),
    ),
    "npz": Reader(
        "a.npz",
        datasets.from_file,
        (
            npz(x=X, y=Y),
            npz(X_train=X.astype(np.uint8), y_train=Y, X_test=X, y_test=Y),
            npz(x=X, y=np.array(list("ababab"))),
            npz(x=np.array([{}], object), y=Y),
            packed_otherwise(zipfile.ZIP_LZMA),
            packed_otherwise(zipfile.ZIP_BZIP2),
            packed_otherwise(zipfile.ZIP_STORED),
        ),
    ),
    "csv": Reader("a.csv", datasets.from_file, (CSV, b"1,2,cat\n3,4,dog\n5,6,cat\n")),
    "libsvm": Reader("a.svm", datasets.from_file, (LIBSVM,)),
    "libsvm of numbers": Reader(
        "a.svm",
        lambda file: datasets.from_file(file, numbers=True, zero_based=True),
        (LIBSVM, b"0.5 0:2 3:0.5\n-1e3 2:1\n7 1:-1\n"),
    ),
    "sparse npz": Reader(
        "a.npz",
        datasets.from_file,
        (
            npz(**SPARSE, y=Y),
            npz(**SPARSE, format=np.array(b"csr"), y=Y),
            npz(**SPARSE | {"indices": np.array([0, 9, 1])}, y=Y),
            npz(**SPARSE | {"indptr": np.array([0, 3, 1, 1, 2, 2, 3])}, y=Y),
            npz(**SPARSE | {"shape": np.array([6, -1])}, y=Y),
            npz(**SPARSE | {"shape": np.array([6, 2**62])}, y=Y),
        ),
    ),
    "idx": Reader(
        "a.idx",
        lambda file: download._from_idx(file.read_bytes()),
        (b"\0\0\x08\x03" + b"\0\0\0\2" * 3 + bytes(8), b"\0\0\x08\1\0\0\0\3abc"),
    ),
    "graph": Reader(
        "a.edges", graphs.from_file, (b"# a\n0 1\n1,2  # b\n\n2 0\n2\t3\n",)
    ),
    "agents of a run": Reader(
        "agents.csv",
        lambda file: RunFolder(file.parent).agents(),
        (b"iteration,agent,train_loss,consensus\n0,0,0.5,0\n0,1,0.7,1e-9\n",),
    ),
    "first layer of a run": Reader(
        "first_layer.csv",
        lambda file: RunFolder(file.parent).first_layer(),
        (
            b"iteration,weight_rows,weight_columns,rows,columns,cells\n"
            b"0,2,1,2,1,eNr7/x8AAv8B/w==\n5,2,1,2,1,eNpj+A8AAQEBAA==\n",
        ),
    ),
    "agent csv": Reader("agent-0.csv", agents, (CSV,)),
    "agent libsvm": Reader("agent-0.svm", agents, (LIBSVM,)),
    "agent npz": Reader("agent-0.npz", agents, (npz(x=X, y=Y),)),
}

AWKWARD = st.sampled_from(
    [
        *(b"nan inf -inf NA null 1e400 1e-400 -0 true 0x10 1_0 \xef\xbb\xbf").split(),
        *(b'[ [[ ]] { } = . , ; : # " \' """ \\ \n \r \0 \xff \xc3\xa9').split(b" "),
        *(str(n).encode() for n in (2**31, 2**32, 2**62, 2**63, 2**64, 10**15)),
        *(b"9" * 400, b"9" * 5000, b"[" * 3000, b"a." * 300, b"x" * 200_000),
        *(b"\0" * 64, b"\n" * 50, b"\xff\xff\xff\xff", b"PK\x01\x02", b"\x93NUMPY"),
    ]
)
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "replace", "cut", "repeat", "word", "word"]),
        st.integers(0, 2**16),
        st.integers(0, 40),
        AWKWARD
        | st.binary(max_size=8)
        | st.text("0123456789.,-e", max_size=9).map(str.encode),
    ),
    min_size=1,
    max_size=5,
)


def edited(content: bytes, edits: list[tuple[str, int, int, bytes]]) -> bytes:
    for how, where, length, text in edits:
        begin = where % (len(content) + 1)
        end = begin + length
        words = list(re.finditer(rb"[\w.+-]+", content)) if how == "word" else []
        if words:  # a value in the place of another
            begin, end = words[where % len(words)].span()
        piece = content[begin:end]
        new = {"insert": text + piece, "cut": b"", "repeat": piece * 9}.get(how, text)
        content = content[:begin] + new + content[end:]
    return content


def largest_so_far() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def complaint(reader: Reader, file: Path) -> str | None:
    """Read the file: what is said against it, or None. Nothing else is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        try:
            reader.read(file)
        except InputError as error:
            return str(error)
    return None


def fuzz(reader: Reader, folder: Path, cases: int) -> None:
    file = folder / reader.name

    @settings(
        max_examples=cases,
        deadline=SLOWEST,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(sound=st.sampled_from(reader.sound), edits=EDITS)
    def attempt(sound: bytes, edits: list[tuple[str, int, int, bytes]]) -> None:
        file.write_bytes(edited(sound, edits))
        message = complaint(reader, file)
        assert message is None or (message.isprintable() and len(message) < LONGEST)

    file.write_bytes(reader.sound[0])
    assert complaint(reader, file) is None, "a sound file is read"
    before = largest_so_far()
    attempt()
    assert largest_so_far() - before < ROOM


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    fuzz(READERS[name], tmp_path, CASES)


@pytest.mark.soak
@pytest.mark.parametrize("name", READERS)
def test_many_damaged_files(name: str, tmp_path: Path) -> None:
    fuzz(READERS[name], tmp_path, MANY_CASES)
