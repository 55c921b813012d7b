"""Wrong commands as people type them: one short line, exit code 2, nothing written."""

import bz2
import io
import os
import signal
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from proxmesh.cli import main

DIGITS, BRACKETS = "1" * 5001, "[" * 5000
FEW = ["--dataset", "breast-cancer", "--model", "logistic", "--steps", "2"]
RUN = ["run", "--agents", "4", *FEW]
LONGEST = 700  # characters of a message: lists of known names are long


def archive(**arrays: object) -> bytes:
    held = io.BytesIO()
    np.savez(held, **arrays)  # type: ignore[arg-type]
    return held.getvalue()


def header(shape: str) -> bytes:
    """An array file that promises a shape and holds nothing."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def zipped(x: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        file.writestr("x.npy", x)
        file.writestr("y.npy", header("(40,)") + bytes(320))
    return held.getvalue()


X, Y = np.ones((40, 3)), np.arange(40) % 2

FILES: dict[str, bytes] = {
    "digits.toml": f"seed = {DIGITS}\n".encode(),
    "brackets.toml": f"seed = {BRACKETS}\n".encode(),
    "unknown.toml": b"[grahp]\nname = 'ring'\n",
    "latin.toml": "name = 'é'\n".encode("latin-1"),
    "empty-only.toml": b"[regularizer]\nonly = []\n",
    "far.edges": b"0 1000000000000\n",
    "digits.edges": f"0 {DIGITS}\n".encode(),
    "self.edges": b"0 0\n",
    "long.edges": b"a" * 2_000_000,
    "words.csv": b"a,b,label\n1,x,0\n2,3,1\n",
    "digits.csv": f"{'9' * 400},1,0\n1,2,1\n".encode(),
    "infinite.csv": b"1,2,inf\n1,3,0\n",
    "ragged.csv": b"1,2,0\n1,0\n",
    "empty.csv": b"",
    "far.libsvm": b"1 1:1 1000000000:1\n-1 2:1\n",
    "farther.libsvm": b"1 1:1 2147483648:1\n-1 2:1\n",
    "zero.libsvm": b"1 0:1\n-1 2:1\n",
    "words.libsvm": b"1 a:b\n",
    "flat.npz": archive(x=np.ones((40, 0)), y=Y),
    "objects.npz": archive(x=np.array([{}] * 40, dtype=object), y=Y),
    "infinite.npz": archive(x=X, y=np.full(40, np.inf)),
    "huge-labels.npz": archive(x=X, y=np.full(40, 2**62)),
    "short.npz": archive(x=X, y=Y[:7]),
    "text.npz": zipped(b"no array"),
    "promises.npz": zipped(header("(1000000000000000,)")),
    "no-archive.npz": b"PK\x03\x04" + b"\xff" * 100,
    "broken.bz2": bz2.compress(b"1 1:1\n")[:-4],
}

COMMANDS: list[list[str]] = [
    *([*RUN[:1], "--config", name] for name in FILES if name.endswith(".toml")),
    *([*RUN, "--graph", name] for name in FILES if name.endswith(".edges")),
    *(
        ["run", "--dataset", name, "--agents", "4", "--steps", "2"]
        for name in FILES
        if not name.endswith((".toml", ".edges"))
    ),
    [*RUN, "--config", "/dev/zero"],
    [*RUN, "--config", "pipe"],
    [*RUN, "--graph", "/dev/zero"],
    [*RUN, "--config", "missing.toml"],
    [*RUN, "--set", f"seed={DIGITS}"],
    [*RUN, "--set", f"seed={BRACKETS}"],
    [*RUN, "--set", "graph.n=5"],
    [*RUN, "--set", "graph.beside=1"],
    [*RUN, "--set", "data.beside=1"],
    [*RUN, "--set", "data.data_dir=x"],
    [*RUN, "--set", "nowhere=1"],
    [*RUN, "--set", "algorithm.c_rho=-1"],
    [*RUN, "--set", "algorithm.c_rho=nan"],
    [*RUN, "--set", "algorithm.lr=0.1"],
    [*RUN, "--set", "model.hidden=1000000000000", "--model", "mlp"],
    ["run", "--dataset", "synthetic", "--set", "data.features=1000000000"],
    ["run", "--dataset", "synthetic", "--set", "data.samples=3000000000"],
    ["run", "--dataset", "synthetic", "--set", "data.classes=100000"],
    [*RUN, "--algorithm", "hsm_admm"],
    [*RUN, "--algorithm", "missing.py:Mine"],
    [*RUN, "--graph", "rign"],
    [*RUN, "--agents", "0"],
    [*RUN, "--agents", "1000"],
    [*RUN, "--batch", "0"],
    [*RUN, "--steps", "-1"],
    [*RUN, "--l1", "-1"],
    [*RUN, "--l1", "1e300"],
    [*RUN, "--l1", "nan"],
    [*RUN, "--dtype", "float8"],
    [*RUN, "--device", "tpu"],
    [*RUN, "--engine", "carrier-pigeon"],
    [*RUN, "--eval-every", "0"],
    [*RUN, "--checkpoint-every", "soon"],
    [*RUN, "--target", "stationarity"],
    [*RUN, "--target", "beauty=1"],
    [*RUN, "--threads", "0"],
    [*RUN, "--timeout", "-1"],
    [*RUN, "--out", "x" * 300],
    [*RUN, "--out", "digits.csv"],
    [*RUN, "--resume", "nowhere"],
    [*RUN, "--link", "loss=1.5"],
    [*RUN, "--link", "delay=-1"],
    [*RUN, "--link", "gravity=1"],
    ["resume", "nowhere"],
    ["resume", "."],
    ["compare", "nowhere"],
    ["compare", "--algorithms", "hsm-admm,hsm-admn", *FEW],
    ["compare", "--seeds", "0", *FEW],
    ["compare", "--params", "brackets.toml", *FEW],
    ["tune", "--algorithm", "hsm-admm", "--trials", "0", *FEW],
    ["report", "nowhere"],
    ["plot", "nowhere"],
    ["runs", "nowhere"],
    ["runs", "show", "nowhere"],
    ["graph", "star", "--agents", "100000000"],
    ["graph", "complete", "--agents", "20000"],
    ["graph", "ring", "--agents", "1"],
    ["graph", "ring", "--out", "digits.csv"],
    ["check", "--smoothness", "-1"],
    ["check", "--smoothness", "1e308"],
    ["check", "--algorithm", "dsgtt"],
    ["list", "animals"],
    ["data", "verify", "nowhere"],
    ["paper", "fig-nothing"],
    ["bench", "--only", "nothing"],
    ["new", "../elsewhere/x\ny"],
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # keep pytest's handlers
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    os.mkfifo("pipe")
    return tmp_path


@pytest.mark.long
def test_wrong_commands_end_in_one_line(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One test for all: the files are made once. Failures are told together."""
    wrong = [
        f"{' '.join(words)[:100]}\n    {complaint}"
        for words in COMMANDS
        if (complaint := complaint_about(words, capsys))
    ]
    assert not wrong, f"{len(wrong)} of {len(COMMANDS)}:\n" + "\n".join(wrong)
    assert {path.name for path in place.iterdir()} == {*FILES, "pipe"}
    for name, content in FILES.items():
        assert Path(name).read_bytes() == content, name


def complaint_about(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What is not as it should be when this is typed; empty if all is well."""
    try:
        main(list(words))
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        return f"raises {error!r}"[:300]
    else:
        code = 0
    said = capsys.readouterr().err.strip()
    last = said.splitlines()[-1] if said else ""
    if code != 2:
        return f"ends with {code}: {last[:200]}"
    if "Traceback" in said or not last.startswith("error: "):
        return f"says {said[:300]!r}"
    if len(last) > LONGEST:
        return f"says {len(last)} characters"
    return ""
