"""Small files and settings that used to end in a traceback, a hang or no memory."""

import bz2
import gzip
import io
import os
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxmesh import graphs, limits
from proxmesh.data import datasets
from proxmesh.data.agent_files import load_agents
from proxmesh.errors import InputError, Notice, shortened
from proxmesh.files import read_text
from proxmesh.limits import available_memory, in_one_line, require_memory
from proxmesh.problems import models
from proxmesh.runs.build import build_algorithm, build_graph
from proxmesh.runs.config import load_config
from proxmesh.runs.presets import load_parameters
from proxmesh.runs.spaces import load_spaces

LONGEST = 400  # characters of a message


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        action()
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < LONGEST
    return message


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def written(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return written


Written = Callable[[str, str | bytes], Path]


# -- any file ------------------------------------------------------------------------

READERS: dict[str, Callable[[str], object]] = {
    "config": load_config,
    "parameters": load_parameters,
    "space": load_spaces,
    "graph file": graphs.from_file,
    "dataset": datasets.from_file,
}


@pytest.mark.parametrize("who", READERS)
def test_what_is_no_regular_file_is_refused_at_once(who: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place, kind in ((pipe, "a pipe"), (Path("/dev/zero"), "a device")):
        found = refusal(lambda p=place: READERS[who](str(p)))  # type: ignore[misc]
        assert found == f"{who} `{place}` is {kind}. Give a regular file."
    assert "folder" in refusal(lambda: READERS[who](str(tmp_path)))


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b.csv", "two\nlines.csv"])
@pytest.mark.parametrize("who", READERS)
def test_names_that_no_file_has(who: str, name: str) -> None:
    refusal(lambda: READERS[who](name))
    if who == "dataset":
        refusal(lambda: datasets.load(name))


def test_a_text_has_a_largest_size(file: Written) -> None:
    path = file("a.toml", b"#" * 100)
    assert read_text(path, "config", most=100) == "#" * 100
    assert refusal(lambda: read_text(path, "config", most=99)) == (
        f"config `{path}` has 100 bytes, more than the 99 bytes that such a file may "
        "have. Is it the right one?"
    )


def test_a_byte_order_mark_is_no_part_of_a_text(file: Written) -> None:
    assert load_config(file("a.toml", b"\xef\xbb\xbfseed = 3\n")).seed == 3


# -- sizes ---------------------------------------------------------------------------


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_memory() is not None
    monkeypatch.setattr(limits, "available_memory", lambda: 10**9)
    require_memory("a table", 10**9, "Shrink it.")
    found = refusal(lambda: require_memory("a table", 10**9 + 1, "Shrink it."))
    assert found == "a table needs 1 GB of memory, but 1 GB is free. Shrink it."
    monkeypatch.setattr(limits, "available_memory", lambda: None)  # nobody knows
    require_memory("a table", 10**30, "Shrink it.")


def test_a_container_allows_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"max": 5000, "current": 4000, "stat": "anon 1000\nfile 3000\n"}
    for name, value in facts.items():
        (tmp_path / f"memory.{name}").write_text(f"{value}\n")
    group = (str(tmp_path), "memory.max", "memory.current", "file ")
    monkeypatch.setattr(limits, "CGROUPS", [group])
    assert available_memory() == 4000
    (tmp_path / "memory.max").write_text("max\n")
    free = available_memory()
    assert free is not None
    assert free > 4000


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device", "a.csv"), "No space left on device"),
        (MemoryError(), "not enough memory"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory"),
            "not enough memory",
        ),
        (RecursionError(), "nested too deeply"),
        (OverflowError("int too large"), "too large"),
    ],
)
def test_what_the_system_refuses_becomes_one_line(error: Exception, said: str) -> None:
    def fail() -> None:
        with in_one_line("run `a`"):
            raise error

    found = refusal(fail)
    assert found.startswith("run `a`: ")
    assert said in found


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="a bug"), in_one_line("run `a`"):
        raise RuntimeError("a bug")


@pytest.mark.parametrize(
    "build",
    [
        lambda: graphs.star(100_000_000),
        lambda: graphs.complete(20_000),
        lambda: graphs.erdos_renyi(1_000_000),
        lambda: graphs.watts_strogatz(1_000_000, neighbors=1_000_000),
        lambda: graphs.random_regular(1_000_000, degree=1000),
        lambda: graphs.barabasi_albert(1_000_000, links=500_000),
        lambda: graphs.ring(10**400),
        lambda: models.mlp(100, 2, hidden=10**12),
        lambda: models.logistic(10**9, 10**9),
        lambda: datasets.synthetic(features=10**9),
        lambda: datasets.synthetic(samples=3 * 10**9),
        lambda: datasets.synthetic(samples=10**400),
        lambda: datasets.synthetic(classes=100_000),
    ],
)
def test_sizes_are_compared_before_anything_is_made(build: Callable[[], Any]) -> None:
    refusal(build)


# -- TOML ----------------------------------------------------------------------------

DIGITS, BRACKETS = "1" * 5001, "[" * 5000
DEEP = "[" * 200 + "]" * 200


@pytest.mark.parametrize(
    "value", [DIGITS, BRACKETS, DEEP], ids=["digits", "open", "deep"]
)
def test_endless_values(value: str, file: Written) -> None:
    path = str(file("a.toml", f"x = {value}\n"))
    for read in (load_config, load_parameters, load_spaces):
        refusal(lambda r=read: r(path))  # type: ignore[misc]
    refusal(lambda: load_config(assignments=[f"seed={value}"]))


def test_endless_keys(file: Written) -> None:
    path = file("a.toml", f"[{'a.' * 300_000}b]\n")
    begin = time.monotonic()
    assert "nested too deeply" in refusal(lambda: load_config(path))
    dotted = "a." * 300_000 + "b=1"
    assert "nested too deeply" in refusal(lambda: load_config(assignments=[dotted]))
    assert time.monotonic() - begin < 10  # the parser alone needs a minute


def test_a_line_break_adds_no_second_assignment() -> None:
    config = load_config(assignments=["graph.name=1\nx=2"])
    assert config.graph.name == "1\nx=2"


@pytest.mark.parametrize("key", ["n", "name_", "beside", "also_known", "options"])
def test_parameters_of_our_functions_are_no_options(key: str) -> None:
    config = load_config(assignments=[f"graph.{key}=1", f"data.{key}=1"])
    assert "unknown option" in refusal(lambda: build_graph(config))
    refused = refusal(
        lambda: datasets.loaded("synthetic", None, config.data.options, ["split"])
    )
    assert "unknown option" in refused


def test_data_dir_is_no_option_of_a_data_set() -> None:
    for name in ("digits", "mnist"):
        found = refusal(lambda n=name: datasets.loaded(n, None, {"data_dir": "x"}))  # type: ignore[misc]
        assert "unknown option `data_dir`" in found


def test_huge_numbers_are_not_finite() -> None:
    config = load_config(assignments=["algorithm.c_rho=" + "9" * 400])
    assert "c_rho" in refusal(lambda: build_algorithm(config))


# -- graphs --------------------------------------------------------------------------


def test_far_agents_take_no_memory(file: Written) -> None:
    path = file("a.edges", "0 1\n0 1000000000000\n")
    assert "has 1000000000001 agents, but 8" in refusal(
        lambda: graphs.make(str(path), 8)
    )
    found = refusal(lambda: graphs.from_file(path))
    assert "has 999999999999 connected components" in found


@pytest.mark.parametrize("line", ["0 " + "1" * 5000, "x" * 2_000_000, "0 1 2" * 99])
def test_long_lines_are_not_echoed(line: str, file: Written) -> None:
    path = file("a.edges", line)
    assert "line 1: expected two agents" in refusal(lambda: graphs.from_file(path))


def test_options_of_a_graph_file_are_refused(file: Written) -> None:
    path = str(file("a.edges", "0 1\n"))
    assert "unknown option `prob`" in refusal(lambda: graphs.make(path, 2, prob=0.5))


# -- csv -----------------------------------------------------------------------------

BODY = "1,2,0\n3,4,1\n5,6,0\n7,8,1\n"


def samples(path: Path) -> int:
    data = datasets.from_file(path)
    assert data.test is not None
    return len(data.inputs) + len(data.test[0])


def test_a_byte_order_mark_costs_no_sample(file: Written) -> None:
    assert samples(file("a.csv", "\ufeff" + BODY)) == 4
    assert samples(file("b.csv", "\ufeffa,b,y\n" + BODY)) == 4


@pytest.mark.parametrize("word", ["NA", "", "?", "nan", "null", "-"])
def test_a_missing_value_in_the_first_line_costs_no_sample(
    word: str, file: Written
) -> None:
    found = refusal(lambda: datasets.from_file(file("a.csv", f"{word},1,0\n" + BODY)))
    assert "line 1, column `0`" in found
    refusal(lambda: datasets.from_file(file("b.csv", "1,2,NA\n" + BODY)))


def test_words_and_numbers_in_the_first_line_are_told(file: Written) -> None:
    with pytest.warns(Notice, match="taken for the names of the columns"):
        assert samples(file("a.csv", "height,1990,y\n" + BODY)) == 4


@pytest.mark.parametrize("label", ["inf", "-inf", "1e400", "9" * 400, "9" * 5000])
def test_infinity_is_no_class(label: str, file: Written) -> None:
    path = file("a.csv", BODY + f"1,2,{label}\n")
    assert "is not a class" in refusal(lambda: datasets.from_file(path))


def test_a_feature_of_400_digits(file: Written) -> None:
    path = file("a.csv", BODY + "9" * 400 + ",2,0\n")
    assert "line 5, column `0`" in refusal(lambda: datasets.from_file(path))


def test_labels_that_are_numbers_and_then_words(file: Written) -> None:
    data = datasets.from_file(file("a.csv", BODY * 3 + "1,2,cat\n" * 5))
    assert data.num_classes == 3


def test_truth_values_are_numbers_and_classes(file: Written) -> None:
    data = datasets.from_file(file("a.csv", "True,1,yes\nFalse,2,no\n" * 4))
    assert sorted(set(data.inputs[:, 0].tolist())) == [0, 1]
    assert datasets.from_file(file("b.csv", "1,True\n2,False\n" * 4)).num_classes == 2


# -- LIBSVM --------------------------------------------------------------------------


@pytest.mark.parametrize("index", [10**9, 2**31, 2**63, 2**64, 10**30])
def test_far_features_take_no_memory(index: int, file: Written) -> None:
    path = file("a.svm", f"1 {index}:1\n" + "0 1:1\n" * 20)
    refusal(lambda: datasets.from_file(path))


def test_features_that_are_far_apart_stay_sparse(file: Written) -> None:
    path = file("a.svm", f"1 {10**7}:1\n" + "0 1:1\n1 2:1\n" * 20)
    data = datasets.from_file(path)
    assert data.features <= 10**7
    assert data.inputs.size < 10**4


def test_a_wide_test_file_does_not_widen_the_training_part(
    file: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = file("a.svm", "0 1:1\n1 2:1\n" * 100)
    test = file("b.svm", "0 1000000:1\n")
    monkeypatch.setattr(limits, "available_memory", lambda: 10**8)
    assert "needs 1.6 GB" in refusal(lambda: datasets.from_file(train, test=test))


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip), ("bz2", bz2)])
@pytest.mark.parametrize("text", ["1 1:1\n", "0"], ids=["lines", "one endless line"])
def test_a_small_packed_file_that_is_large_unpacked(
    ending: str, pack: Any, text: str, file: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(f"a.svm.{ending}", pack.compress(text.encode() * 10**6))
    assert path.stat().st_size < 10**5
    monkeypatch.setattr(
        "proxmesh.data.sparse_files.available_memory", lambda: 8 * 10**5
    )
    assert "unpacks to more than 100 kB" in refusal(lambda: datasets.from_file(path))


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip), ("bz2", bz2)])
def test_a_packed_file_is_read_like_a_plain_one(
    ending: str, pack: Any, file: Written
) -> None:
    text = "".join(f"{i % 2} 1:{i % 7} 3:{i % 7 / 2}\n" for i in range(5000))
    plain = datasets.from_file(file("a.svm", text))
    packed = datasets.from_file(file(f"b.svm.{ending}", pack.compress(text.encode())))
    assert np.array_equal(plain.inputs, packed.inputs)
    assert np.array_equal(plain.targets, packed.targets)


# -- npz -----------------------------------------------------------------------------

X, Y = np.arange(80.0).reshape(40, 2), np.arange(40) % 2


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def archive(path: Path, how: int = zipfile.ZIP_STORED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", how) as packed:
        for name, content in members.items():
            packed.writestr(f"{name}.npy", content)
    return path


def header(shape: str, dtype: str = "<f8") -> bytes:
    text = (
        f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    )
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    "x",
    [
        npy(np.zeros((40, 0))),
        b"no array at all",
        header("(1000000000000000, 2)"),
        header("(40, 2)"),
        header("(-1, 2)"),
        header("(40, 2)", "|O"),
        header("(" * 300),
        npy(np.array([{}, 1], object)),
        npy(X.astype(complex)),
        npy(np.zeros(40, [("a", "f8")])),
    ],
)
def test_arrays_that_are_not_what_they_say(x: bytes, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", x=x, y=npy(Y))
    refusal(lambda: datasets.from_file(path))


@pytest.mark.parametrize(
    "y", [Y + 1j, Y.astype("datetime64[s]"), np.where(Y, np.inf, 0.0), Y * np.nan]
)
def test_labels_that_are_no_classes(y: Any, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", x=npy(X), y=npy(y))
    refusal(lambda: datasets.from_file(path))


def test_fields_of_a_zip_archive_that_nobody_understands(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", zipfile.ZIP_DEFLATED, x=npy(X), y=npy(Y))
    sound = path.read_bytes()
    entry = sound.index(b"PK\x01\x02")  # of x, in the directory
    assert samples(path) == 40
    fields = {"encrypted": 8, "compression": 10, "version needed": 6}
    for place, value in zip(fields.values(), (b"\x01", b"\x63", b"\xfd"), strict=True):
        path.write_bytes(sound[: entry + place] + value + sound[entry + place + 1 :])
        assert "is not a plain .npz" in refusal(lambda: datasets.from_file(path))


def test_a_damaged_lzma_stream(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", zipfile.ZIP_LZMA, x=npy(X), y=npy(Y))
    sound = path.read_bytes()
    assert samples(path) == 40
    for at in range(45, 120, 5):
        path.write_bytes(sound[:at] + b"\xff" * 5 + sound[at + 5 :])
        refusal(lambda: datasets.from_file(path))


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    zeros = header("(40, 10000000)") + bytes(0)
    path = archive(tmp_path / "a.npz", x=zeros, y=npy(Y))
    content = path.read_bytes()
    directory = content.index(b"PK\x01\x02") + 24  # its size when unpacked, as claimed
    claimed = struct.pack("<I", len(zeros) + 40 * 10**7 * 8)
    path.write_bytes(content[:directory] + claimed + content[directory + 4 :])
    assert "swells from" in refusal(lambda: datasets.from_file(path))


def test_members_that_are_not_asked_for_are_not_read(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", x=npy(X), y=npy(Y), z=b"junk")
    assert samples(path) == 40


def test_no_memory_for_an_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path / "a.npz", x=npy(X), y=npy(Y))
    monkeypatch.setattr(limits, "available_memory", lambda: 1000)
    assert "needs 1.3 kB of memory" in refusal(lambda: datasets.from_file(path))


# -- one file per agent --------------------------------------------------------------


@pytest.mark.parametrize("label", ["inf", "1e300", str(2**62), str(10**9), "cat"])
@pytest.mark.parametrize("name", ["agent-1.csv", "test.csv"])
def test_labels_of_agents_are_small_numbers(
    name: str, label: str, file: Written
) -> None:
    for other in ("agent-0.csv", "agent-1.csv", "test.csv"):
        path = file(other, BODY)
    path = file(name, BODY + f"1,2,{label}\n")
    found = refusal(lambda: load_agents(path.parent, [0, 1], lambda number: number))
    assert name in found


# -- words ---------------------------------------------------------------------------


def test_messages_are_one_short_line() -> None:
    assert str(InputError("a\nb\r\0c")) == "a b  c"
    assert len(str(InputError("x" * 10**6))) <= 2000
    assert shortened(10**5000) == "a number of thousands of digits"
    assert shortened([10**5000], write=repr) == "a number of thousands of digits"
